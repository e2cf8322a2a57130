package testmodels

import "github.com/berth-onnx/berth/ssa"

var branchModels = []Builtin{
	{Name: "if-capture", Doc: "If whose branches read captured values", Build: ifCapture},
	{Name: "if-results", Doc: "If whose branches define two results each, with different temporaries", Build: ifResults},
	{Name: "if-pass", Doc: "If with a branch that passes a captured value through", Build: ifPass},
	{Name: "if-nested", Doc: "If inside If, captures of captures", Build: ifNested},
}

func ifCapture() *ssa.Module {
	b := newBuilder("if-capture")
	cond, x := b.flag("cond"), b.static("x", 2, 8, 8)
	a := b.op("Relu", x)
	t := b.op("Tanh", x)
	y := b.branch(cond, []*ssa.Value{a, t}, func(b *builder, c []*ssa.Value) []*ssa.Value {
		return []*ssa.Value{b.op("Mul", b.op("Exp", c[1]), c[0])}
	}, func(b *builder, c []*ssa.Value) []*ssa.Value {
		return []*ssa.Value{b.op("Sub", c[0], c[1])}
	})
	return b.module([]string{"y"}, b.op("Add", y[0], t))
}

// ifResults gives one branch a few large temporaries and the other many small
// ones: their memory may overlay.
func ifResults() *ssa.Module {
	b := newBuilder("if-results")
	cond, x := b.flag("cond"), b.static("x", 8, 16)
	h := b.op("Tanh", x)
	y := b.branch(cond, []*ssa.Value{h}, func(b *builder, c []*ssa.Value) []*ssa.Value {
		wide := b.op("Relu", b.op("MatMul", c[0], b.weight("wide", 16, 16, 64)))
		return []*ssa.Value{b.op("MatMul", wide, b.weight("narrow", 64, 64, 16)), b.op("Exp", c[0])}
	}, func(b *builder, c []*ssa.Value) []*ssa.Value {
		sum := c[0]
		for _, op := range []string{"Sigmoid", "Abs", "Softplus"} {
			sum = b.op("Add", sum, b.op(op, c[0]))
		}
		return []*ssa.Value{sum, b.op("Mul", sum, c[0])}
	})
	return b.module([]string{"y", "z"}, y[0], b.op("Add", y[1], h))
}

// ifPass reads the passed value again afterwards: the result of the If must not
// be written over as if it were the If's own.
func ifPass() *ssa.Module {
	b := newBuilder("if-pass")
	cond, x := b.flag("cond"), b.static("x", 4, 32)
	a := b.op("Relu", x)
	y := b.branch(cond, []*ssa.Value{a}, func(_ *builder, c []*ssa.Value) []*ssa.Value {
		return []*ssa.Value{c[0]}
	}, func(b *builder, c []*ssa.Value) []*ssa.Value {
		return []*ssa.Value{b.op("Exp", b.op("Neg", c[0]))}
	})
	z := b.op("Sigmoid", y[0])
	return b.module([]string{"y", "z"}, b.op("Tanh", y[0]), b.op("Add", z, a))
}

func ifNested() *ssa.Module {
	b := newBuilder("if-nested")
	outer, inner, x := b.flag("outer"), b.flag("inner"), b.static("x", 4, 16)
	a := b.op("Abs", x)
	y := b.branch(outer, []*ssa.Value{inner, a, x}, func(b *builder, c []*ssa.Value) []*ssa.Value {
		e := b.op("Softplus", c[1])
		y := b.branch(c[0], []*ssa.Value{c[1], e}, func(b *builder, c []*ssa.Value) []*ssa.Value {
			return []*ssa.Value{b.op("Mul", c[0], c[1])}
		}, func(_ *builder, c []*ssa.Value) []*ssa.Value {
			return []*ssa.Value{c[1]}
		})
		return []*ssa.Value{b.op("Add", y[0], c[2])}
	}, func(b *builder, c []*ssa.Value) []*ssa.Value {
		return []*ssa.Value{b.op("Sub", c[2], c[1])}
	})
	return b.module([]string{"y"}, b.op("Tanh", y[0]))
}
