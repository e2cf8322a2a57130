package cuda

import (
	"slices"

	"github.com/berth-onnx/berth/backend/cuda/internal/device"
)

// Work of a graph waits for what it needs and no more: for work that has written what it reads, and for work that has read or written
// what it writes. So a graph has the edges of the data and those of memory that is used again; a plan for every order (WithParallelSafe)
// uses memory again only behind edges of the data, and branches that do not depend on each other run at the same time.
//
//	a = f(x)   c = h(a)        f ──▶ h ──┐
//	b = g(x)   d = k(b, c)     g ────────┴▶ k      and g ──▶ h if c lies where x did
//
// Ranges of memory are those of the launches' windows, of which the interpreter checks that kernels touch nothing else.

// edges finds what work waits for.
type edges struct {
	list  []touched // disjoint, in order
	count int       // of pieces of work so far
	waits []int     // of the present piece
}

// touched is a range of memory with the work that used it last.
type touched struct {
	lo, hi  device.Pointer
	writer  int   // -1: none in this graph
	readers []int // since then
}

// next ends the present piece of work and gives what it waits for, in order. It is valid until the next call.
func (e *edges) next() []int {
	slices.Sort(e.waits)
	e.waits = slices.Compact(e.waits)
	if k, found := slices.BinarySearch(e.waits, e.count); found {
		e.waits = slices.Delete(e.waits, k, k+1)
	}
	out := e.waits
	e.waits = nil
	e.count++
	return out
}

// from is the first range that ends behind an address.
func (e *edges) from(at device.Pointer) int {
	i, _ := slices.BinarySearchFunc(e.list, at, func(t touched, at device.Pointer) int {
		if t.hi <= at {
			return -1
		}
		return 1
	})
	return i
}

// cut has no range lie on both sides of an address.
func (e *edges) cut(at device.Pointer) {
	if i := e.from(at); i < len(e.list) && e.list[i].lo < at {
		left := e.list[i]
		left.hi, left.readers = at, slices.Clone(left.readers)
		e.list[i].lo = at
		e.list = slices.Insert(e.list, i, left)
	}
}

// read notes that the present piece of work reads a range.
func (e *edges) read(at device.Pointer, bytes int64) {
	if e == nil || bytes <= 0 {
		return
	}
	end := at + device.Pointer(bytes)
	e.cut(at)
	e.cut(end)
	for i := e.from(at); at < end; i++ {
		if i == len(e.list) || e.list[i].lo > at { // nobody has touched what lies before
			gap := touched{lo: at, hi: end, writer: -1}
			if i < len(e.list) {
				gap.hi = min(end, e.list[i].lo)
			}
			e.list = slices.Insert(e.list, i, gap)
		}
		t := &e.list[i]
		if t.writer >= 0 {
			e.waits = append(e.waits, t.writer)
		}
		if k := len(t.readers); k == 0 || t.readers[k-1] != e.count {
			t.readers = append(t.readers, e.count)
		}
		at = t.hi
	}
}

// write notes that it writes a range.
func (e *edges) write(at device.Pointer, bytes int64) {
	if e == nil || bytes <= 0 {
		return
	}
	end := at + device.Pointer(bytes)
	e.cut(at)
	e.cut(end)
	i := e.from(at)
	j := i
	for ; j < len(e.list) && e.list[j].lo < end; j++ {
		t := e.list[j]
		if t.writer >= 0 {
			e.waits = append(e.waits, t.writer)
		}
		e.waits = append(e.waits, t.readers...)
	}
	e.list = slices.Replace(e.list, i, j, touched{lo: at, hi: end, writer: e.count})
}
