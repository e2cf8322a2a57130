package ops

import "github.com/berth-onnx/berth/ssa"

// Flatten folds the dimensions into a matrix: https://onnx.ai/onnx/operators/onnx__Flatten.html
//
//	[d0, …, d(axis-1), d(axis), …] -> [d0*…*d(axis-1), d(axis)*…]
var Flatten = Op{
	Name: "Flatten", Since: 25, Form: flattenForm, Doc: "output = input as a matrix, split at axis",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("axis", 1)},
	Infer: rule(inferFlatten), Eval: kernel(evalFlatten),
	Facts: Facts{Traits: reshaping, Alias: wholeView, Cost: freeCost},
}

func flattenForm(n *ssa.Node) int {
	base := 1
	if !InType(n, 0).DType.IsFloat() {
		base = 9
	}
	if Int(n, "axis") < 0 {
		base = 11
	}
	return typeForm(base, 13, 21, 23, 24, 25)(n)
}

// flattenAxis checks the axis, which may be the rank itself.
func flattenAxis(n *ssa.Node, rank int) int {
	axis := Int(n, "axis")
	k := axis
	if k < 0 {
		k += int64(rank)
	}
	if k < 0 || k > int64(rank) {
		failf("axis %d is out of range for rank %d", axis, rank)
	}
	return int(k)
}

func inferFlatten(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	if !t.Ranked {
		return One(tensorOfRank(t.DType, 2))
	}
	axis := flattenAxis(n, len(t.Shape))
	rows := ssa.TensorOf(t.DType, t.Shape[:axis]...).NumElems()
	cols := ssa.TensorOf(t.DType, t.Shape[axis:]...).NumElems()
	return One(ssa.TensorOf(t.DType, rows, cols))
}

func evalFlatten(c *Call) {
	a := tensor(c, 0)
	axis := flattenAxis(c.Node, a.Rank())
	rows, cols := 1, 1
	for i, d := range a.Shape {
		if i < axis {
			rows *= d
		} else {
			cols *= d
		}
	}
	copyReshaped(c, a, []int{rows, cols})
}
