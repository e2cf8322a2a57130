package elementwise

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Clip limits elements to an interval: https://onnx.ai/onnx/operators/onnx__Clip.html
// An absent limit is the least or largest number of the type, which infinities are
// clipped to; where min is above max, everything is max. NaN stays NaN.
var Clip = ops.Op{
	Name: "Clip", Since: 13, Doc: "Y = min(max, max(X, min))",
	Form:  kit.FormBy(kit.From(11, kit.FloatTypes), kit.From(12, kit.IntegerTypes), kit.From(13, kit.AnyType)),
	MinIn: 1, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Infer: kit.Rule(inferClip), Eval: kit.Kernel(evalClip),
	Facts: ops.Facts{Traits: ops.ElementwiseTraits.But(ops.ZeroSignPassed), InPlace: kit.InPlaceFirst},
	Attrs: []*ops.AttrSpec{kit.ConsumedInputs, ops.FloatAttr("min").Before(6), ops.FloatAttr("min", -math.MaxFloat32).From(6).Before(11),
		ops.FloatAttr("max").Before(6), ops.FloatAttr("max", math.MaxFloat32).From(6).Before(11)},
	Upgrades: []ops.Upgrade{{Below: 11, Source: kit.Changelog("Clip", 11), Apply: upgradeClip}},

	Downgrades: []ops.Downgrade{{Below: 11, Form: kit.FormBy(kit.From(1, kit.FloatTypes), kit.From(12, kit.AnyType)), Apply: downgradeClip}},
}

// downgradeClip makes attributes of constant limits. Where min is above max, which kernels of these versions refuse, both are max.
func downgradeClip(_ *ops.Upgrader, n *ssa.Node) error {
	for i, name := range []string{"min", "max"} {
		v := n.Input(i + 1)
		if v == nil {
			continue
		}
		k, err := kit.FloatConst(v)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		n.SetAttr(ssa.FloatAttr(name, k))
	}
	if lo, hi := n.Attr("min"), n.Attr("max"); lo != nil && hi != nil && lo.F > hi.F {
		n.SetAttr(ssa.FloatAttr("min", hi.F))
	}
	n.TruncateInputs(1)
	return nil
}

// upgradeClip turns the attributes min and max into operands of X's type.
func upgradeClip(u *ops.Upgrader, n *ssa.Node) error {
	for i, name := range []string{"min", "max"} {
		if !n.Has(name) {
			continue
		}
		v := float32Operand(u, n, name, ops.Float(n, name))
		n.DropAttr(name)
		u.SetOperand(n, i+1, v)
	}
	return nil
}

// float32Operand makes a scalar constant of the element type of operand 0.
func float32Operand(u *ops.Upgrader, n *ssa.Node, hint string, v float32) *ssa.Value {
	dt := ops.InType(n, 0).DType
	if dt == ndarray.Undefined {
		c := u.Const(hint, ssa.ScalarConst(v))
		return u.Before(n, "CastLike", []*ssa.Value{c, n.In[0]}, 1).Out[0]
	}
	a := ndarray.Must(dt)
	a.SetFloat(0, float64(v))
	return u.Const(hint, ssa.NewConstant(a))
}

func inferClip(n *ssa.Node) []ops.Inferred {
	_ = kit.SameDType(n, 0, 1, 2)
	t := ops.InType(n, 0)
	x := kit.Known(n, 0)
	if x == nil || !kit.TracksContent(t.DType) {
		return ops.One(t)
	}
	out := append([]ssa.Dim(nil), x...)
	for i, limit := range []func(a, b ssa.Dim) ssa.Dim{ssa.Dim.Max, ssa.Dim.Min} {
		if n.Input(i+1) == nil {
			continue
		}
		b := kit.Known(n, i+1)
		if len(b) != 1 {
			return ops.One(t)
		}
		for k := range out {
			out[k] = limit(out[k], b[0])
		}
	}
	return kit.FactOf(t, out)
}

func evalClip(c *ops.Call) {
	x := kit.Tensor(c, 0)
	for i := 1; i <= 2; i++ {
		if a := c.Array(i); c.Has(i) && (a == nil || a.Len() != 1 || a.DType != x.DType) {
			kit.Failf("limit %d is not one element of type %s", i, x.DType)
		}
	}
	most := x.DType.MaxFinite()
	unary{
		float: clipTo(c, -most, most, func(a *ndarray.Array) float64 { return a.Float(0) }),
		int:   clipTo(c, math.MinInt64, math.MaxInt64, func(a *ndarray.Array) int64 { return a.Int(0) }),
		uint:  clipTo(c, 0, math.MaxUint64, func(a *ndarray.Array) uint64 { return uint64(a.Int(0)) }),
	}.eval(c)
}

// clipTo limits numbers to the operands min and max, or to the limits of the type.
func clipTo[T float64 | int64 | uint64](c *ops.Call, lo, hi T, read func(*ndarray.Array) T) func(T) T {
	if c.Has(1) {
		lo = read(c.Array(1))
	}
	if c.Has(2) {
		hi = read(c.Array(2))
	}
	return func(v T) T {
		if v < lo {
			v = lo
		}
		if v > hi {
			v = hi
		}
		return v
	}
}
