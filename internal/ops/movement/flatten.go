package movement

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Flatten folds the dimensions into a matrix: https://onnx.ai/onnx/operators/onnx__Flatten.html
//
//	[d0, …, d(axis-1), d(axis), …] -> [d0*…*d(axis-1), d(axis)*…]
var Flatten = ops.Op{
	Name: "Flatten", Since: 25, Form: flattenForm, Doc: "output = input as a matrix, split at axis",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis", 1)},
	Infer: kit.Rule(inferFlatten), Eval: kit.Kernel(evalFlatten),
	Facts: ops.Facts{Traits: ops.ReshapingTraits, Alias: kit.WholeView, Cost: kit.FreeCost},

	Downgrades: []ops.Downgrade{kit.PositiveAxes(0, flattenForm)},
}

func flattenForm(n *ssa.Node) int {
	base := 1
	if !ops.InType(n, 0).DType.IsFloat() {
		base = 9
	}
	if ops.Int(n, "axis") < 0 {
		base = 11
	}
	return kit.TypeForm(base, 13, 21, 23, 24, 25)(n)
}

// flattenAxis checks the axis, which may be the rank itself.
func flattenAxis(n *ssa.Node, rank int) int {
	if axis := ops.Int(n, "axis"); axis != int64(rank) {
		return kit.Try(ops.NormAxis(axis, rank))
	}
	return rank
}

func inferFlatten(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	if !t.Ranked {
		return ops.One(kit.TensorOfRank(t.DType, 2))
	}
	axis := flattenAxis(n, len(t.Shape))
	rows := ssa.TensorOf(t.DType, t.Shape[:axis]...).NumElems()
	cols := ssa.TensorOf(t.DType, t.Shape[axis:]...).NumElems()
	return ops.One(ssa.TensorOf(t.DType, rows, cols))
}

func evalFlatten(c *ops.Call) {
	a := kit.Tensor(c, 0)
	axis := flattenAxis(c.Node, a.Rank())
	kit.CopyReshaped(c, a, []int{kit.SizeOf(a.Shape[:axis]), kit.SizeOf(a.Shape[axis:])})
}
