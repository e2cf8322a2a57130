package lower

import (
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Gorgonia's arithmetic takes operands of one shape, so that whoever broadcasts repeats
// first. ONNX's arithmetic broadcasts, and the repetition is never made:
//
//	b [1 4] ─▶ Repeat ─▶ [3 4] ──┐                b [1 4] ──┐
//	x [3 4] ─────────────────────┴─▶ + [3 4]      x [3 4] ──┴─▶ Add [3 4]
//
// widened maps a repeated value to what it was repeated from, of the same rank.

// repeat makes rep copies of every slice along an axis, next to each other.
func repeat(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	axis, out := get[int](b, n, "along"), []int(n.Shape())
	from := slices.Clone(b.shape(in[0]))
	for len(from) < len(out) {
		from = append(from, 1)
	}
	if b.err != nil || axis >= len(from) || from[axis] == out[axis] {
		return in[0]
	}
	x := b.reshape(in[0], from...)
	if from[axis] == 1 {
		return b.widen(x, out)
	}
	split := slices.Insert(slices.Clone(from), axis+1, 1)
	wide := slices.Clone(split)
	wide[axis+1] = out[axis] / from[axis]
	return b.reshape(b.op("Expand", b.reshape(x, split...), b.ints(wide...)), out...)
}

// widen repeats along dimensions of 1, from the first of several repetitions.
func (b *builder) widen(x *ssa.Value, shape []int) *ssa.Value {
	if w := b.widened[x]; w != nil {
		x = w
	}
	y := b.op("Expand", x, b.ints(shape...))
	b.widened[y] = x
	return y
}

// narrowed returns operands of arithmetic with a result of the given shape: not repeated
// where the result keeps its shape.
func (b *builder) narrowed(shape []int, x, y *ssa.Value) (*ssa.Value, *ssa.Value) {
	x, y = b.aligned(x, shape), b.aligned(y, shape)
	if w := b.widened[x]; w != nil && b.broadcastsTo(shape, w, y) {
		x = w
	}
	if w := b.widened[y]; w != nil && b.broadcastsTo(shape, x, w) {
		y = w
	}
	return x, y
}

// aligned gives an operand as large as the result the result's shape, from which it
// differs by dimensions of 1 at most; a smaller one is a scalar.
func (b *builder) aligned(v *ssa.Value, shape []int) *ssa.Value {
	switch {
	case slices.Equal(b.shape(v), shape):
		return v
	case ndarray.Product(b.shape(v)) == ndarray.Product(shape):
		return b.reshape(v, shape...)
	case ndarray.Product(b.shape(v)) == 1:
		return b.reshape(v)
	}
	return v
}

func (b *builder) broadcastsTo(shape []int, x, y *ssa.Value) bool {
	s, err := ops.BroadcastShapes(b.shape(x), b.shape(y))
	return err == nil && slices.Equal(s, shape)
}
