package cpu

import (
	"bytes"
	"math"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend/cpu/kern"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// evalExpr computes an expression element by element, the plain way.
func evalExpr(e Expr, in []*ndarray.Array) *ndarray.Array {
	out := ndarray.Must(e.Result, e.Shape...)
	strides := make([][]int, len(in))
	for i, l := range e.Leaves {
		strides[i] = ops.BroadcastStrides(l.Shape, e.Shape)
	}
	o := 0
	ops.EachIndex(e.Shape, func(idx []int) {
		vals := make([]float32, len(e.Steps))
		read := func(s Source) float32 {
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
		for i, s := range e.Steps {
			vals[i] = evalStep(s, read)
		}
		out.SetFloat(o, float64(vals[len(vals)-1]))
		o++
	})
	return out
}

func evalStep(s Step, read func(Source) float32) float32 {
	truth := func(b bool) float32 {
		if b {
			return 1
		}
		return 0
	}
	a := read(s.A)
	switch s.Kind {
	case StepUnary:
		x := []float32{a}
		kern.Unary(s.Unary, x, x, s.P0, s.P1)
		return x[0]
	case StepBinary:
		x := []float32{0}
		kern.BinaryRows(s.Binary, x, []float32{a}, kern.One, []float32{read(s.B)}, kern.One, 1, 1)
		return x[0]
	case StepSelect:
		if a != 0 {
			return read(s.B)
		}
		return read(s.C)
	case StepEqual:
		return truth(a == read(s.B))
	case StepLess:
		return truth(a < read(s.B))
	}
	return truth(a <= read(s.B))
}

// randomExpr draws an expression over a shape.
func randomExpr(r *rand.Rand) Expr {
	e := Expr{Shape: randomShape(r, 1+r.Intn(4), 7), Result: ndarray.Float32}
	switch r.Intn(4) {
	case 0:
		e.Shape = []int{2, 1 + r.Intn(3000)}
	case 1:
		e.Shape = []int{1 + r.Intn(40), 1 + r.Intn(300)}
	}
	if r.Intn(5) == 0 {
		e.Result = ndarray.Bool
	}
	for range 1 + r.Intn(5) {
		s := append([]int(nil), e.Shape[r.Intn(len(e.Shape)):]...)
		if r.Intn(2) == 0 {
			s = append([]int(nil), e.Shape...)
		}
		for i := range s {
			if r.Intn(4) == 0 {
				s[i] = 1
			}
		}
		e.Leaves = append(e.Leaves, Leaf{s, pick(r, ndarray.Float32, ndarray.Float32, ndarray.Bool)})
	}
	source := func(i int) Source {
		switch k := r.Intn(8); {
		case k == 0:
			return Number(float32(r.NormFloat64()))
		case k < 4 || i == 0:
			return LeafRef(r.Intn(len(e.Leaves)))
		case k < 7:
			return StepRef(i - 1)
		}
		return StepRef(r.Intn(i))
	}
	for i := range 1 + r.Intn(8) {
		e.Steps = append(e.Steps, Step{
			Kind: StepKind(r.Intn(6)), Unary: pick(r, kern.Relu, kern.Sigmoid, kern.Clip, kern.Neg),
			Binary: pick(r, kern.Add, kern.Mul, kern.Sub, kern.Max), P0: -0.5, P1: 0.5,
			A: source(i), B: source(i), C: source(i),
		})
	}
	return e
}

func TestTapeRandom(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	for range 300 {
		e := randomExpr(r)
		tape, err := NewTape(e, 2)
		require.NoError(t, err)
		var in []*ndarray.Array
		for _, l := range e.Leaves {
			x := ndarray.Must(l.DType, l.Shape...)
			tensor(l.DType).fill(r, x)
			in = append(in, x)
		}
		want := evalExpr(e, in)
		call := func(threads int) *ops.Call {
			c := &ops.Call{Threads: threads, Scratch: ndarray.AlignedBytes(tape.Scratch()), Out: []ndarray.Value{ndarray.Must(e.Result, e.Shape...)}}
			for _, x := range in {
				c.In = append(c.In, x.Clone())
			}
			return c
		}
		one, two := call(1), call(2)
		require.NoError(t, tape.Run(one))
		require.NoError(t, tape.Run(two))
		require.True(t, alike(t, "expression", want, arrayOf(one.Out[0]), 1e-5), "%+v", e)
		assert.True(t, bytes.Equal(arrayOf(one.Out[0]).Data, arrayOf(two.Out[0]).Data), "threads")
		assert.Zero(t, testing.AllocsPerRun(2, func() { _ = tape.Run(two) }))
		for i, l := range e.Leaves {
			if l.DType == e.Result && ops.Strides(l.Shape) != nil && sizeOf(l.Shape) == sizeOf(e.Shape) {
				c := call(2)
				c.Out[0] = &ndarray.Array{DType: e.Result, Shape: e.Shape, Data: arrayOf(c.In[i]).Data}
				require.NoError(t, tape.Run(c))
				assert.True(t, bytes.Equal(arrayOf(one.Out[0]).Data, arrayOf(c.Out[0]).Data), "in place of leaf %d", i)
			}
		}
	}
}

func TestTapeErrors(t *testing.T) {
	good := Expr{Shape: []int{2}, Result: ndarray.Float32, Leaves: []Leaf{{[]int{2}, ndarray.Float32}},
		Steps: []Step{{Kind: StepUnary, Unary: kern.Relu, A: LeafRef(0)}}}
	_, err := NewTape(good, 1)
	require.NoError(t, err)
	for name, spoil := range map[string]func(e *Expr){
		"no steps":        func(e *Expr) { e.Steps = nil },
		"no leaves":       func(e *Expr) { e.Leaves = nil },
		"too many leaves": func(e *Expr) { e.Leaves = make([]Leaf, maxOperands+1) },
		"missing leaf":    func(e *Expr) { e.Steps = []Step{{A: LeafRef(1)}} },
		"later step":      func(e *Expr) { e.Steps = []Step{{A: StepRef(0)}} },
		"no source":       func(e *Expr) { e.Steps = []Step{{}} },
		"leaf too large":  func(e *Expr) { e.Leaves = []Leaf{{[]int{3}, ndarray.Float32}} },
		"leaf type":       func(e *Expr) { e.Leaves = []Leaf{{[]int{2}, ndarray.Int64}} },
		"result type":     func(e *Expr) { e.Result = ndarray.Int64 },
		"kind":            func(e *Expr) { e.Steps = []Step{{Kind: 99, A: LeafRef(0), B: LeafRef(0)}} },
	} {
		e := good
		spoil(&e)
		_, err := NewTape(e, 1)
		assert.Error(t, err, name)
	}
}

// BenchmarkTape measures x·sigmoid(a·x+b), which would be four passes over memory.
func BenchmarkTape(b *testing.B) {
	shape := []int{64, 128, 128}
	e := Expr{Shape: shape, Result: ndarray.Float32,
		Leaves: []Leaf{{shape, ndarray.Float32}, {[]int{64, 1, 1}, ndarray.Float32}, {[]int{64, 1, 1}, ndarray.Float32}},
		Steps: []Step{
			{Kind: StepBinary, Binary: kern.Mul, A: LeafRef(0), B: LeafRef(1)},
			{Kind: StepBinary, Binary: kern.Add, A: StepRef(0), B: LeafRef(2)},
			{Kind: StepUnary, Unary: kern.Sigmoid, A: StepRef(1)},
			{Kind: StepBinary, Binary: kern.Mul, A: LeafRef(0), B: StepRef(2)},
		}}
	tape, err := NewTape(e, 1)
	require.NoError(b, err)
	c := &ops.Call{Threads: 1, Scratch: ndarray.AlignedBytes(tape.Scratch()), Out: []ndarray.Value{ndarray.Must(e.Result, shape...)}}
	for _, l := range e.Leaves {
		x := ndarray.Must(l.DType, l.Shape...)
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
