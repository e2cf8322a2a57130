package movement

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Gather picks slices of an axis by index: https://onnx.ai/onnx/operators/onnx__Gather.html
//
//	output[a…, i…, b…] = data[a…, indices[i…], b…]
//
// A negative index counts from the back.
var Gather = ops.Op{
	Name: "Gather", Since: 13, Form: gatherForm, Doc: "output = data taken at indices along axis",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis", 0)},
	Infer: kit.Rule(inferGather), Eval: kit.Kernel(evalGather),
	Facts:      ops.Facts{Traits: ops.MovementTraits, Alias: gatherAlias, Cost: kit.MoveCost},
	Downgrades: []ops.Downgrade{{Below: 11, Form: kit.TypeForm(1, 13), Apply: downgradeGather}},
}

// downgradeGather counts constant indices from the front; others are as they were read.
func downgradeGather(u *ops.Upgrader, n *ssa.Node) error {
	t := ops.InType(n, 0)
	axis, err := ops.NormAxis(ops.Int(n, "axis"), max(t.Rank(), 1))
	if err != nil {
		return err
	}
	if err := kit.PositiveAxes(0, nil).Apply(u, n); err != nil {
		return err
	}
	return kit.PositiveInts(u, n, 1, kit.DimOf(t, axis))
}

func gatherForm(n *ssa.Node) int {
	idx, known := ops.ConstInts(n, 1)
	base := 1
	if !known || slices.ContainsFunc(idx, func(i int64) bool { return i < 0 }) {
		base = 11 // where negative indices became legal
	}
	return kit.TypeForm(base, 13)(n)
}

func inferGather(n *ssa.Node) []ops.Inferred {
	t, ix := ops.InType(n, 0), ops.InType(n, 1)
	if !t.Ranked {
		return ops.One(ssa.UnrankedTensor(t.DType))
	}
	axis := kit.Try(ops.NormAxis(ops.Int(n, "axis"), len(t.Shape)))
	if !ix.Ranked {
		return ops.One(ssa.UnrankedTensor(t.DType))
	}
	out := ssa.TensorOf(t.DType, slices.Concat(t.Shape[:axis], ix.Shape, t.Shape[axis+1:])...)
	data := kit.Known(n, 0)
	picks, known := ops.ConstInts(n, 1)
	if data == nil || len(t.Shape) != 1 || !known || len(picks) > ssa.MaxContent {
		return ops.One(out)
	}
	content := make([]ssa.Dim, len(picks))
	for i, p := range picks {
		content[i] = data[kit.Try(ops.WrapIndex(p, len(data)))]
	}
	return kit.FactOf(out, content)
}

// gatherAlias finds the gather of one index below leading 1-dimensions: a window,
// at a place that may be known only while running (the slice of an iteration).
func gatherAlias(n *ssa.Node) []ops.Alias {
	t := ops.InType(n, 0)
	if !t.IsStatic() || !kit.IsPlainTensor(n.In[0]) {
		return nil
	}
	axis, err := ops.NormAxis(ops.Int(n, "axis"), len(t.Shape))
	if err != nil || !onesBefore(t, axis) {
		return nil
	}
	return tupleAlias(n, 1, axis, 1)
}

// tupleAlias is the window of operand 0 that one tuple of k indices picks, which
// index the dimensions from axis on. Operand at holds the tuple.
func tupleAlias(n *ssa.Node, at, axis, k int) []ops.Alias {
	t, ix := ops.InType(n, 0), ops.InType(n, at)
	if k == 0 || !ix.NumElems().Is(int64(k)) {
		return nil
	}
	m := &ops.Moving{Operand: at}
	for i := range k {
		dim, _ := t.Shape[axis+i].Const()
		m.Dims, m.Steps = append(m.Dims, int(dim)), append(m.Steps, bytesAfter(t, axis+i))
	}
	if n.In[at].Const == nil {
		return []ops.Alias{{In: 0, Out: 0, Moving: m}}
	}
	tuple, err := n.In[at].Const.Array()
	if err != nil {
		return nil
	}
	off, err := m.Offset(tuple)
	if err != nil {
		return nil
	}
	return []ops.Alias{{In: 0, Out: 0, Offset: off}}
}

func evalGather(c *ops.Call) {
	a, ix := kit.Tensor(c, 0), kit.Tensor(c, 1)
	axis := kit.Try(ops.NormAxis(ops.Int(c.Node, "axis"), a.Rank()))
	picks := kit.WrapIndices(c, ix, a.Shape[axis])
	out := kit.Result(c, 0, a.DType, slices.Concat(a.Shape[:axis], ix.Shape, a.Shape[axis+1:])...)
	kit.TakeAlong(c, out, a, axis, picks)
}
