package movement

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Squeeze drops dimensions of length 1, all of them without axes:
// https://onnx.ai/onnx/operators/onnx__Squeeze.html
var Squeeze = ops.Op{
	Name: "Squeeze", Since: 25, Form: squeezeForm, Doc: "squeezed = data without the 1-dimensions at axes",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntsAttr("axes").Before(13)},
	Infer: kit.Rule(inferSqueeze), Eval: kit.Kernel(evalSqueeze),
	Facts:    ops.Facts{Traits: ops.ReshapingTraits, Alias: kit.KnownView, Cost: kit.FreeCost},
	Upgrades: []ops.Upgrade{kit.AttrToOperand("Squeeze", 13, "axes", 1)},

	Downgrades: []ops.Downgrade{kit.OperandToAttr(13, "axes", 1, kit.TypeForm(1, 13)), kit.PositiveAxes(0, nil)},
}

// Unsqueeze inserts dimensions of length 1: https://onnx.ai/onnx/operators/onnx__Unsqueeze.html
//
// axes are positions in the result.
var Unsqueeze = ops.Op{
	Name: "Unsqueeze", Since: 25, Form: kit.TypeForm(13, 21, 23, 24, 25), Doc: "expanded = data with 1-dimensions inserted at axes",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntsAttr("axes").Mandatory().Before(13)},
	Infer: kit.Rule(inferUnsqueeze), Eval: kit.Kernel(evalUnsqueeze),
	Facts:    ops.Facts{Traits: ops.ReshapingTraits, Alias: kit.KnownView, Cost: kit.FreeCost},
	Upgrades: []ops.Upgrade{kit.AttrToOperand("Unsqueeze", 13, "axes", 1)},

	Downgrades: []ops.Downgrade{kit.OperandToAttr(13, "axes", 1, kit.TypeForm(1, 13)), kit.PositiveAxes(1, nil)},
}

func squeezeForm(n *ssa.Node) int {
	base := 13
	if n.Input(1) == nil {
		base = 1
	}
	return kit.TypeForm(base, 13, 21, 23, 24, 25)(n)
}

func inferSqueeze(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	axes, fixed := ops.ConstInts(n, 1)
	static := !slices.ContainsFunc(t.Shape, func(d ssa.Dim) bool { _, ok := d.Const(); return !ok })
	switch k := kit.LenOf(n, 1); {
	case t.Ranked && n.Input(1) != nil && !fixed && k >= 0:
		return ops.One(kit.TensorOfRank(t.DType, len(t.Shape)-k))
	case !t.Ranked || n.Input(1) != nil && !fixed || n.Input(1) == nil && !static: // may be 1 or not
		return ops.One(ssa.UnrankedTensor(t.DType))
	}
	drop := kit.Try(kit.NormAxes(axes, len(t.Shape)))
	var dims []ssa.Dim
	for i, d := range t.Shape {
		k, number := d.Const()
		switch listed := slices.Contains(drop, i); {
		case listed && number && k != 1:
			kit.Failf("dimension %d is %d, it can not be squeezed", i, k)
		case !listed && (n.Input(1) != nil || k != 1):
			dims = append(dims, d)
		}
	}
	return kit.FactOf(ssa.TensorOf(t.DType, dims...), kit.Known(n, 0))
}

func evalSqueeze(c *ops.Call) {
	a := kit.Tensor(c, 0)
	drop := kit.Try(kit.NormAxes(kit.OptionalInts(c, 1), a.Rank()))
	var shape []int
	for i, d := range a.Shape {
		switch listed := slices.Contains(drop, i); {
		case listed && d != 1:
			kit.Failf("dimension %d of %v can not be squeezed", i, a.Shape)
		case !listed && (c.Has(1) || d != 1):
			shape = append(shape, d)
		}
	}
	kit.CopyReshaped(c, a, shape)
}

func inferUnsqueeze(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	axes, fixed := ops.ConstInts(n, 1)
	if !t.Ranked || !fixed {
		if k := kit.LenOf(n, 1); t.Ranked && k >= 0 {
			return ops.One(kit.TensorOfRank(t.DType, len(t.Shape)+k))
		}
		return ops.One(ssa.UnrankedTensor(t.DType))
	}
	return kit.FactOf(ssa.TensorOf(t.DType, insertOnes(t.Shape, ssa.D(1), axes)...), kit.Known(n, 0))
}

// insertOnes returns shape with one inserted at axes, which count in the result.
func insertOnes[T any](shape []T, one T, axes []int64) []T {
	rank := len(shape) + len(axes)
	at := kit.Try(kit.NormAxes(axes, rank))
	slices.Sort(at)
	out := slices.Clone(shape)
	for _, i := range at {
		out = slices.Insert(out, i, one)
	}
	return out
}

func evalUnsqueeze(c *ops.Call) {
	a := kit.Tensor(c, 0)
	kit.CopyReshaped(c, a, insertOnes(a.Shape, 1, kit.Ints(c, 1)))
}
