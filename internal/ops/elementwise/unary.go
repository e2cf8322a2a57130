package elementwise

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// unary is one function of one element on each arithmetic domain. A nil entry
// means the operator does not take such types.
type unary struct {
	float func(float64) float64
	int   func(int64) int64
	uint  func(uint64) uint64
}

// unaryOp fills in what elementwise operators of one operand have in common.
func unaryOp(name string, since int, doc string, eval func(*ops.Call), form func(*ssa.Node) int) ops.Op {
	return ops.Op{
		Name: name, Since: since, Form: form, Doc: doc,
		MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
		Infer: ops.SameAs, Eval: kit.Kernel(eval),
		Facts: ops.Facts{Traits: ops.ElementwiseTraits.But(ops.ZeroSign(0), ops.Composition(0))},
	}
}

// floatOp is a function of floats without attributes: float16, float32 and float64
// since version base, all float types since version since.
//
//go:noinline
func floatOp(name string, base, since int, doc string, f kit.RealFunc) ops.Op {
	return unaryOp(name, since, doc, unary{float: f}.eval, kit.FloatForm(base, since)).But(ops.Composes)
}

// alphaOp is a function of floats with a parameter alpha that passes zeros on.
func alphaOp(name string, since int, doc string, def float32, form func(*ssa.Node) int, f func(alpha float64) kit.RealFunc) ops.Op {
	eval := func(c *ops.Call) { unary{float: f(float64(ops.Float(c.Node, "alpha")))}.eval(c) }
	return kit.WithAttrs(unaryOp(name, since, doc, eval, form), ops.FloatAttr("alpha", def)).But(ops.ZeroSignPassed, ops.Composes)
}

// withConsumedInputs returns the operator with the attribute it had up to operator set 5.
//
//go:noinline
func withConsumedInputs(o ops.Op) ops.Op { return kit.WithAttrs(o, kit.ConsumedInputs) }

// withContent returns the operator with a rule for known elements.
//
//go:noinline
func withContent(o ops.Op, f func(ssa.Dim) ssa.Dim) ops.Op {
	o.Infer = kit.Rule(func(n *ssa.Node) []ops.Inferred {
		t := ops.InType(n, 0)
		x := kit.Known(n, 0)
		if x == nil || !kit.TracksContent(t.DType) {
			return ops.One(t)
		}
		out := make([]ssa.Dim, len(x))
		kit.Convert(nil, out, x, f)
		return kit.FactOf(t, out)
	})
	return o
}

// eval is the kernel of a function without attributes.
func (u unary) eval(c *ops.Call) {
	a := kit.Tensor(c, 0)
	switch dt := a.DType; {
	case dt.IsFloat() && u.float != nil:
		mapElements(c, a, u.float)
	case dt.IsSigned() && u.int != nil:
		mapElements(c, a, u.int)
	case dt.IsUnsigned() && u.uint != nil:
		mapElements(c, a, u.uint)
	default:
		kit.Check(kit.UnsupportedType(dt))
	}
}

// mapElements stores f of every element as result 0.
func mapElements[T kit.Number](c *ops.Call, a *ndarray.Array, f func(T) T) {
	y := kit.NewResult[T](c, 0, a.DType, a.Shape...)
	kit.Convert(c, y.V, kit.Elements[T](c, a), f)
	y.Store()
}
