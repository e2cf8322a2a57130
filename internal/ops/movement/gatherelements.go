package movement

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// GatherElements picks one element per index: https://onnx.ai/onnx/operators/onnx__GatherElements.html
//
//	output[i, j, k] = data[i, indices[i, j, k], k]     axis = 1
var GatherElements = ops.Op{
	Name: "GatherElements", Since: 13, Form: kit.TypeForm(11, 13), Doc: "output[…i…] = data[…indices[…i…]…] along axis",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis", 0)},
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		return ops.One(kit.Retyped(ops.InType(n, 1), ops.InType(n, 0).DType))
	}),
	Eval:  kit.Kernel(evalGatherElements),
	Facts: ops.Facts{Traits: ops.MovementTraits, Cost: kit.MoveCost},
}

// alongAxis returns the strides of data, 0 at axis, and the stride at axis: with them
// a walk over a box, which must fit data in the other dimensions, takes its positions
// along axis from elsewhere.
func alongAxis(data, box []int, axis int) (strides []int, step int) {
	if len(box) != len(data) {
		kit.Failf("shapes %v and %v have different ranks", data, box)
	}
	for i, d := range box {
		if i != axis && d > data[i] {
			kit.Failf("shape %v reaches out of %v in dimension %d", box, data, i)
		}
	}
	strides = ops.Strides(data)
	step, strides[axis] = strides[axis], 0
	return strides, step
}

func evalGatherElements(c *ops.Call) {
	a, ix := kit.Tensor(c, 0), kit.Tensor(c, 1)
	axis := kit.Try(ops.NormAxis(ops.Int(c.Node, "axis"), a.Rank()))
	strides, step := alongAxis(a.Shape, ix.Shape, axis)
	picks := kit.WrapIndices(c, ix, a.Shape[axis])
	out := kit.Result(c, 0, a.DType, ix.Shape...)
	w, walk := kit.Watching(c), kit.StridedWalk(c, ix.Shape, strides)
	walk.Each(func(i int, at []int) { kit.CopyElems(&w, out, i, a, at[0]+picks[i]*step, 1) })
}
