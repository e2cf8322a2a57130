package movement

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// ScatterElements writes one element per index into a copy of data:
// https://onnx.ai/onnx/operators/onnx__ScatterElements.html
//
//	output = data
//	output[i, indices[i, j, k], k] = f(output[i, indices[i, j, k], k], updates[i, j, k])     axis = 1
//
// f takes the update, or is the sum, product, maximum or minimum.
var ScatterElements = ops.Op{
	Name: "ScatterElements", Since: 18, Form: scatterForm, Doc: "output = data with updates written at indices along axis",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis", 0), scatterReduction.From(16)},
	Infer: ops.SameAs, Eval: kit.Kernel(evalScatterElements),
	Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst, Cost: kit.MoveCost},
	Downgrades: []ops.Downgrade{{Below: 11, Form: kit.TypeForm(9, 13), Apply: func(u *ops.Upgrader, n *ssa.Node) error {
		n.Op = "Scatter"
		return kit.PositiveAxes(0, nil).Apply(u, n)
	}}},
}

// Scatter is the name of ScatterElements before operator set 11; it is replaced
// wherever it appears: https://onnx.ai/onnx/operators/onnx__Scatter.html
var Scatter = ops.Op{
	Name: "Scatter", Since: 9, Form: kit.Since(9), Doc: "output = ScatterElements(data, indices, updates)",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis", 0)},
	Infer: ops.SameAs, Eval: kit.Kernel(evalScatterElements),
	Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst, Cost: kit.MoveCost},
	Upgrades: []ops.Upgrade{{Below: kit.Always, Source: kit.Changelog("Scatter", 11), Apply: func(_ *ops.Upgrader, n *ssa.Node) error {
		n.Op = "ScatterElements"
		return nil
	}}},
}

// scatterForm is the oldest version with the node's reduction.
func scatterForm(n *ssa.Node) int {
	if r := ops.Str(n, "reduction"); r == "max" || r == "min" {
		return 18
	}
	return kit.TypeForm(11, 13)(n)
}

func evalScatterElements(c *ops.Call) {
	a, ix, up := kit.Tensor(c, 0), kit.Tensor(c, 1), kit.Tensor(c, 2)
	axis := kit.Try(ops.NormAxis(ops.Int(c.Node, "axis"), a.Rank()))
	if up.DType != a.DType || !slices.Equal(up.Shape, ix.Shape) {
		kit.Failf("updates %s do not fit data %s and indices %v", up, a, ix.Shape)
	}
	strides, step := alongAxis(a.Shape, ix.Shape, axis)
	picks := kit.WrapIndices(c, ix, a.Shape[axis])
	s := newScatter(c, a, up)
	w := kit.StridedWalk(c, ix.Shape, strides)
	w.Each(func(i int, at []int) { s.apply(at[0]+picks[i]*step, i, 1) })
	s.finish()
}
