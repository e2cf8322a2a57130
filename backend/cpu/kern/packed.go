package kern

import (
	"context"
	"math"
)

// Constant operands in the order in which kernels read them.
//
// A plan says how (its layout), a Packed holds the elements; plans with equal
// layouts read the same Packed. Packing is cut into pieces that do not depend on
// each other: the worker pool packs them, and a cancelled context is noticed
// between two of them.
//
//	source   [row][k]  ──piece──▶  buffer of the worker  ──copy──▶  packed
//
// Packing kernels store whole vectors, so a piece may be followed by up to
// slackFloats elements of no meaning: pieces are made in a buffer, and only their
// own elements are copied. No call of a packing kernel and no copy takes more than
// pieceBytes or so: the garbage collector cannot stop a goroutine within one.
//
// A source whose elements are all equal is packed as the smallest unit in which
// its layout repeats (one panel, one pair of blocks), which the kernels read again
// and again.

// pieceBytes is about how much one call of a packing kernel writes.
const pieceBytes = 256 << 10

// Layout identifies the order of a packed operand: the same source in equal layouts
// is the same bytes.
type Layout struct {
	Kind  string // what it is called where layouts are listed
	Level Level
	dims  [8]int
}

// Source is a constant operand as a model holds it: its elements, which may begin at
// any address, or the one element of all of them.
type Source struct {
	Data  []float32
	Splat bool
}

// dense wraps elements.
func dense(x []float32) Source { return Source{Data: x} }

// unitary reports a source that is packed as a unit. Infinite elements are not:
// they must not meet the zeros of padding channels.
func (s Source) unitary() bool {
	return s.Splat && len(s.Data) > 0 && !math.IsInf(float64(s.Data[0]), 0) && s.Data[0] == s.Data[0]
}

// elements returns n elements, writing a splat out.
func (s Source) elements(n int) []float32 {
	if !s.Splat || len(s.Data) == 0 {
		return s.Data
	}
	out := make([]float32, n)
	for i := range out {
		out[i] = s.Data[0]
	}
	return out
}

// Packed is a constant operand in the layout of a plan. It is immutable.
type Packed struct {
	layout Layout
	packedView
	words []uint32 // of an integer operand, in place of data
	sums  []int32  // of its rows or columns
}

// Layout identifies the order.
func (p *Packed) Layout() Layout { return p.layout }

// Bytes returns the memory that it holds.
func (p *Packed) Bytes() int { return 4 * (len(p.data) + len(p.words) + len(p.sums)) }

// packedView is a packed operand as a run reads it.
type packedView struct {
	data []float32
	unit bool // data is the unit that repeats
}

// at is the address of element i. Only elements at which units begin are asked for.
func (v *packedView) at(i int) *float32 {
	if v.unit {
		i = 0
	}
	return f32p(v.data, i)
}

// packer lays a constant operand out.
type packer interface {
	layout() Layout
	size() int     // elements of the packed operand, slack included
	unitSize() int // elements of a unit, slack included
	sourceLen() int
	pieces() int
	// span is where piece i begins and how many elements it has. A piece of none is
	// written by pack to places of its own, from element 0 on.
	span(i int) (at, n int)
	// pack writes piece i, which begins at dst, and up to slackFloats elements more.
	pack(dst, w []float32, i int)
	// packUnit writes the unit of a source whose elements are all v.
	packUnit(dst []float32, v float32)
}

// packAll packs a source.
func packAll(ctx context.Context, kernel string, p packer, src Source) (*Packed, error) {
	out := &Packed{layout: p.layout()}
	if src.unitary() {
		out.unit, out.data = true, alignedFloats(p.unitSize())
		p.packUnit(out.data, src.Data[0])
		return out, nil
	}
	w := src.elements(p.sourceLen())
	if err := needs(kernel, "constant operand", w, p.sourceLen()); err != nil {
		return nil, err
	}
	out.data = alignedFloats(p.size())
	if threads := packThreads(4 * p.size()); threads > 1 {
		return out, packTogether(ctx, p, out.data, w, threads)
	}
	return out, inPieces(ctx, p.pieces(), 1, func(i, _ int) {
		at, _ := p.span(i) // in order: what follows a piece is written over by the next
		p.pack(out.data[at:], w, i)
	})
}

// packTogether packs on several threads: pieces are made in buffers of the workers.
func packTogether(ctx context.Context, p packer, data, w []float32, threads int) error {
	most := 0
	for i := range p.pieces() {
		_, n := p.span(i)
		most = max(most, n)
	}
	tmp := make([][]float32, threads)
	return inPieces(ctx, p.pieces(), threads, func(i, worker int) {
		at, n := p.span(i)
		if n == 0 {
			p.pack(data, w, i)
			return
		}
		if tmp[worker] == nil {
			tmp[worker] = alignedFloats(most + slackFloats)
		}
		p.pack(tmp[worker], w, i)
		for n, from := n, 0; n > 0; {
			m := copy(data[at+from:], tmp[worker][from:][:min(n, pieceBytes/4)])
			n, from = n-m, from+m
		}
	})
}

// packThreads is how many threads pack so many bytes: a few pieces are not worth handing
// out.
func packThreads(bytes int) int { return max(1, min(Threads(), bytes/pieceBytes)) }

// fillUnit is packUnit for layouts in which every element is the source's.
func fillUnit(dst []float32, v float32) {
	for i := range dst {
		dst[i] = v
	}
}

// pieces is a Task: it calls a function for every piece until the context ends.
type pieces struct {
	ctx context.Context
	f   func(i, worker int)
}

// Run does piece i.
func (p *pieces) Run(i, worker int) {
	if p.ctx.Err() == nil {
		p.f(i, worker)
	}
}

// inPieces calls f for every index below n on the worker pool.
func inPieces(ctx context.Context, n, threads int, f func(i, worker int)) error {
	Parallel(n, threads, &pieces{ctx, f})
	return ctx.Err()
}
