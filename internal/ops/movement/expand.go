package movement

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Expand broadcasts to a shape: https://onnx.ai/onnx/operators/onnx__Expand.html
//
// The result's shape is the broadcast of both, so a 1 in shape keeps the operand's
// dimension.
var Expand = ops.Op{
	Name: "Expand", Since: 13, Form: kit.TypeForm(8, 13), Doc: "output = input * ones(shape)",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: kit.Rule(inferExpand), Eval: kit.Kernel(evalExpand),
	Facts: ops.Facts{Traits: ops.MovementTraits.But(ops.FailsNever), Alias: expandAlias, Cost: kit.MoveCost},
}

func inferExpand(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	dims := kit.ShapeOperand(n, 1)
	if !t.Ranked || dims == nil {
		return ops.One(ssa.UnrankedTensor(t.DType))
	}
	kit.CheckDims(dims)
	out := ssa.TensorOf(t.DType, kit.Try(ops.BroadcastDims(t.Shape, dims))...)
	content := kit.Known(n, 0)
	k, ok := out.NumElems().Const()
	if len(content) == 0 || !ok || k > ssa.MaxContent || len(content) != 1 && int(k) != len(content) {
		return ops.One(out)
	}
	all := make([]ssa.Dim, k)
	for i := range all {
		all[i] = content[min(i, len(content)-1)]
	}
	return kit.FactOf(out, all)
}

func expandAlias(n *ssa.Node) []ops.Alias {
	in, _ := ops.InType(n, 0).NumElems().Const()
	if out, ok := n.Out[0].Type.NumElems().Const(); ok && in == out {
		return kit.KnownView(n)
	}
	return nil
}

func evalExpand(c *ops.Call) {
	a := kit.Tensor(c, 0)
	shape := kit.Try(ops.BroadcastShapes(a.Shape, kit.ShapeOfInts(kit.Ints(c, 1))))
	out := kit.Result(c, 0, a.DType, shape...)
	kit.MoveBlock(c, out, a, kit.Block{Shape: shape, Dstr: ops.Strides(shape), Sstr: ops.BroadcastStrides(a.Shape, shape)})
}
