package lower

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

func reshapeRule(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	return b.reshape(in[0], n.Shape()...)
}

func transposeRule(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	return b.transpose(in[0], get[[]int](b, n, "pattern")...)
}

func concat(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	return b.with("Concat", in, ssa.IntAttr("axis", int64(get[int](b, n, "axis"))))
}

// window is what a slice selects along one axis.
type window struct{ axis, start, end, step int }

// windowOf reads the slice of an op; all of x where there is none.
func (b *builder) windowOf(n *gorgonia.Node, x *ssa.Value) window {
	w := window{axis: get[int](b, n, "along"), step: 1}
	if b.err != nil || w.axis >= b.rank(x) {
		b.failAxis(w.axis, x)
		return w
	}
	size := b.shape(x)[w.axis]
	w.end = size
	at, err := fieldAt[tensor.Slice](n.Op(), "Slice")
	if err != nil {
		b.fail(err)
		return w
	}
	s := *at
	b.out.Slices = append(b.out.Slices, Slice{n, s, at})
	if s != nil && s.End() > s.Start() {
		w.start, w.step = s.Start(), max(s.Step(), 1)
		w.end = w.start + max((min(s.End(), size)-w.start)/w.step, 1)*w.step
	}
	return w
}

func (b *builder) failAxis(axis int, x *ssa.Value) {
	if b.rank(x) == 0 {
		b.fail(fmt.Errorf("axis %d of a scalar, which has no axes", axis))
		return
	}
	b.fail(fmt.Errorf("axis %d of a tensor of rank %d, whose axes are 0 to %d", axis, b.rank(x), b.rank(x)-1))
}

// Slice is what a slicing op selected when the graph was written.
type Slice struct {
	Node *gorgonia.Node
	is   tensor.Slice
	now  *tensor.Slice // where the op has it
}

// Changed reports that the op selects something else now.
func (s Slice) Changed() bool {
	now := *s.now
	if now == nil || s.is == nil {
		return now != nil || s.is != nil
	}
	return now.Start() != s.is.Start() || now.End() != s.is.End() || now.Step() != s.is.Step()
}

// count is how many slices the window selects. Gorgonia leaves out the last one where the
// step does not divide the range.
func (w window) count() int { return (w.end - w.start) / w.step }

func (b *builder) slice(x *ssa.Value, w window) *ssa.Value {
	return b.op("Slice", x, b.ints(w.start), b.ints(w.end), b.ints(w.axis), b.ints(w.step))
}

func slice(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	return b.slice(in[0], b.windowOf(n, in[0]))
}

// sliceIncr takes x and the adjoint d of its slice: zeros like x with d in the slice's place.
// With a step, d is spread out first:
//
//	[a b] ─▶ [a 0 b 0] ─▶ [. . a 0 b 0 . ] cut to size
func sliceIncr(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	x, d := in[0], in[1]
	w, shape := b.windowOf(n, x), slices.Clone(b.shape(x))
	if b.err != nil {
		return d
	}
	size := shape[w.axis]
	shape[w.axis] = w.count()
	d = b.reshape(d, shape...)
	if w.step > 1 {
		spread := slices.Insert(slices.Clone(shape), w.axis+1, 1)
		pads := make([]int, 2*len(spread))
		pads[len(spread)+w.axis+1] = w.step - 1
		shape[w.axis] *= w.step
		d = b.reshape(b.op("Pad", b.reshape(d, spread...), b.ints(pads...)), shape...)
		shape[w.axis] = min(shape[w.axis], size-w.start)
		d = b.slice(d, window{w.axis, 0, shape[w.axis], 1})
	}
	pads := make([]int, 2*len(shape))
	pads[w.axis], pads[len(shape)+w.axis] = w.start, size-w.start-shape[w.axis]
	return b.op("Pad", d, b.ints(pads...))
}

// diagonal is a matrix with the elements of x on its diagonal: n columns of zeros are put behind x as a column, and the elements
// counted anew in rows of n.
//
//	[a b] ─▶ [a 0 0, b 0 0] ─▶ [a 0, 0 b] (0 0)
func diagonal(b *builder, _ *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	n := ndarray.Product(b.shape(in[0]))
	d := b.op("Pad", b.reshape(in[0], n, 1), b.ints(0, 0, 0, n))
	return b.reshape(b.slice(b.reshape(d, n*(n+1)), window{0, 0, n * n, 1}), n, n)
}

// at is one element.
func at(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	c, s := get[[]int](b, n, "coordinates"), b.shape(in[0])
	if len(c) != len(s) {
		b.fail(fmt.Errorf("%d coordinates %v for a tensor of shape %v; give one for each axis", len(c), c, s))
		return in[0]
	}
	for i, at := range c {
		if at < 0 || at >= s[i] {
			b.fail(fmt.Errorf("coordinate %d along axis %d, which has %d places; give one from 0 on that is less", at, i, s[i]))
			return in[0]
		}
	}
	ends := make([]int, len(c))
	for i := range c {
		ends[i] = c[i] + 1
	}
	return b.op("Slice", in[0], b.ints(c...), b.ints(ends...), b.ints(upTo(0, len(c))...))
}

func byIndices(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	axis := get[int](b, n, "axis")
	return b.with("Gather", []*ssa.Value{in[0], b.reshape(in[1], ndarray.Product(b.shape(in[1])))}, ssa.IntAttr("axis", int64(axis)))
}

// byIndicesDiff takes x, the adjoint d of what was selected, and the indices: zeros like x,
// to which each slice of d is added where it was taken from.
func byIndicesDiff(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	x, d, axis := in[0], in[1], get[int](b, n, "axis")
	indices := b.reshape(in[2], ndarray.Product(b.shape(in[2])), 1)
	perm := upTo(0, b.rank(x))
	perm[0], perm[axis] = perm[axis], perm[0]
	shape := slices.Clone(b.shape(x))
	shape[0], shape[axis] = shape[axis], shape[0]
	if axis != 0 {
		d = b.transpose(d, perm...)
	}
	sums := b.with("ScatterND", []*ssa.Value{b.zeros(x.Type.DType, shape...), indices, d}, ssa.StringAttr("reduction", "add"))
	if axis != 0 {
		sums = b.transpose(sums, perm...)
	}
	return sums
}
