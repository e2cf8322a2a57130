package elementwise

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// variadic is an operator that folds any number of operands, element by element.
// Every result element is finished before the next one starts, so the result may
// take the place of any operand of its shape.
type variadic struct {
	step binary
	// mean divides the sum by the number of operands at the end; integers have none.
	mean bool
	// content combines known elements of two operands.
	content contentRule
}

// variadicOp fills in what such operators have in common.
func variadicOp(name string, since int, doc string, v variadic, form func(*ssa.Node) int) ops.Op {
	return ops.Op{
		Name: name, Since: since, Form: form, Doc: doc,
		MinIn: 1, MaxIn: -1, MinOut: 1, MaxOut: 1,
		Infer: kit.Rule(v.infer), Eval: kit.Kernel(v.eval),
		Facts: ops.Facts{Traits: ops.ElementwiseTraits.But(ops.Commutative, ops.ZeroSignPassed)},
		Attrs: []*ops.AttrSpec{kit.ConsumedInputs},

		Downgrades: []ops.Downgrade{{Below: 8, Form: kit.FormBy(kit.From(1, kit.FloatTypes), kit.From(8, kit.AnyType)), Apply: kit.SameShapes}},
	}
}

func (v variadic) infer(n *ssa.Node) []ops.Inferred {
	types := make([]ssa.Type, len(n.In))
	for i := range n.In {
		if n.In[i] == nil {
			kit.Failf("operand %d is absent", i)
		}
		types[i] = n.In[i].Type
	}
	t := kit.Try(ops.BroadcastTypes(kit.SameDType(n, kit.Positions(len(n.In))...), types...))
	if len(n.In) == 2 {
		return kit.FactOf(t, v.content.content(n, t))
	}
	return ops.One(t)
}

func (v variadic) eval(c *ops.Call) {
	in, shapes := kit.SameTensors(c)
	shape := kit.Try(ops.BroadcastShapes(shapes...))
	switch dt := in[0].DType; {
	case dt.IsFloat() && v.step.float != nil:
		share := 1.0
		if v.mean {
			share = float64(len(in))
		}
		foldOperands(c, in, shapes, shape, v.step.float, func(s float64) float64 { return s / share })
	case dt.IsSigned() && v.step.int != nil && !v.mean:
		foldOperands(c, in, shapes, shape, v.step.int, func(s int64) int64 { return s })
	case dt.IsUnsigned() && v.step.uint != nil && !v.mean:
		foldOperands(c, in, shapes, shape, v.step.uint, func(s uint64) uint64 { return s })
	default:
		kit.Check(kit.UnsupportedType(dt))
	}
}

func foldOperands[T kit.Number](c *ops.Call, in []*ndarray.Array, shapes [][]int, shape []int, step func(x, y T) T, done func(T) T) {
	y := kit.NewResult[T](c, 0, in[0].DType, shape...)
	x := make([][]T, len(in))
	for i, a := range in {
		x[i] = kit.Elements[T](c, a)
	}
	w := kit.NewWalk(c, shape, shapes...)
	w.Each(func(o int, at []int) {
		acc := x[0][at[0]]
		for i := 1; i < len(x); i++ {
			acc = step(acc, x[i][at[i]])
		}
		y.V[o] = done(acc)
	})
	y.Store()
}
