package ops_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

func TestReduce(t *testing.T) {
	x := array(ndarray.Float32, []int{2, 3}, 1, 2, 3, 4, 5, 6)
	drop := ssa.IntAttr("keepdims", 0)
	noop := ssa.IntAttr("noop_with_empty_axes", 1)
	for _, c := range []struct {
		op    string
		at    attrs
		axes  *ndarray.Array
		shape []int
		want  []float64
	}{
		{"ReduceSum", nil, nil, []int{1, 1}, []float64{21}},
		{"ReduceSum", attrs{drop}, nil, nil, []float64{21}},
		{"ReduceSum", attrs{drop}, i64(0), []int{3}, []float64{5, 7, 9}},
		{"ReduceSum", nil, i64(-1), []int{2, 1}, []float64{6, 15}},
		{"ReduceSum", nil, i64(1, -1), []int{2, 1}, []float64{6, 15}}, // the same axis twice
		{"ReduceSum", nil, i64(), []int{1, 1}, []float64{21}},
		{"ReduceSum", attrs{noop}, i64(), []int{2, 3}, []float64{1, 2, 3, 4, 5, 6}},
		{"ReduceSumSquare", attrs{noop}, nil, []int{2, 3}, []float64{1, 4, 9, 16, 25, 36}},
		{"ReduceLogSum", attrs{noop}, nil, []int{2, 3}, []float64{0, math.Log(2), math.Log(3), math.Log(4), math.Log(5), math.Log(6)}},
		{"ReduceMean", attrs{drop}, i64(1), []int{2}, []float64{2, 5}},
		{"ReduceMax", attrs{drop}, i64(0), []int{3}, []float64{4, 5, 6}},
		{"ReduceMin", attrs{drop}, i64(1), []int{2}, []float64{1, 4}},
		{"ReduceProd", attrs{drop}, i64(1), []int{2}, []float64{6, 120}},
		{"ReduceL1", attrs{drop}, i64(0), []int{3}, []float64{5, 7, 9}},
		{"ReduceL2", attrs{drop}, i64(0), []int{3}, []float64{math.Sqrt(17), math.Sqrt(29), math.Sqrt(45)}},
		{"ReduceLogSumExp", attrs{drop}, i64(1), []int{2}, []float64{3.4076059644, 6.4076059644}},
	} {
		got := mustEval(t, c.op, c.at, x, c.axes)
		assert.Equal(t, c.shape, append([]int(nil), got.Shape...), c.op)
		sameNumbers(t, c.want, numbers(got), 1e-6, c.op)
	}
}

func TestReduceEmptySet(t *testing.T) {
	for _, c := range []struct {
		op   string
		dt   ndarray.DType
		want float64
	}{
		{"ReduceSum", ndarray.Float32, 0}, {"ReduceProd", ndarray.Float32, 1}, {"ReduceMean", ndarray.Float32, nan},
		{"ReduceMax", ndarray.Float32, -inf}, {"ReduceMin", ndarray.Float16, inf}, {"ReduceLogSum", ndarray.Float32, -inf},
		{"ReduceLogSumExp", ndarray.Float64, -inf}, {"ReduceL1", ndarray.Float32, 0}, {"ReduceL2", ndarray.Float32, 0},
		{"ReduceSumSquare", ndarray.BFloat16, 0}, {"ReduceMax", ndarray.Int8, -128}, {"ReduceMin", ndarray.Int8, 127},
		{"ReduceMax", ndarray.Uint8, 0}, {"ReduceMin", ndarray.Uint8, 255}, {"ReduceMax", ndarray.Bool, 0}, {"ReduceMin", ndarray.Bool, 1},
		{"ReduceMin", ndarray.Int64, math.MaxInt64}, {"ReduceMax", ndarray.Int32, math.MinInt32}, {"ReduceMean", ndarray.Int32, 0},
	} {
		got := mustEval(t, c.op, nil, array(c.dt, []int{2, 0}), i64(1))
		assert.Equal(t, []int{2, 1}, got.Shape)
		sameNumbers(t, []float64{c.want, c.want}, numbers(got), 0, fmt.Sprintf("%s %s", c.op, c.dt))
		none := mustEval(t, c.op, nil, array(c.dt, []int{2, 0}), i64(0))
		assert.Equal(t, []int{1, 0}, none.Shape)
	}
}

