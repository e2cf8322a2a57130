package fuse_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/fuse"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestAttentionsThroughViews: attentions whose operands and results go through any nodes that move elements, in forms that no exporter
// writes, compute what the graph says. The batch is seen in other dimensions behind every node that allows it.
func TestAttentionsThroughViews(t *testing.T) {
	const draws = 300
	made := 0
	for seed := range uint64(draws) {
		r := rand.New(rand.NewPCG(seed, 5))
		a := &drawnAttention{t: t, r: r, g: ssa.NewGraph("views"), params: map[string]*ndarray.Array{}}
		a.drawViews()
		g, n := attended(t, a.g, fuse.AttentionOptions{All: true})
		if made += n; n > 0 {
			a.run(g, graphgen.Noise)
		}
	}
	assert.Greater(t, made, draws*3/4)
}

// drawViews draws softmax(q·k + masks)·v with views around all of them.
func (a *drawnAttention) drawViews() {
	var batch []int
	for range a.r.IntN(4) {
		batch = append(batch, a.pick(1, 2, 3, 4, 6))
	}
	a.s, a.n, a.d, a.e = a.pick(1, 2, 3, 4, 6), a.pick(1, 2, 3, 5, 6), a.pick(1, 2, 4, 6), a.pick(1, 2, 4, 6)
	repeated := func(batch []int) []int { // one in the place of some dimensions
		out := slices.Clone(batch)
		for i := range out {
			out[i] = a.pick(1, out[i], out[i], out[i])
		}
		return out
	}
	q, k := a.viewed(a.r.IntN(4), append(slices.Clone(batch), a.s, a.d)), a.viewed(a.r.IntN(4), append(repeated(batch), a.d, a.n))
	v := a.op("MatMul", []*ssa.Value{q, k})
	for range a.r.IntN(4) {
		switch a.r.IntN(4) {
		case 0:
			v = a.rebatched(v)
		case 1:
			v = a.op("Mul", []*ssa.Value{v, a.number(0.4)})
		default:
			shape, _ := v.Type.Static()
			in := []*ssa.Value{v, a.viewed(a.r.IntN(3), repeated(shape)[a.r.IntN(len(shape)):])}
			if a.r.IntN(2) == 0 {
				slices.Reverse(in)
			}
			v = a.op("Add", in)
		}
	}
	p := a.op("Softmax", []*ssa.Value{v}, ssa.IntAttr("axis", -1))
	if a.r.IntN(3) == 0 {
		p = a.rebatched(p)
	}
	shape, _ := p.Type.Static()
	y := a.op("MatMul", []*ssa.Value{p, a.viewed(a.r.IntN(4), append(repeated(shape[:len(shape)-2]), a.n, a.e))})
	for range a.r.IntN(4) {
		if y = a.rebatched(y); a.r.IntN(2) == 0 {
			shape, _ := y.Type.Static()
			y = a.transposed(y, append(a.r.Perm(len(shape)-1), len(shape)-1))
		}
	}
	a.g.Results = append(a.g.Results, y)
}

func (a *drawnAttention) pick(list ...int) int { return list[a.r.IntN(len(list))] }

func (a *drawnAttention) ints(v ...int) *ssa.Value {
	out := make([]int64, len(v))
	for i, x := range v {
		out[i] = int64(x)
	}
	return a.g.AddConst(fmt.Sprintf("ints%d", len(a.g.Values())), ssa.Int64s(out...))
}

// viewed makes a value of a shape of a parameter, through so many nodes that move elements.
func (a *drawnAttention) viewed(nodes int, shape []int) *ssa.Value {
	if nodes == 0 || ndarray.Product(shape) > 4000 {
		return a.input(1, shape...)
	}
	axis, src := a.r.IntN(len(shape)), slices.Clone(shape)
	along := ssa.IntAttr("axis", int64(axis))
	switch a.r.IntN(8) {
	case 0:
		perm := a.r.Perm(len(shape))
		for i, p := range perm {
			src[p] = shape[i]
		}
		return a.transposed(a.viewed(nodes-1, src), perm)
	case 1:
		return a.reshape(a.viewed(nodes-1, a.otherShape(shape)), shape...)
	case 2:
		return a.sliced(nodes, shape, axis)
	case 3:
		n := a.pick(1, 2, 3)
		x := a.viewed(nodes-1, slices.Insert(src, axis, n))
		k := ssa.ScalarConst(int64(a.r.IntN(n) - a.pick(0, n)))
		return a.op("Gather", []*ssa.Value{x, a.g.AddConst(fmt.Sprintf("index%d", len(a.g.Values())), k)}, along)
	case 4:
		n := a.pick(2, 3)
		src[axis] *= n
		m := a.g.NewNode("Split", []*ssa.Value{a.viewed(nodes-1, src)}, n, along, ssa.IntAttr("num_outputs", int64(n)))
		require.NoError(a.t, ops.Infer(m))
		return m.Out[a.r.IntN(n)]
	case 5:
		src[axis] = 1
		return a.op("Expand", []*ssa.Value{a.viewed(nodes-1, src), a.ints(shape...)})
	case 6:
		return a.op([]string{"Mul", "Div"}[a.r.IntN(2)], []*ssa.Value{a.viewed(nodes-1, shape), a.number(-1.5)})
	}
	return a.op("Identity", []*ssa.Value{a.viewed(nodes-1, shape)})
}

// transposed names axes from the front or from the end, or not at all where their order is the opposite.
func (a *drawnAttention) transposed(x *ssa.Value, perm []int) *ssa.Value {
	out, isDefault := make([]int64, len(perm)), true
	for i, p := range perm {
		out[i] = int64(p - a.pick(0, 0, len(perm)))
		isDefault = isDefault && p == len(perm)-1-i
	}
	if isDefault {
		return a.op("Transpose", []*ssa.Value{x})
	}
	return a.op("Transpose", []*ssa.Value{x}, ssa.IntsAttr("perm", out...))
}

// sliced cuts a value of a shape out of a longer one along an axis.
func (a *drawnAttention) sliced(nodes int, shape []int, axis int) *ssa.Value {
	step, before, behind := a.pick(1, 2), a.r.IntN(3), a.r.IntN(3)
	src := slices.Clone(shape)
	end := before + (shape[axis]-1)*step + 1
	src[axis] = end + behind
	start := before - a.pick(0, 0, src[axis])
	if behind == 0 && a.r.IntN(2) == 0 {
		end = 1 << 30
	}
	x := a.viewed(nodes-1, src)
	return a.op("Slice", []*ssa.Value{x, a.ints(start), a.ints(end), a.ints(axis - a.pick(0, 0, len(shape))), a.ints(step)})
}

// otherShape is one of as many elements.
func (a *drawnAttention) otherShape(shape []int) []int {
	var factors []int
	for _, d := range shape {
		for f := 2; d > 1; f++ {
			for ; d%f == 0; d /= f {
				factors = append(factors, f)
			}
		}
	}
	out := []int{1}
	for _, f := range factors {
		if a.r.IntN(2) == 0 {
			out = append(out, 1)
		}
		out[len(out)-1] *= f
	}
	return slices.Insert(out, a.r.IntN(len(out)+1), slices.Repeat([]int{1}, a.r.IntN(2))...)
}

// rebatched reshapes the batch of matrices.
func (a *drawnAttention) rebatched(v *ssa.Value) *ssa.Value {
	shape, _ := v.Type.Static()
	matrix := shape[len(shape)-2:]
	return a.reshape(v, append(a.otherShape(shape[:len(shape)-2]), matrix...)...)
}
