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
	Attrs: []AttrSpec{intAttr("axis", 0)},
	Infer: rule(inferGather), Eval: kernel(evalGather),
	Facts: Facts{Traits: movement, Alias: gatherAlias, Cost: moveCost},
}

func gatherForm(n *ssa.Node) int {
	idx, known := ConstInts(n, 1)
	base := 1
	if !known || slices.ContainsFunc(idx, func(i int64) bool { return i < 0 }) {
		base = 11 // where negative indices became legal
	}
	return typeForm(base, 13)(n)
}

func inferGather(n *ssa.Node) []Inferred {
	t, ix := InType(n, 0), InType(n, 1)
	if !t.Ranked {
		return One(ssa.UnrankedTensor(t.DType))
	}
	axis := try(NormAxis(Int(n, "axis"), len(t.Shape)))
	if !ix.Ranked {
		return One(ssa.UnrankedTensor(t.DType))
	}
	dims := slices.Concat(t.Shape[:axis], ix.Shape, t.Shape[axis+1:])
	out := ssa.TensorOf(t.DType, dims...)
	data := known(n, 0)
	picks, known := ConstInts(n, 1)
	if data == nil || len(t.Shape) != 1 || !known || len(picks) > ssa.MaxContent {
		return One(out)
	}
	content := make([]ssa.Dim, len(picks))
	for i, p := range picks {
		k := try(wrapIndex(p, len(data)))
		content[i] = data[k]
	}
	return factOf(out, content)
}

// gatherAlias finds the gather of one index below leading 1-dimensions: a window,
// at a place that may be known only while running (the slice of an iteration).
func gatherAlias(n *ssa.Node) []Alias {
	t := InType(n, 0)
	if !t.IsStatic() || !isPlainTensor(n.In[0]) {
		return nil
	}
	axis, err := NormAxis(Int(n, "axis"), len(t.Shape))
	if err != nil || !onesBefore(t, axis) {
		return nil
	}
	return tupleAlias(n, 1, axis, 1)
}

// tupleAlias is the window of operand 0 that one tuple of k indices picks, which
// index the dimensions from axis on. Operand at holds the tuple.
func tupleAlias(n *ssa.Node, at, axis, k int) []Alias {
	t, ix := InType(n, 0), InType(n, at)
	if k == 0 || !ix.NumElems().Is(int64(k)) {
		return nil
	}
	m := &Moving{Operand: at}
	for i := range k {
		dim, _ := t.Shape[axis+i].Const()
		m.Dims, m.Steps = append(m.Dims, int(dim)), append(m.Steps, bytesAfter(t, axis+i))
	}
	if n.In[at].Const == nil {
		return []Alias{{In: 0, Out: 0, Moving: m}}
	}
	tuple, err := n.In[at].Const.Array()
	if err != nil {
		return nil
	}
	off, err := m.Offset(tuple)
	if err != nil {
		return nil
	}
	return []Alias{{In: 0, Out: 0, Offset: off}}
}

func evalGather(c *Call) {
	a := tensor(c, 0)
	ix := tensor(c, 1)
	axis := try(NormAxis(Int(c.Node, "axis"), a.Rank()))
	picks := wrapIndices(ix, a.Shape[axis])
	out := result(c, 0, a.DType, slices.Concat(a.Shape[:axis], ix.Shape, a.Shape[axis+1:])...)
	outer, dim, inner := splitDims(a.Shape, axis)
	at := 0
	for o := range outer {
		for _, k := range picks {
			copyElems(out, at, a, (o*dim+k)*inner, inner)
			at += inner
		}
	}
}
