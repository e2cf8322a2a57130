package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// ScatterElements writes one element per index into a copy of data:
// https://onnx.ai/onnx/operators/onnx__ScatterElements.html
//
//	output = data
//	output[i, indices[i, j, k], k] = f(output[i, indices[i, j, k], k], updates[i, j, k])     axis = 1
//
// f takes the update, or is the sum, product, maximum or minimum.
var ScatterElements = Op{
	Name: "ScatterElements", Since: 18, Form: scatterForm, Doc: "output = data with updates written at indices along axis",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("axis", 0), scatterReduction.since(16)},
	Infer: SameAs, Eval: kernel(evalScatterElements),
	Facts: Facts{Traits: general, InPlace: inPlaceFirst, Cost: moveCost},
}

// Scatter is the name of ScatterElements before operator set 11; it is replaced
// wherever it appears: https://onnx.ai/onnx/operators/onnx__Scatter.html
var Scatter = Op{
	Name: "Scatter", Since: 9, Form: since(9), Doc: "output = ScatterElements(data, indices, updates)",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("axis", 0)},
	Infer: SameAs, Eval: kernel(evalScatterElements),
	Facts: Facts{Traits: general, InPlace: inPlaceFirst, Cost: moveCost},
	Upgrades: []Upgrade{{Below: always, Source: changelog("Scatter", 11), Apply: func(_ *Upgrader, n *ssa.Node) error {
		n.Op = "ScatterElements"
		return nil
	}}},
}

// scatterForm is the oldest version with the node's reduction.
func scatterForm(n *ssa.Node) int {
	if r := Str(n, "reduction"); r == "max" || r == "min" {
		return 18
	}
	return typeForm(11, 13)(n)
}

func evalScatterElements(c *Call) {
	a := tensor(c, 0)
	ix := tensor(c, 1)
	up := tensor(c, 2)
	axis := try(NormAxis(Int(c.Node, "axis"), a.Rank()))
	if up.DType != a.DType || !slices.Equal(up.Shape, ix.Shape) {
		failf("updates %s do not fit data %s and indices %v", up, a, ix.Shape)
	}
	strides, step := alongAxis(a.Shape, ix.Shape, axis)
	picks := wrapIndices(ix, a.Shape[axis])
	s := newScatter(c, a, up)
	w := stridedWalk(ix.Shape, strides)
	w.each(func(i int, at []int) {
		s.apply(at[0]+picks[i]*step, i, 1)
	})
	s.finish()
}
