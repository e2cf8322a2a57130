package expr_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/expr"
)

// TestAxes: every function that takes axes counts negative ones from the back, and refuses those that a value does not have.
func TestAxes(t *testing.T) {
	x := filled(t, 3, 2, 3, 4)
	at, err := expr.Of([]int64{1, 0}, 2)
	require.NoError(t, err)
	each, err := expr.Of(make([]int64, 2*3*4), 2, 3, 4)
	require.NoError(t, err)
	scales := map[int]*expr.Tensor[float32]{0: filled(t, 1, 2, 3, 4), 1: filled(t, 1, 3, 4), 2: filled(t, 1, 4)}
	asFloats := func(e expr.Expr[int64]) expr.Expr[float32] { return expr.Cast[float32](e) }
	for name, of := range map[string]func(axis int) expr.Value[float32]{
		"Concat":          func(a int) expr.Value[float32] { return expr.Concat[float32](a, x, x) },
		"Gather":          func(a int) expr.Value[float32] { return expr.Gather[float32, int64](x, at, a) },
		"GatherElements":  func(a int) expr.Value[float32] { return expr.GatherElements[float32, int64](x, each, a) },
		"ReduceSum":       func(a int) expr.Value[float32] { return expr.ReduceSum[float32](x, false, a) },
		"ReduceMean":      func(a int) expr.Value[float32] { return expr.ReduceMean[float32](x, true, a) },
		"ReduceMax":       func(a int) expr.Value[float32] { return expr.ReduceMax[float32](x, false, a) },
		"ReduceMin":       func(a int) expr.Value[float32] { return expr.ReduceMin[float32](x, true, a) },
		"ReduceProd":      func(a int) expr.Value[float32] { return expr.ReduceProd[float32](x, false, a) },
		"ReduceL1":        func(a int) expr.Value[float32] { return expr.ReduceL1[float32](x, true, a) },
		"ReduceL2":        func(a int) expr.Value[float32] { return expr.ReduceL2[float32](x, false, a) },
		"ReduceSumSquare": func(a int) expr.Value[float32] { return expr.ReduceSumSquare[float32](x, true, a) },
		"ReduceLogSum":    func(a int) expr.Value[float32] { return expr.ReduceLogSum[float32](x, false, a) },
		"ReduceLogSumExp": func(a int) expr.Value[float32] { return expr.ReduceLogSumExp[float32](x, true, a) },
		"ArgMax":          func(a int) expr.Value[float32] { return asFloats(expr.ArgMax[float32](x, a, false)) },
		"ArgMin":          func(a int) expr.Value[float32] { return asFloats(expr.ArgMin[float32](x, a, true)) },
		"Softmax":         func(a int) expr.Value[float32] { return expr.Softmax[float32](x, a) },
		"LogSoftmax":      func(a int) expr.Value[float32] { return expr.LogSoftmax[float32](x, a) },
		"LayerNormalization": func(a int) expr.Value[float32] {
			return expr.LayerNormalization[float32](x, scales[(a+3)%3], nil, a, 1e-5)
		},
		"CumSum":              func(a int) expr.Value[float32] { return expr.CumSum[float32](x, a) },
		"Pick":                func(a int) expr.Value[float32] { return expr.Pick[float32](x, a, -1) },
		"Tensor.Pick":         func(a int) expr.Value[float32] { return x.Pick(a, 1) },
		"Transpose":           func(a int) expr.Value[float32] { return expr.Transpose[float32](x, others(a)...) },
		"Expr.Transpose":      func(a int) expr.Value[float32] { return expr.Neg[float32](x).Transpose(others(a)...) },
		"Tensor.Transpose":    func(a int) expr.Value[float32] { return x.Transpose(others(a)...) },
		"ReduceSum of two":    func(a int) expr.Value[float32] { return expr.ReduceSum[float32](x, false, a, (a+4)%3) },
		"Transpose of a view": func(a int) expr.Value[float32] { return expr.Transpose[float32](x.Transpose(), others(a)...) },
	} {
		t.Run(name, func(t *testing.T) {
			for axis := range 3 {
				want, err := evaluated(t, of(axis))
				require.NoError(t, err, "axis %d", axis)
				got, err := evaluated(t, of(axis-3))
				require.NoError(t, err, "axis %d", axis-3)
				assert.Equal(t, want.Shape(), got.Shape(), "axis %d", axis)
				assert.Equal(t, want.Elements(), got.Elements(), "axis %d", axis)
			}
			for _, axis := range []int{3, -4} {
				_, err := evaluated(t, of(axis))
				assert.Error(t, err, "axis %d", axis)
			}
		})
	}
}

// others is an order of three dimensions that begins with an axis.
func others(axis int) []int {
	return [][]int{{axis, 2, 1}, {axis, 0, -1}, {axis, -2, 0}}[(axis+6)%3]
}

// TestTransposeWithoutAxes reverses the dimensions, and leaves the memory behind an empty list of axes as it is.
func TestTransposeWithoutAxes(t *testing.T) {
	x, axes := filled(t, 3, 2, 3, 4), []int{7, 8, 9}
	assert.Equal(t, []int{4, 3, 2}, x.Transpose(axes[:0]...).Shape())
	assert.Equal(t, []int{4, 3, 2}, expr.Transpose[float32](x, axes[:0]...).Shape())
	assert.Equal(t, []int{7, 8, 9}, axes)
}

// evaluated is a negated value assigned to a tensor of its shape.
func evaluated(t *testing.T, of expr.Value[float32]) (*expr.Tensor[float32], error) {
	e := expr.Neg(of)
	if e.Err() != nil {
		return nil, e.Err()
	}
	y, err := expr.New[float32](e.Shape()...)
	require.NoError(t, err)
	return y, expr.Assign(t.Context(), y, e)
}