func TestReduceNumbers(t *testing.T) {
	sameNumbers(t, []float64{nan}, numbers(mustEval(t, "ReduceMax", nil, vec(1, nan, 2))), 0, "NaN wins")
	sameNumbers(t, []float64{nan}, numbers(mustEval(t, "ReduceMin", nil, vec(nan, 2))), 0, "NaN wins")
	sameNumbers(t, []float64{1001 + math.Log(2)}, numbers(mustEval(t, "ReduceLogSumExp", nil, vec(1001, 1001))), 1e-6, "no overflow")
	sameNumbers(t, []float64{-inf}, numbers(mustEval(t, "ReduceLogSumExp", nil, vec(-inf, -inf))), 0, "all -inf")
	sameNumbers(t, []float64{inf}, numbers(mustEval(t, "ReduceLogSumExp", nil, vec(inf, 0))), 0, "some inf")
	assert.Equal(t, []float64{-3}, numbers(mustEval(t, "ReduceMean", nil, i64(-7, 0))), "integer mean")
	assert.Equal(t, []float64{1}, numbers(mustEval(t, "ReduceMax", nil, bools(false, true))))
	assert.Equal(t, []float64{4096}, numbers(mustEval(t, "ReduceSum", nil, array(ndarray.Float16, []int{4096}, ones(4096)...))), "half sums do not stall")
	assert.Equal(t, []float64{44}, numbers(mustEval(t, "ReduceSum", nil, typed(ndarray.Uint8, 200, 100))), "wraps")
}

func ones(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = 1
	}
	return v
}

func TestReduceRejects(t *testing.T) {
	for _, axes := range []*ndarray.Array{i64(2), i64(-3), vec(0)} {
		_, err := evalOp(t, "ReduceSum", nil, 1, mat(1, 2, 1, 2), axes)
		assert.Error(t, err)
	}
	_, err := evalOp(t, "ReduceMean", nil, 1, bools(true))
	assert.ErrorIs(t, err, ops.ErrUnsupported)
}

func TestArgMax(t *testing.T) {
	last := ssa.IntAttr("select_last_index", 1)
	for _, c := range []struct {
		op   string
		at   attrs
		x    *ndarray.Array
		want []float64
	}{
		{"ArgMax", nil, vec(1, 3, 3, 2), []float64{1}},
		{"ArgMax", attrs{last}, vec(1, 3, 3, 2), []float64{2}},
		{"ArgMin", attrs{last}, vec(1, 3, 1), []float64{2}},
		{"ArgMax", nil, vec(1, nan, 3), []float64{1}},
		{"ArgMin", nil, vec(1, nan, 0), []float64{1}},
		{"ArgMax", attrs{ssa.IntAttr("axis", -1)}, mat(2, 2, 1, 2, 4, 3), []float64{1, 0}},
		{"ArgMax", nil, ndarray.Of([]uint64{1, math.MaxUint64}, 2), []float64{1}},
		{"ArgMin", nil, typed(ndarray.Int8, 5, -128), []float64{1}},
	} {
		assert.Equal(t, c.want, numbers(mustEval(t, c.op, c.at, c.x)), c.op)
	}
	_, err := evalOp(t, "ArgMax", nil, 1, array(ndarray.Float32, []int{0, 2}))
	assert.ErrorContains(t, err, "no elements")
	assert.Zero(t, mustEval(t, "ArgMax", nil, array(ndarray.Float32, []int{2, 0})).Len())
}

