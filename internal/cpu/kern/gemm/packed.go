package gemm

import (
	"context"
	"math"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// Packed operands: constant operands in the order in which kernels read them.
//
// A plan defines the layout, a Packed holds the elements; plans with equal layouts
// read the same Packed. Packing is cut into pieces that do not depend on each other:
// the worker pool packs them, and a cancelled context ends the work between two.
//
//	source   [row][k]  ──piece──▶  buffer of the worker  ──copy──▶  packed
//
// Packing kernels store whole vectors, so up to SlackFloats elements after a piece are
// overwritten: pieces are made in a buffer, and only their own elements are copied. No
// call of a packing kernel and no copy writes much more than pieceBytes, because the
// garbage collector cannot stop a goroutine within one.
//
// A source whose elements are all equal is packed as one unit, the smallest part in
// which its layout repeats (a panel, a pair of blocks); kernels read it repeatedly.
//
// Memory is asked of the budget that the context carries: a layout that pads its rows or columns to whole
// vectors may take many times the source.

// pieceBytes is about how much one call of a packing kernel writes.
const pieceBytes = 256 << 10

// Layout identifies the order of a packed operand: the same source packed in equal
// layouts gives the same bytes.
type Layout struct {
	Kind  string // what it is called where layouts are listed
	Level machine.Level
	Dims  [8]int
}

// Source is a constant operand as a model holds it: its elements, which may begin at any
// address, or, of a splat, the one element that all are equal to.
type Source struct {
	Data  []float32
	Splat bool
}

// Dense is the source of elements that are all given.
func Dense(x []float32) Source { return Source{Data: x} }

// unitary reports whether the source is packed as a unit. Infinite elements and NaN are
// not: times the zeros of padding channels they would give NaN.
func (s Source) unitary() bool {
	return s.Splat && len(s.Data) > 0 && !math.IsInf(float64(s.Data[0]), 0) && s.Data[0] == s.Data[0]
}

// Elements returns n elements, writing a splat out.
func (s Source) Elements(ctx context.Context, n int) ([]float32, error) {
	if !s.Splat || len(s.Data) == 0 {
		return s.Data, nil
	}
	if err := machine.AskPacked(ctx, 4*n); err != nil {
		return nil, err
	}
	out := make([]float32, n)
	fill(out, s.Data[0])
	return out, nil
}

// Packed is a constant operand in the layout of a plan. It is immutable.
type Packed struct {
	Order Layout
	PackedView
	Words []uint32 // of an integer operand, in place of Data
	Sums  []int32  // of its rows or columns
}

// Layout identifies the order.
func (p *Packed) Layout() Layout { return p.Order }

// Bytes returns the memory that it holds.
func (p *Packed) Bytes() int { return 4 * (len(p.Data) + len(p.Words) + len(p.Sums)) }

// PackedView is a packed operand as a run reads it.
type PackedView struct {
	Data []float32
	Unit bool // Data is the unit that repeats
}

// At is the address of element i, at which a unit begins.
func (v *PackedView) At(i int) *float32 {
	if v.Unit {
		i = 0
	}
	return machine.F32p(v.Data, i)
}

// Packing is how a plan lays a constant operand out.
type Packing struct {
	Layout    Layout
	Size      int // elements of the packed operand, slack included
	UnitSize  int // elements of a unit, slack included
	SourceLen int // elements of the source
	Pieces    int

	// Span returns where piece i begins and how many elements it has. A piece of none
	// consists of several parts, which Pack writes counting from element 0.
	Span func(i int) (at, n int)
	// Pack writes piece i of the source w to dst, and up to SlackFloats elements after it.
	Pack func(dst, w []float32, i int)
	// PackUnit writes the unit of a source whose elements are all v. It is nil where all
	// elements of the unit are v.
	PackUnit func(dst []float32, v float32)
}

// PackAll packs a source.
func PackAll(ctx context.Context, kernel string, p *Packing, src Source) (*Packed, error) {
	out := &Packed{Order: p.Layout}
	if src.unitary() {
		if err := machine.AskPacked(ctx, 4*p.UnitSize); err != nil {
			return nil, err
		}
		out.Unit, out.Data = true, machine.AlignedFloats(ctx, p.UnitSize)
		if p.PackUnit != nil {
			p.PackUnit(out.Data, src.Data[0])
		} else {
			fill(out.Data, src.Data[0])
		}
		return out, nil
	}
	w, err := src.Elements(ctx, p.SourceLen)
	if err == nil {
		err = machine.Needs(kernel, "constant operand", w, p.SourceLen)
	}
	if err == nil {
		err = machine.AskPacked(ctx, 4*p.Size)
	}
	if err != nil {
		return nil, err
	}
	out.Data = machine.AlignedFloats(ctx, p.Size)
	if threads := PackThreads(4 * p.Size); threads > 1 {
		return out, packParallel(ctx, p, out.Data, w, threads)
	}
	return out, InPieces(ctx, p.Pieces, 1, func(i, _ int) { p.inOrder(out.Data, w, i) })
}

// PackInOrder packs all of w into dst on the calling goroutine, without allocating.
func (p *Packing) PackInOrder(dst, w []float32) {
	for i := range p.Pieces {
		p.inOrder(dst, w, i)
	}
}

// inOrder packs piece i in place, after those before it: the elements written after its
// own are overwritten by the next piece.
func (p *Packing) inOrder(dst, w []float32, i int) {
	at, _ := p.Span(i)
	p.Pack(dst[at:], w, i)
}

// packParallel packs on several threads: pieces are made in buffers of the workers.
func packParallel(ctx context.Context, p *Packing, data, w []float32, threads int) error {
	most := 0
	for i := range p.Pieces {
		_, n := p.Span(i)
		most = max(most, n)
	}
	tmp := make([][]float32, threads)
	return InPieces(ctx, p.Pieces, threads, func(i, worker int) {
		at, n := p.Span(i)
		if n == 0 {
			p.Pack(data, w, i)
			return
		}
		if tmp[worker] == nil {
			tmp[worker] = machine.AlignedFloats(ctx, most+machine.SlackFloats)
		}
		p.Pack(tmp[worker], w, i)
		for n, from := n, 0; n > 0; {
			m := copy(data[at+from:], tmp[worker][from:][:min(n, pieceBytes/4)])
			n, from = n-m, from+m
		}
	})
}

// PackThreads is how many threads pack so many bytes: one for less than two pieces.
func PackThreads(bytes int) int { return max(1, min(machine.Threads(), bytes/pieceBytes)) }

// fill sets all elements to v.
func fill(dst []float32, v float32) {
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

// InPieces calls f for every index below n on the worker pool.
func InPieces(ctx context.Context, n, threads int, f func(i, worker int)) error {
	machine.Parallel(n, threads, &pieces{ctx, f})
	return ctx.Err()
}
