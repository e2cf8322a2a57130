package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// GatherElements picks one element per index: https://onnx.ai/onnx/operators/onnx__GatherElements.html
//
//	output[i, j, k] = data[i, indices[i, j, k], k]     axis = 1
var GatherElements = Op{
	Name: "GatherElements", Since: 13, Form: typeForm(11, 13), Doc: "output[…i…] = data[…indices[…i…]…] along axis",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("axis", 0)},
	Infer: rule(func(n *ssa.Node) []Inferred {
		t := InType(n, 1)
		return One(ssa.Type{Kind: ssa.KindTensor, DType: InType(n, 0).DType, Ranked: t.Ranked, Shape: t.Shape})
	}),
	Eval:  kernel(evalGatherElements),
	Facts: Facts{Traits: movement, Cost: moveCost},
}

// alongAxis prepares walking positions of a box in data with one axis replaced:
// the strides (0 at axis) and the stride of the axis. The box must fit data in
// the other dimensions.
func alongAxis(data, box []int, axis int) (strides []int, step int) {
	if len(box) != len(data) {
		failf("shapes %v and %v have different ranks", data, box)
	}
	for i, d := range box {
		if i != axis && d > data[i] {
			failf("shape %v reaches out of %v in dimension %d", box, data, i)
		}
	}
	strides = Strides(data)
	step, strides[axis] = strides[axis], 0
	return strides, step
}

func evalGatherElements(c *Call) {
	a := tensor(c, 0)
	ix := tensor(c, 1)
	axis := try(NormAxis(Int(c.Node, "axis"), a.Rank()))
	strides, step := alongAxis(a.Shape, ix.Shape, axis)
	picks := wrapIndices(ix, a.Shape[axis])
	out := result(c, 0, a.DType, ix.Shape...)
	from := picks
	w := stridedWalk(ix.Shape, strides)
	w.each(func(i int, at []int) {
		from[i] = at[0] + picks[i]*step
	})
	pickElems(out, a, from)
}

// pickElems sets dst[i] = src[from[i]].
func pickElems(dst, src *ndarray.Array, from []int) {
	moveMapped(dst.Reshaped(len(from)), src.Reshaped(src.Len()), [][]int{from})
}
