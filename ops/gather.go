package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// Gather picks slices of an axis by index: https://onnx.ai/onnx/operators/onnx__Gather.html
//
//	output[a…, i…, b…] = data[a…, indices[i…], b…]
//
// A negative index counts from the back.
var Gather = Op{
	Name: "Gather", Since: 13, Form: gatherForm, Doc: "output = data taken at indices along axis",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{{Name: "axis", Kind: ssa.AttrInt}},
	Infer: inferGather, Eval: evalGather,
	Facts: Facts{Alias: gatherAlias, Cost: moveCost},
}

func gatherForm(n *ssa.Node) int {
	idx, known := ConstInts(n, 1)
	base := 1
	if !known || slices.ContainsFunc(idx, func(i int64) bool { return i < 0 }) {
		base = 11 // where negative indices became legal
	}
	return typeForm(base, 13)(n)
}

func inferGather(n *ssa.Node) ([]Fact, error) {
	t, ix := InType(n, 0), InType(n, 1)
	if !t.Ranked {
		return One(ssa.UnrankedTensor(t.DType)), nil
	}
	axis, err := NormAxis(n.Int("axis", 0), len(t.Shape))
	if err != nil {
		return nil, err
	}
	if !ix.Ranked {
		return One(ssa.UnrankedTensor(t.DType)), nil
	}
	dims := slices.Concat(t.Shape[:axis], ix.Shape, t.Shape[axis+1:])
	out := ssa.TensorOf(t.DType, dims...)
	data := known(n, 0)
	picks, known := ConstInts(n, 1)
	if data == nil || len(t.Shape) != 1 || !known || len(picks) > ssa.MaxContent {
		return One(out), nil
	}
	content := make([]ssa.Dim, len(picks))
	for i, p := range picks {
		k, err := wrapIndex(p, len(data))
		if err != nil {
			return nil, err
		}
		content[i] = data[k]
	}
	return factOf(out, content), nil
}

// gatherAlias finds the gather of one known index below leading 1-dimensions.
func gatherAlias(n *ssa.Node) []Alias {
	t := InType(n, 0)
	picks, known := ConstInts(n, 1)
	if !known || len(picks) != 1 || !t.IsStatic() || !isPlainTensor(n.In[0]) {
		return nil
	}
	axis, err := NormAxis(n.Int("axis", 0), len(t.Shape))
	if err != nil || !onesBefore(t, axis) {
		return nil
	}
	dim, _ := t.Shape[axis].Const()
	k, err := wrapIndex(picks[0], int(dim))
	if err != nil {
		return nil
	}
	return []Alias{{In: 0, Out: 0, Offset: int64(k) * bytesAfter(t, axis)}}
}

func evalGather(c *Call) error {
	a, err := needTensor(c, 0)
	if err != nil {
		return err
	}
	ix, err := needTensor(c, 1)
	if err != nil {
		return err
	}
	axis, err := NormAxis(c.Node.Int("axis", 0), a.Rank())
	if err != nil {
		return err
	}
	picks, err := wrapIndices(ix, a.Shape[axis])
	if err != nil {
		return err
	}
	out, err := c.Output(0, a.DType, slices.Concat(a.Shape[:axis], ix.Shape, a.Shape[axis+1:])...)
	if err != nil {
		return err
	}
	outer, dim, inner := splitDims(a.Shape, axis)
	at := 0
	for o := range outer {
		for _, k := range picks {
			copyElems(out, at, a, (o*dim+k)*inner, inner)
			at += inner
		}
	}
	return nil
}
