package movement

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// OneHot marks indices in a new dimension: https://onnx.ai/onnx/operators/onnx__OneHot.html
//
//	output[…, k, …] = on  if k = indices[…] (negative ones count from depth), else off
//
// values holds off and on. Indices outside of [-depth, depth) mark nothing.
var OneHot = ops.Op{
	Name: "OneHot", Since: 28, Form: oneHotForm, Doc: "output = one-hot code of indices along axis",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis", -1)},
	Infer: kit.Rule(inferOneHot), Eval: kit.Kernel(evalOneHot),
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.MoveCost},

	Downgrades: []ops.Downgrade{{Below: 11, Form: kit.TypeForm(9, 28), Apply: func(u *ops.Upgrader, n *ssa.Node) error {
		if err := kit.PositiveInts(u, n, 0, kit.SoleKnown(n, 1)); err != nil || ops.Int(n, "axis") == -1 {
			return err
		}
		return kit.PositiveAxes(1, nil).Apply(u, n)
	}}},
}

func oneHotForm(n *ssa.Node) int {
	idx, ok := ops.ConstInts(n, 0)
	negative := func(i int64) bool { return i < 0 }
	if ops.Int(n, "axis") < -1 || !ok || slices.ContainsFunc(idx, negative) {
		return kit.TypeForm(11, 28)(n)
	}
	return kit.TypeForm(9, 28)(n)
}

func inferOneHot(n *ssa.Node) []ops.Inferred {
	t, dt := ops.InType(n, 0), ops.InType(n, 2).DType
	kit.MatchShapes(n, "*", "*", "2")
	if k, ok := ops.InType(n, 1).NumElems().Const(); ok && k != 1 {
		kit.Failf("depth has %d elements, it must have one", k)
	}
	if !t.Ranked {
		return ops.One(ssa.UnrankedTensor(dt))
	}
	axis := kit.Try(ops.NormAxis(ops.Int(n, "axis"), len(t.Shape)+1))
	return ops.One(ssa.TensorOf(dt, slices.Insert(slices.Clone(t.Shape), axis, kit.SoleKnown(n, 1))...))
}

func evalOneHot(c *ops.Call) {
	ix, values := kit.Tensor(c, 0), kit.Tensor(c, 2)
	kit.WantLen("values", values, 2)
	axis := kit.Try(ops.NormAxis(ops.Int(c.Node, "axis"), ix.Rank()+1))
	depth := kit.ShapeOfInts([]int64{kit.Sole(c, 1).Int(0)})
	shape := slices.Insert(slices.Clone(ix.Shape), axis, depth[0])
	out := kit.Result(c, 0, values.DType, shape...)
	kit.FillWhole(c, out, values) // its first element is off
	outer, dim, inner := kit.SplitDims(shape, axis)
	w := kit.Watching(c)
	for i := range outer * inner {
		w.Did(1)
		if k, err := ops.WrapIndex(ix.Int(i), dim); err == nil {
			kit.CopyElems(&w, out, (i/inner*dim+k)*inner+i%inner, values, 1, 1)
		}
	}
}
