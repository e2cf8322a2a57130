package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Expand broadcasts to a shape: https://onnx.ai/onnx/operators/onnx__Expand.html
//
// The result's shape is the broadcast of both, so a 1 in shape keeps the operand's
// dimension.
var Expand = Op{
	Name: "Expand", Since: 13, Form: typeForm(8, 13), Doc: "output = input * ones(shape)",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: rule(inferExpand), Eval: kernel(evalExpand),
	Facts: Facts{Traits: movement.but(FailsNever), Alias: expandAlias, Cost: moveCost},
}

func inferExpand(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	dims := ContentOf(n, 1)
	if dims == nil {
		if k := lenOf(n, 1); k >= 0 {
			dims = unknownDims(k)
		}
	}
	if !t.Ranked || dims == nil {
		return One(ssa.UnrankedTensor(t.DType))
	}
	checkDims(dims)
	shape := try(BroadcastDims(t.Shape, dims))
	out := ssa.TensorOf(t.DType, shape...)
	content := known(n, 0)
	k, ok := out.NumElems().Const()
	if len(content) == 0 || !ok || k > ssa.MaxContent || len(content) != 1 && int(k) != len(content) {
		return One(out)
	}
	all := make([]ssa.Dim, k)
	for i := range all {
		all[i] = content[min(i, len(content)-1)]
	}
	return factOf(out, all)
}

func expandAlias(n *ssa.Node) []Alias {
	in, _ := InType(n, 0).NumElems().Const()
	if out, ok := n.Out[0].Type.NumElems().Const(); ok && in == out {
		return wholeView(n)
	}
	return nil
}

func evalExpand(c *Call) {
	a := tensor(c, 0)
	dims := ints(c, 1)
	want := shapeOfInts(dims)
	shape := try(BroadcastShapes(a.Shape, want))
	out := result(c, 0, a.DType, shape...)
	expandTo(out, a)
}

// expandTo fills out with a, repeated along broadcast dimensions.
func expandTo(out, a *ndarray.Array) {
	moveBlock(out, a, block{shape: out.Shape, dstr: Strides(out.Shape), sstr: BroadcastStrides(a.Shape, out.Shape)})
}
