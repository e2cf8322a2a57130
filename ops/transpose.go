package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ssa"
)

// Transpose permutes dimensions: https://onnx.ai/onnx/operators/onnx__Transpose.html
var Transpose = Op{
	Name: "Transpose", Since: 25, Form: typeForm(1, 13, 21, 23, 24, 25), Doc: "dimension i of transposed is dimension perm[i] of data",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{{Name: "perm", Kind: ssa.AttrInts}},
	Infer: inferTranspose, Eval: evalTranspose,
	Facts: Facts{Alias: transposeAlias, Cost: moveCost},
}

// transposePerm returns the checked permutation; reversed order by default.
func transposePerm(n *ssa.Node, rank int) ([]int, error) {
	perm := n.Ints("perm")
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

func inferTranspose(n *ssa.Node) ([]Inferred, error) {
	t := InType(n, 0)
	if !t.Ranked {
		if n.Has("perm") {
			return One(tensorOfRank(t.DType, len(n.Ints("perm")))), nil
		}
		return One(t), nil
	}
	perm, err := transposePerm(n, len(t.Shape))
	if err != nil {
		return nil, err
	}
	dims := make([]ssa.Dim, len(perm))
	for i, p := range perm {
		dims[i] = t.Shape[p]
	}
	return factOf(ssa.TensorOf(t.DType, dims...), known(n, 0)), nil
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

func evalTranspose(c *Call) error {
	a, err := needTensor(c, 0)
	if err != nil {
		return err
	}
	perm, err := transposePerm(c.Node, a.Rank())
	if err != nil {
		return err
	}
	strides := Strides(a.Shape)
	shape, from := make([]int, len(perm)), make([]int, len(perm))
	for i, p := range perm {
		shape[i], from[i] = a.Shape[p], strides[p]
	}
	out, err := c.Output(0, a.DType, shape...)
	if err != nil {
		return err
	}
	moveBlock(out, a, block{shape: shape, dstr: Strides(shape), sstr: from})
	return nil
}
