package lower

import (
	"fmt"
	"math"

	"gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/ssa"
)

// binaryOps are the elementwise operators in the order of Gorgonia's constants.
var binaryOps = []string{"Add", "Sub", "Mul", "Div", "Pow", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal", ""}

// firstComparison is where the comparisons begin in binaryOps.
const firstComparison = 5

// elementwiseBinary writes arithmetic and comparisons. Operands of one size have one
// shape up to dimensions of 1; others are scalars.
func elementwiseBinary(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	which, err := selector(n.Op(), "ʘBinaryOperator", "ʘBinaryOperatorType")
	if err == nil && which >= len(binaryOps) {
		err = fmt.Errorf("unknown elementwise operator %d: another version of Gorgonia?", which)
	}
	if err != nil {
		b.fail(err)
		return in[0]
	}
	x, y := b.narrowed(n.Shape(), in[0], in[1])
	if which < firstComparison {
		return b.arithmetic(binaryOps[which], x, y)
	}
	var out *ssa.Value
	if name := binaryOps[which]; name != "" {
		out = b.op(name, x, y)
	} else {
		out = b.op("Not", b.op("Equal", x, y))
	}
	dt, _ := values.DType(n.Dtype())
	return b.cast(out, dt)
}

// arithmetic adds a node; a number times a comparison with zero is recognized as Relu.
func (b *builder) arithmetic(op string, x, y *ssa.Value) *ssa.Value {
	if op == "Mul" {
		if x == rectified(y) {
			return b.op("Relu", x)
		}
		if y == rectified(x) {
			return b.op("Relu", y)
		}
	}
	return b.op(op, x, y)
}

// rectified returns x where v is the comparison x >= 0 as numbers, which Gorgonia's
// Rectify multiplies x with; else nil.
func rectified(v *ssa.Value) *ssa.Value {
	if v.Def == nil || v.Def.Op != "Cast" {
		return nil
	}
	c := v.Def.In[0].Def
	if c == nil || c.Op != "GreaterOrEqual" || c.In[1].Const == nil || c.In[1].Const.Len() != 1 {
		return nil
	}
	if a, err := c.In[1].Const.Array(); err != nil || a.Float(0) != 0 {
		return nil
	}
	return c.In[0]
}

// fail keeps the first failure.
func (b *builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// unaryOps are the elementwise functions by the names that Gorgonia prints.
var unaryOps = map[string]func(b *builder, x *ssa.Value) *ssa.Value{
	"abs": unary("Abs"), "sign": unary("Sign"), "ceil": unary("Ceil"), "floor": unary("Floor"),
	"sin": unary("Sin"), "cos": unary("Cos"), "exp": unary("Exp"), "ln": unary("Log"), "neg": unary("Neg"),
	"sqrt": unary("Sqrt"), "inv": unary("Reciprocal"), "tanh": unary("Tanh"), "sigmoid": unary("Sigmoid"), "softplus": unary("Softplus"),
	"log2":    func(b *builder, x *ssa.Value) *ssa.Value { return b.op("Mul", b.op("Log", x), b.number(x, 1/math.Ln2)) },
	"square":  func(b *builder, x *ssa.Value) *ssa.Value { return b.op("Mul", x, x) },
	"cube":    func(b *builder, x *ssa.Value) *ssa.Value { return b.op("Mul", b.op("Mul", x, x), x) },
	"invSqrt": func(b *builder, x *ssa.Value) *ssa.Value { return b.op("Reciprocal", b.op("Sqrt", x)) },
	"log1p":   log1p, "expm1": expm1,
}

func unary(op string) func(b *builder, x *ssa.Value) *ssa.Value {
	return func(b *builder, x *ssa.Value) *ssa.Value { return b.op(op, x) }
}

func elementwiseUnary(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	name := fmt.Sprint(n.Op())
	f := unaryOps[name]
	if f == nil {
		b.fail(fmt.Errorf("unknown elementwise function %q", name))
		return in[0]
	}
	return f(b, in[0])
}

// log1p is log(1+x) without the rounding of 1+x, by which log(u)·x/(u-1) with the rounded
// u = 1+x is as wrong in the factor log(u)/(u-1) only, which is flat there.
//
// Source: Goldberg, What Every Computer Scientist Should Know About Floating-Point
// Arithmetic (1991), theorem 4.
func log1p(b *builder, x *ssa.Value) *ssa.Value {
	one := b.number(x, 1)
	u := b.op("Add", x, one)
	log := b.op("Log", u)
	near := b.op("Less", b.op("Abs", x), b.number(x, 0.5))
	exact := b.op("Div", b.op("Mul", log, x), b.op("Sub", u, one))
	return b.op("Where", b.op("Equal", u, one), x, b.op("Where", near, exact, log))
}

// expm1 is exp(x)-1 near 0 by the inverse of the same device: (u-1)·x/log(u), u = exp(x).
func expm1(b *builder, x *ssa.Value) *ssa.Value {
	one := b.number(x, 1)
	u := b.op("Exp", x)
	plain := b.op("Sub", u, one)
	near := b.op("Less", b.op("Abs", x), b.number(x, 0.5))
	exact := b.op("Div", b.op("Mul", plain, x), b.op("Log", u))
	return b.op("Where", b.op("Equal", u, one), x, b.op("Where", near, exact, plain))
}

// convert changes the element type.
func convert(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	dt, _ := values.DType(n.Dtype())
	return b.cast(in[0], dt)
}
