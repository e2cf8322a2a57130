package ops

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Clip limits elements to an interval: https://onnx.ai/onnx/operators/onnx__Clip.html
// An absent limit is the least or largest number of the type, which infinities are
// clipped to; where min is above max, everything is max. NaN stays NaN.
var Clip = Op{
	Name: "Clip", Since: 13, Doc: "Y = min(max, max(X, min))",
	Form:  formBy(typeStep{11, floatTypes}, typeStep{12, integerTypes}, typeStep{13, anyType}),
	MinIn: 1, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Infer: rule(inferClip), Eval: kernel(evalClip),
	Facts: Facts{Traits: elementwise.but(ZeroSignPassed), InPlace: inPlaceFirst},
	Attrs: []AttrSpec{consumedInputs, floatAttr("min").until(6), floatAttr("min", -math.MaxFloat32).since(6).until(11),
		floatAttr("max").until(6), floatAttr("max", math.MaxFloat32).since(6).until(11)},
	Upgrades: []Upgrade{{Below: 11, Source: changelog("Clip", 11), Apply: upgradeClip}},
}

// upgradeClip turns the attributes min and max into operands of X's type.
func upgradeClip(u *Upgrader, n *ssa.Node) error {
	for i, name := range []string{"min", "max"} {
		if !n.Has(name) {
			continue
		}
		v := float32Operand(u, n, name, Float(n, name))
		n.DropAttr(name)
		for len(n.In) <= i+1 {
			n.AddInput(nil)
		}
		n.SetInput(i+1, v)
	}
	return nil
}

// float32Operand makes a scalar constant of the element type of operand 0.
func float32Operand(u *Upgrader, n *ssa.Node, hint string, v float32) *ssa.Value {
	dt := InType(n, 0).DType
	if dt == ndarray.Undefined {
		c := u.Const(hint, ssa.ScalarConst(v))
		return u.Before(n, "CastLike", []*ssa.Value{c, n.In[0]}, 1).Out[0]
	}
	a := ndarray.Must(dt)
	a.SetFloat(0, float64(v))
	return u.Const(hint, ssa.NewConstant(a))
}

func inferClip(n *ssa.Node) []Inferred {
	_ = sameDType(n, 0, 1, 2)
	t := InType(n, 0)
	x := known(n, 0)
	if x == nil || !followed(t.DType) {
		return One(t)
	}
	out := append([]ssa.Dim(nil), x...)
	for i, limit := range []func(a, b ssa.Dim) ssa.Dim{ssa.Dim.Max, ssa.Dim.Min} {
		if n.Input(i+1) == nil {
			continue
		}
		b := known(n, i+1)
		if len(b) != 1 {
			return One(t)
		}
		for k := range out {
			out[k] = limit(out[k], b[0])
		}
	}
	return factOf(t, out)
}

func evalClip(c *Call) {
	x := tensor(c, 0)
	for i := 1; i <= 2; i++ {
		if a := c.Array(i); c.Has(i) && (a == nil || a.Len() != 1 || a.DType != x.DType) {
			failf("limit %d is not one element of type %s", i, x.DType)
		}
	}
	u := unary{}
	switch lo, hi := c.Array(1), c.Array(2); {
	case x.DType.IsFloat():
		u.float = clipFloat(x.DType.MaxFinite(), lo, hi)
	case x.DType.IsSigned():
		l, h := int64(math.MinInt64), int64(math.MaxInt64)
		if lo != nil {
			l = lo.Int(0)
		}
		if hi != nil {
			h = hi.Int(0)
		}
		u.int = func(v int64) int64 { return min(h, max(l, v)) }
	default:
		l, h := uint64(0), uint64(math.MaxUint64)
		if lo != nil {
			l = uint64(lo.Int(0))
		}
		if hi != nil {
			h = uint64(hi.Int(0))
		}
		u.uint = func(v uint64) uint64 { return min(h, max(l, v)) }
	}
	u.eval(c)
}

// clipFloat clips to limits, absent ones being those of a type up to most.
func clipFloat(most float64, lo, hi *ndarray.Array) func(float64) float64 {
	l, h := -most, most
	if lo != nil {
		l = lo.Float(0)
	}
	if hi != nil {
		h = hi.Float(0)
	}
	return func(v float64) float64 {
		if v < l {
			v = l
		}
		if v > h {
			v = h
		}
		return v
	}
}
