package ops_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// newCall prepares a call of one node with the given operands.
func newCall(op string, in ...*ndarray.Array) *ops.Call {
	g := ssa.NewGraph(op)
	c := &ops.Call{Threads: 1}
	var operands []*ssa.Value
	for _, a := range in {
		operands = append(operands, g.AddParam("x", ssa.StaticTensor(a.DType, a.Shape...)))
		c.In = append(c.In, a)
	}
	c.Node = g.NewNode(op, operands, 1)
	return c
}

func evalCall(c *ops.Call) error { return ops.Eval(c) }

func TestRandomSeeded(t *testing.T) {
	// The first numbers of numpy.random.RandomState(0).
	at := attrs{ssa.IntsAttr("shape", 3), ssa.FloatAttr("seed", 0), ssa.IntAttr("dtype", int64(ndarray.Float64))}
	sameNumbers(t, []float64{0.5488135039, 0.7151893664, 0.6027633761}, numbers(mustEval(t, "RandomUniform", at)), 1e-9, "uniform")
	sameNumbers(t, []float64{1.7640523460, 0.4001572084, 0.9787379841}, numbers(mustEval(t, "RandomNormal", at)), 1e-9, "normal")
}

func TestRandomMoments(t *testing.T) {
	x := array(ndarray.Float32, []int{20000})
	for _, c := range []struct {
		op        string
		at        attrs
		mean, dev float64
	}{
		{"RandomUniformLike", attrs{ssa.FloatAttr("low", 2), ssa.FloatAttr("high", 4)}, 3, 2 / math.Sqrt(12)},
		{"RandomNormalLike", attrs{ssa.FloatAttr("mean", -1), ssa.FloatAttr("scale", 3)}, -1, 3},
	} {
		v := numbers(mustEval(t, c.op, c.at, x))
		mean, square := 0.0, 0.0
		for _, y := range v {
			mean += y / float64(len(v))
		}
		for _, y := range v {
			square += (y - mean) * (y - mean) / float64(len(v))
		}
		assert.InDelta(t, c.mean, mean, 0.1, c.op)
		assert.InDelta(t, c.dev, math.Sqrt(square), 0.1, c.op)
	}
}

func TestRandomSeedOfCall(t *testing.T) {
	draw := func(seed int64, name string) []float64 {
		c := newCall("RandomNormalLike", array(ndarray.Float32, []int{8}))
		c.Seed, c.Node.Out[0].Name = seed, name
		require.NoError(t, ops.Eval(c))
		return numbers(c.Out[0].(*ndarray.Array))
	}
	assert.Equal(t, draw(1, "a"), draw(1, "a"), "a seed repeats")
	assert.NotEqual(t, draw(1, "a"), draw(2, "a"), "seeds differ")
	assert.NotEqual(t, draw(1, "a"), draw(1, "b"), "nodes differ")
}

func TestBernoulli(t *testing.T) {
	p := array(ndarray.Float32, []int{3, 1000})
	for i := range 1000 {
		p.SetFloat(1000+i, 0.25)
		p.SetFloat(2000+i, 1)
	}
	got := mustEval(t, "Bernoulli", attrs{ssa.IntAttr("dtype", int64(ndarray.Int8))}, p)
	assert.Equal(t, ndarray.Int8, got.DType)
	sums := numbers(mustEval(t, "ReduceSum", attrs{ssa.IntAttr("keepdims", 0)}, as(ndarray.Int32, got), i64(1)))
	assert.Zero(t, sums[0])
	assert.InDelta(t, 250, sums[1], 60)
	assert.EqualValues(t, 1000, sums[2])
	assert.Equal(t, ndarray.Float32, mustEval(t, "Bernoulli", nil, p).DType)
}

func TestMultinomial(t *testing.T) {
	x := mat(2, 3, math.Log(0.2), -inf, math.Log(0.8), 5, -inf, -inf)
	got := mustEval(t, "Multinomial", attrs{ssa.IntAttr("sample_size", 2000), ssa.IntAttr("dtype", 7)}, x)
	assert.Equal(t, []int{2, 2000}, got.Shape)
	var count [3]int
	for i := range 2000 {
		count[got.Int(i)]++
		assert.Zero(t, got.Int(2000+i))
	}
	assert.InDelta(t, 400, count[0], 80)
	assert.Zero(t, count[1])
	_, err := evalOp(t, "Multinomial", attrs{ssa.IntAttr("dtype", 1)}, 1, x)
	assert.ErrorContains(t, err, "int32 or int64")
	_, err = evalOp(t, "Multinomial", nil, 1, array(ndarray.Float32, []int{1, 0}))
	assert.Error(t, err)
}
