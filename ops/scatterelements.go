package ops

import (
	"fmt"
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
	Infer: SameAs, Eval: evalScatterElements,
	Facts: Facts{Traits: general, InPlace: inPlaceFirst, Cost: moveCost},
}

// Scatter is the name of ScatterElements before operator set 11; it is replaced
// wherever it appears: https://onnx.ai/onnx/operators/onnx__Scatter.html
var Scatter = Op{
	Name: "Scatter", Since: 9, Form: since(9), Doc: "output = ScatterElements(data, indices, updates)",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("axis", 0)},
	Infer: SameAs, Eval: evalScatterElements,
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

func evalScatterElements(c *Call) error {
	a, err := needTensor(c, 0)
	if err != nil {
		return err
	}
	ix, err := needTensor(c, 1)
	if err != nil {
		return err
	}
	up, err := needTensor(c, 2)
	if err != nil {
		return err
	}
	axis, err := NormAxis(Int(c.Node, "axis"), a.Rank())
	if err != nil {
		return err
	}
	if up.DType != a.DType || !slices.Equal(up.Shape, ix.Shape) {
		return fmt.Errorf("updates %s do not fit data %s and indices %v", up, a, ix.Shape)
	}
	strides, step, err := alongAxis(a.Shape, ix.Shape, axis)
	if err != nil {
		return err
	}
	picks, err := wrapIndices(ix, a.Shape[axis])
	if err != nil {
		return err
	}
	s, err := newScatter(c, a, up)
	if err != nil {
		return err
	}
	_ = eachOffset(ix.Shape, strides, func(i, at int) error {
		s.apply(at+picks[i]*step, i, 1)
		return nil
	})
	s.finish()
	return nil
}
