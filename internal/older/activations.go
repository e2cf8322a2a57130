package older

import (
	"math"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// hardSwish is x · clip(x/6 + 1/2, 0, 1).
func hardSwish(b *builder) []*ssa.Value {
	x := b.in[0]
	gate := b.plus(b.times(x, 1./6), .5)
	return one(b.op("Mul", x, b.op("Clip", gate, b.number(x, 0), b.number(x, 1))))
}

// celu is α·Elu(x/α).
func celu(b *builder) []*ssa.Value {
	alpha := float64(ops.Float(b.n, "alpha"))
	return one(b.times(b.with("Elu", b.op("Div", b.in[0], b.number(b.in[0], alpha))), alpha))
}

// mish is x · tanh(softplus(x)).
func mish(b *builder) []*ssa.Value {
	return one(b.op("Mul", b.in[0], b.op("Tanh", b.op("Softplus", b.in[0]))))
}

// gelu is x/2 · (1 + erf(x/√2)), or x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³))).
func gelu(b *builder) []*ssa.Value {
	x, inner := b.in[0], b.in[0]
	if ops.Str(b.n, "approximate") == "tanh" {
		cube := b.op("Mul", x, b.op("Mul", x, x))
		inner = b.op("Tanh", b.times(b.op("Add", x, b.times(cube, 0.044715)), math.Sqrt(2/math.Pi)))
	} else {
		inner = b.op("Erf", b.op("Div", x, b.number(x, math.Sqrt2)))
	}
	return one(b.op("Mul", b.times(x, .5), b.plus(inner, 1)))
}

// gated is x · sigmoid(α·x).
func (b *builder) gated(x *ssa.Value) *ssa.Value {
	inner := x
	if alpha := ops.Float(b.n, "alpha"); alpha != 1 {
		inner = b.times(x, float64(alpha))
	}
	return b.op("Mul", x, b.op("Sigmoid", inner))
}

func swish(b *builder) []*ssa.Value { return one(b.gated(b.in[0])) }

func swiGLU(b *builder) []*ssa.Value { return one(b.op("Mul", b.gated(b.in[0]), b.in[1])) }

// orEqual is a comparison or equality: false for NaN, as the negation of the opposite is not.
func orEqual(strict string) formula {
	return func(b *builder) []*ssa.Value {
		return one(b.op("Or", b.op(strict, b.in[0], b.in[1]), b.op("Equal", b.in[0], b.in[1])))
	}
}

// castLike is Cast to the element type of operand 1.
func castLike(b *builder) []*ssa.Value {
	m := b.node("Cast", b.in[:1], 1, append([]ssa.Attr{ssa.IntAttr("to", int64(b.in[1].Type.DType))}, b.n.Attrs...)...)
	return m.Out
}
