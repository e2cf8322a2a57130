package cpu

import (
	"bytes"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// evalExpr computes an expression element by element, the plain way.
func evalExpr(e expr, in []*ndarray.Array) *ndarray.Array {
	out := ndarray.Must(ndarray.Float32, e.shape...)
	strides := make([][]int, len(in))
	for i, l := range e.leaves {
		strides[i] = ops.BroadcastStrides(l, e.shape)
	}
	o := 0
	kit.EachIndex(nil, e.shape, func(idx []int) {
		vals := make([]float32, len(e.steps))
		read := func(s source) float32 {
			switch s.kind {
			case fromNumber:
				return s.value
			case fromStep:
				return vals[s.index]
			}
			at := 0
			for k, i := range idx {
				at += i * strides[s.index][k]
			}
			return float32(in[s.index].Float(at))
		}
		for i, s := range e.steps {
			vals[i] = evalStep(s, read)
		}
		out.SetFloat(o, float64(vals[len(vals)-1]))
		o++
	})
	return out
}

func evalStep(s exprStep, read func(source) float32) float32 {
	x := []float32{read(s.a)}
	if s.isBinary {
		vec.BinaryRows(s.binary, x, []float32{x[0]}, vec.One, []float32{read(s.b)}, vec.One, 1, 1)
	} else {
		vec.Unary(s.unary, x, x, s.p0, 0)
	}
	return x[0]
}

// randomExpr draws an expression over a shape.
func randomExpr(r *rand.Rand) expr {
	e := expr{shape: make([]int, 1+r.Intn(4))}
	for i := range e.shape {
		e.shape[i] = 1 + r.Intn(7)
	}
	switch r.Intn(4) {
	case 0:
		e.shape = []int{2, 1 + r.Intn(3000)}
	case 1:
		e.shape = []int{1 + r.Intn(40), 1 + r.Intn(300)}
	}
	for range 1 + r.Intn(5) {
		s := append([]int(nil), e.shape[r.Intn(len(e.shape)):]...)
		if r.Intn(2) == 0 {
			s = append([]int(nil), e.shape...)
		}
		for i := range s {
			if r.Intn(4) == 0 {
				s[i] = 1
			}
		}
		e.leaves = append(e.leaves, s)
	}
	read := func(i int) source {
		switch k := r.Intn(8); {
		case k == 0:
			return constantRef(float32(r.NormFloat64()))
		case k < 4 || i == 0:
			return leafRef(r.Intn(len(e.leaves)))
		case k < 7:
			return stepRef(i - 1)
		}
		return stepRef(r.Intn(i))
	}
	for i := range 1 + r.Intn(8) {
		e.steps = append(e.steps, exprStep{
			isBinary: r.Intn(2) == 0, unary: []simd.UnaryOp{simd.Relu, simd.Sigmoid, simd.LeakyRelu, simd.Neg}[r.Intn(4)],
			binary: []simd.BinaryOp{simd.Add, simd.Mul, simd.Sub, simd.Max}[r.Intn(4)], p0: -0.5, a: read(i), b: read(i),
		})
	}
	return e
}

// requireAlike compares element by element; NaN equals NaN.
func requireAlike(t *testing.T, e expr, want, got *ndarray.Array) {
	t.Helper()
	require.Equal(t, want.DType, got.DType, "%+v", e)
	require.Equal(t, want.Shape, got.Shape, "%+v", e)
	for i := range want.Len() {
		w := want.Float(i)
		require.InDelta(t, w, got.Float(i), 1e-5*(1+math.Abs(w)), "element %d of %+v", i, e)
	}
}

func TestTapeRandom(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	for range 300 {
		e := randomExpr(r)
		tape := newTape(e, 2)
		require.NotNil(t, tape)
		var in []*ndarray.Array
		for _, l := range e.leaves {
			x := ndarray.Must(ndarray.Float32, l...)
			for i := range x.Len() {
				x.SetFloat(i, r.NormFloat64())
			}
			in = append(in, x)
		}
		want := evalExpr(e, in)
		call := func(threads int) *ops.Call {
			c := &ops.Call{Threads: threads, Scratch: ndarray.AlignedBytes(tape.scratch()), Out: []ndarray.Value{ndarray.Must(ndarray.Float32, e.shape...)}}
			for _, x := range in {
				c.In = append(c.In, x.Clone())
			}
			return c
		}
		one, two := call(1), call(2)
		require.NoError(t, tape.Run(one))
		require.NoError(t, tape.Run(two))
		requireAlike(t, e, want, arrayOf(one.Out[0]))
		assert.True(t, bytes.Equal(arrayOf(one.Out[0]).Data, arrayOf(two.Out[0]).Data), "threads")
		assert.Zero(t, testing.AllocsPerRun(2, func() { _ = tape.Run(two) }))
		for i, l := range e.leaves {
			if sizeOf(l) == sizeOf(e.shape) {
				c := call(2)
				c.Out[0] = &ndarray.Array{DType: ndarray.Float32, Shape: e.shape, Data: arrayOf(c.In[i]).Data}
				require.NoError(t, tape.Run(c))
				assert.True(t, bytes.Equal(arrayOf(one.Out[0]).Data, arrayOf(c.Out[0]).Data), "in place of leaf %d", i)
			}
		}
	}
}

// TestTapeTooLarge: neither more leaves nor more loops than a nest holds.
func TestTapeTooLarge(t *testing.T) {
	step := []exprStep{unaryStep(simd.Relu, 0, leafRef(0))}
	assert.Nil(t, newTape(expr{shape: []int{2}, leaves: make([][]int, maxOperands+1), steps: step}, 1))
	deep := make([]int, 2*maxLoops)
	for i := range deep {
		deep[i] = 1 + i%2
	}
	full := slices.Repeat([]int{2}, len(deep))
	assert.Nil(t, newTape(expr{shape: full, leaves: [][]int{deep, full}, steps: step}, 1))
}

// BenchmarkTape measures x·sigmoid(a·x+b), which would be four passes over memory.
func BenchmarkTape(b *testing.B) {
	shape := []int{64, 128, 128}
	e := expr{shape: shape, leaves: [][]int{shape, {64, 1, 1}, {64, 1, 1}},
		steps: []exprStep{
			binaryStep(simd.Mul, leafRef(0), leafRef(1)),
			binaryStep(simd.Add, stepRef(0), leafRef(2)),
			unaryStep(simd.Sigmoid, 0, stepRef(1)),
			binaryStep(simd.Mul, leafRef(0), stepRef(2)),
		}}
	tape := newTape(e, 1)
	require.NotNil(b, tape)
	c := &ops.Call{Threads: 1, Scratch: ndarray.AlignedBytes(tape.scratch()), Out: []ndarray.Value{ndarray.Must(ndarray.Float32, shape...)}}
	for _, l := range e.leaves {
		x := ndarray.Must(ndarray.Float32, l...)
		for i := range x.Len() {
			x.SetFloat(i, math.Sin(float64(i)))
		}
		c.In = append(c.In, x)
	}
	b.SetBytes(int64(8 * sizeOf(shape)))
	for b.Loop() {
		_ = tape.Run(c)
	}
}
