package gorgonia_test

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// special are numbers that kernels get wrong first.
var special = []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -2.5, 3, 7, 100, -100, 1e-40, -1e-40, 1e-320, 3e38, 709.5, 1e300, math.Inf(1), math.Inf(-1), math.NaN()}

// pairs are tensors of all pairs of special numbers.
func pairs(dt ndarray.DType) (a, b *ndarray.Array) {
	n := len(special)
	a, b = ndarray.Must(dt, n, n), ndarray.Must(dt, n, n)
	for i := range n * n {
		if x, y := special[i/n], special[i%n]; dt.IsFloat() {
			a.SetFloat(i, x)
			b.SetFloat(i, y)
		} else {
			a.SetInt(i, int64(i/n)-8)
			b.SetInt(i, int64(i%n)-7)
		}
	}
	return a, b
}

// TestStockKernels compares every stock kernel with the reference kernel, on numbers of every kind: those in use give the
// same, to the last bit but for one of float64; types left out differ, and the table says why.
func TestStockKernels(t *testing.T) {
	all := []ndarray.DType{ndarray.Int8, ndarray.Int16, ndarray.Int32, ndarray.Int64, ndarray.Uint8, ndarray.Uint16, ndarray.Uint32, ndarray.Uint64, ndarray.Float32, ndarray.Float64}
	for _, k := range gorgonia.Kernels() {
		for _, dt := range all {
			for _, over := range []bool{false, true} {
				a, b := pairs(dt)
				in := []*ndarray.Array{a, b}[:k.Arity()]
				want, err := reference(t, k.Operator, in)
				if strings.HasSuffix(k.Reason, "on amd64") && dt == ndarray.Float64 && runtime.GOARCH != "amd64" {
					continue
				}
				if err != nil || k.Operator == "Div" && !dt.IsFloat() {
					continue // the operator has no such type, or no defined result
				}
				to := ndarray.Must(want.DType, a.Shape...)
				if over && want.DType != dt {
					continue
				}
				if over {
					to = in[0]
				}
				err = k.Run(dense(t, to), denses(t, in))
				right := err == nil && same(to, want)
				assert.Equal(t, slices.Contains(k.Types, dt), right, "%s of %s, over its operand %v: %v", k.Stock, dt, over, err)
			}
		}
	}
}

func reference(t *testing.T, op string, in []*ndarray.Array) (*ndarray.Array, error) {
	t.Helper()
	g := ssa.NewGraph("one")
	var values []ndarray.Value
	var args []*ssa.Value
	for _, a := range in {
		args = append(args, g.AddParam("", ssa.StaticTensor(a.DType, a.Shape...)))
		values = append(values, a.Clone())
	}
	n := g.NewNode(op, args, 1)
	if err := ops.Infer(n); err != nil {
		return nil, err
	}
	c := &ops.Call{Ctx: t.Context(), Node: n, In: values, Out: make([]ndarray.Value, 1), Threads: 1}
	if err := ops.Eval(c); err != nil {
		return nil, err
	}
	return c.Out[0].(*ndarray.Array), nil
}

// same compares bits; NaN with NaN.
func same(a, b *ndarray.Array) bool {
	for i := range a.Len() {
		if !a.DType.IsFloat() {
			if a.Int(i) != b.Int(i) {
				return false
			}
			continue
		}
		x, y := a.Float(i), b.Float(i)
		if math.IsNaN(x) != math.IsNaN(y) || !math.IsNaN(x) && math.Abs(x-y) > math.Abs(y)*0x1p-52 || math.Signbit(x) != math.Signbit(y) && !math.IsNaN(x) {
			return false
		}
	}
	return true
}

func dense(t *testing.T, a *ndarray.Array) *tensor.Dense {
	t.Helper()
	d, err := gorgonia.DenseOf(a)
	require.NoError(t, err)
	return d
}

func denses(t *testing.T, in []*ndarray.Array) (out []*tensor.Dense) {
	for _, a := range in {
		out = append(out, dense(t, a))
	}
	return out
}