func TestTopK(t *testing.T) {
	small := ssa.IntAttr("largest", 0)
	for _, c := range []struct {
		at       attrs
		x        *ndarray.Array
		k        float64
		val, at2 []float64
	}{
		{nil, vec(1, 5, 3, 5), 3, []float64{5, 5, 3}, []float64{1, 3, 2}},
		{attrs{small}, vec(1, 5, 1), 2, []float64{1, 1}, []float64{0, 2}},
		{nil, vec(1, nan, 3), 2, []float64{nan, 3}, []float64{1, 2}},
		{attrs{small}, vec(nan, 3), 2, []float64{3, nan}, []float64{1, 0}},
		{attrs{ssa.IntAttr("axis", 0)}, mat(2, 2, 1, 4, 3, 2), 1, []float64{3, 4}, []float64{1, 0}},
		{nil, vec(1, 2), 0, []float64{}, []float64{}},
		{nil, ndarray.Of([]uint64{1, math.MaxUint64}, 2), 1, []float64{math.MaxUint64}, []float64{1}},
	} {
		out, err := evalOp(t, "TopK", c.at, 2, c.x, i64(c.k))
		assert.NoError(t, err)
		sameNumbers(t, c.val, numbers(out[0]), 0, "values")
		sameNumbers(t, c.at2, numbers(out[1]), 0, "indices")
	}
	_, err := evalOp(t, "TopK", nil, 2, vec(1, 2), i64(3))
	assert.ErrorContains(t, err, "K is 3")
}

func TestCumulative(t *testing.T) {
	ex, rev := ssa.IntAttr("exclusive", 1), ssa.IntAttr("reverse", 1)
	for _, c := range []struct {
		op   string
		at   attrs
		want []float64
	}{
		{"CumSum", nil, []float64{1, 3, 6}}, {"CumSum", attrs{ex}, []float64{0, 1, 3}},
		{"CumSum", attrs{rev}, []float64{6, 5, 3}}, {"CumSum", attrs{ex, rev}, []float64{5, 3, 0}},
		{"CumProd", nil, []float64{1, 2, 6}}, {"CumProd", attrs{ex}, []float64{1, 1, 2}},
		{"CumProd", attrs{rev}, []float64{6, 6, 3}}, {"CumProd", attrs{ex, rev}, []float64{6, 3, 1}},
	} {
		for _, dt := range []ndarray.DType{ndarray.Float32, ndarray.Float64, ndarray.Float16, ndarray.BFloat16, ndarray.Int32, ndarray.Uint64} {
			assert.Equal(t, c.want, numbers(mustEval(t, c.op, c.at, typed(dt, 1, 2, 3), i64s(0))), "%s %s", c.op, dt)
		}
	}
	got := mustEval(t, "CumSum", nil, mat(2, 2, 1, 2, 3, 4), i64s(-2))
	assert.Equal(t, []float64{1, 2, 4, 6}, numbers(got))
	assert.Zero(t, mustEval(t, "CumSum", attrs{rev}, array(ndarray.Float32, []int{0, 2}), i64s(0)).Len())
}

func TestSoftmaxFamily(t *testing.T) {
	third := 1.0 / 3
	for _, c := range []struct {
		op   string
		at   attrs
		x    *ndarray.Array
		want []float64
	}{
		{"Softmax", nil, vec(1000, 1000, 1000), []float64{third, third, third}},
		{"Softmax", nil, vec(0, -inf), []float64{1, 0}},
		{"Softmax", nil, vec(-inf, -inf), []float64{nan, nan}},
		{"Softmax", attrs{ssa.IntAttr("axis", 0)}, mat(2, 2, 1, 5, 1, 5), []float64{0.5, 0.5, 0.5, 0.5}},
		{"LogSoftmax", nil, vec(1000, 1000), []float64{-math.Ln2, -math.Ln2}},
		{"LogSoftmax", nil, vec(0, -1000), []float64{0, -1000}},
		{"LogSoftmax", nil, vec(1e18, 1e18), []float64{-math.Ln2, -math.Ln2}},
		{"Hardmax", nil, vec(1, 3, 3), []float64{0, 1, 0}},
		{"Hardmax", nil, mat(2, 2, 1, 2, 2, 1), []float64{0, 1, 1, 0}},
	} {
		sameNumbers(t, c.want, numbers(mustEval(t, c.op, c.at, c.x)), 1e-6, c.op)
		assert.Zero(t, mustEval(t, c.op, c.at, array(ndarray.Float32, []int{2, 0})).Len(), c.op)
	}
	assert.Equal(t, []float64{1}, numbers(mustEval(t, "Softmax", nil, num(5))), "a scalar is a line of one")
}
