package lower

import (
	"gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth/ssa"
)

// reduction is the rule of sums and maxima. The sum of what was repeated only so that it
// could be summed is not simplified: it is rare.
func reduction(op string) rule {
	return func(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
		axes := get[[]int](b, n, "along")
		if len(axes) == 0 {
			axes = upTo(0, b.rank(in[0]))
		}
		return b.with(op, []*ssa.Value{in[0], b.ints(axes...)}, ssa.IntAttr("keepdims", 0))
	}
}

// sizeOf is a dimension as a number.
func sizeOf(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	size, axis := get[int](b, n, "val"), get[int](b, n, "axis")
	if s := b.shape(in[0]); size == 0 && axis < len(s) {
		size = s[axis]
	}
	return b.number(in[0], float64(max(size, 1)))
}

// softmaxAxis is the axis of a softmax over x: the last one unless it is given. That of a scalar, which Gorgonia takes, is 0.
func softmaxAxis(b *builder, n *gorgonia.Node, x *ssa.Value) int {
	axis := get[int](b, n, "axis")
	switch s := b.shape(x); {
	case len(s) == 0 && axis != 0 && axis != -1:
		b.failAxis(axis, x)
		return 0
	case axis != -1:
		return axis
	case len(s) == 2 && s[1] == 1 && s[0] > 1: // a column
		return 0
	default:
		return max(len(s)-1, 0)
	}
}

func softmax(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	op := "Softmax"
	if get[bool](b, n, "isLog") {
		op = "LogSoftmax"
	}
	return b.with(op, in, ssa.IntAttr("axis", int64(softmaxAxis(b, n, in[0]))))
}

// softmaxDiff takes x, y = softmax(x) and the adjoint d of y: y·(d - Σ d·y), for the
// logarithm d - e^y·Σ d.
func softmaxDiff(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	y, d, axis := in[1], in[2], softmaxAxis(b, n, in[0])
	if get[bool](b, n, "isLog") {
		return b.op("Sub", d, b.op("Mul", b.op("Exp", y), b.sum(d, axis)))
	}
	return b.op("Mul", y, b.op("Sub", d, b.sum(b.op("Mul", d, y), axis)))
}
