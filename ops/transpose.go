package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ssa"
)

// Transpose permutes dimensions: https://onnx.ai/onnx/operators/onnx__Transpose.html
var Transpose = Op{
	Name: "Transpose", Since: 25, Form: typeForm(1, 13, 21, 23, 24, 25), Doc: "dimension i of transposed is dimension perm[i] of data",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intsAttr("perm")},
	Infer: rule(inferTranspose), Eval: kernel(evalTranspose),
	Facts: Facts{Traits: movement.but(FailsNever), Alias: transposeAlias, Cost: moveCost},
}

// transposePerm returns the checked permutation; reversed order by default.
func transposePerm(n *ssa.Node, rank int) ([]int, error) {
	perm := Ints(n, "perm")
	if !n.Has("perm") {
		out := make([]int, rank)
		for i := range out {
			out[i] = rank - 1 - i
		}
		return out, nil
	}
	if len(perm) != rank {
		return nil, fmt.Errorf("perm %v does not fit rank %d", perm, rank)
	}
	return normAxes(perm, rank)
}

func inferTranspose(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	if !t.Ranked {
		if n.Has("perm") {
			return One(tensorOfRank(t.DType, len(Ints(n, "perm"))))
		}
		return One(t)
	}
	perm := try(transposePerm(n, len(t.Shape)))
	dims := make([]ssa.Dim, len(perm))
	for i, p := range perm {
		dims[i] = t.Shape[p]
	}
	return factOf(ssa.TensorOf(t.DType, dims...), known(n, 0))
}

// transposeAlias finds a view where only dimensions of length 1 change places.
func transposeAlias(n *ssa.Node) []Alias {
	t := InType(n, 0)
	perm, err := transposePerm(n, t.Rank())
	if err != nil {
		return nil
	}
	last := -1
	for _, p := range perm {
		if t.Shape[p].Is(1) {
			continue
		}
		if p < last {
			return nil
		}
		last = p
	}
	return wholeView(n)
}

func evalTranspose(c *Call) {
	a := tensor(c, 0)
	perm := try(transposePerm(c.Node, a.Rank()))
	strides := Strides(a.Shape)
	shape, from := make([]int, len(perm)), make([]int, len(perm))
	for i, p := range perm {
		shape[i], from[i] = a.Shape[p], strides[p]
	}
	out := result(c, 0, a.DType, shape...)
	moveBlock(out, a, block{shape: shape, dstr: Strides(shape), sstr: from})
}
