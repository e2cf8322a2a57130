package vec

import (
	"slices"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// Strided copies, of which transpose, slice, expand, concat and pad are cases.
//
// A copy moves an N-dimensional box between two memory layouts, each given by
// a stride per dimension. The plan drops dimensions of extent one, orders the
// rest by the destination's strides, and merges neighbours that are contiguous on both
// sides. Most copies are then one of
//
//	runs        the inner dimension is contiguous on both sides: memory moves
//	repeats     the source has stride 0 along it: fill
//	transpose   contiguous on one side along one dimension, on the other side
//	            along another: blocks are transposed in registers
//	scattered   anything else, element by element
//
// and the outer dimensions are a loop around it.

// copyKind is the way the inner dimensions are copied.
type copyKind uint8

const (
	copyScattered copyKind = iota
	copyRuns
	copyRepeats
	copyTranspose
)

// copyDim is one dimension: extent and strides in elements.
type copyDim struct{ n, dst, src int }

// Copy is a prepared strided copy. It is immutable and serves elements of any
// type.
type Copy struct {
	outer    []copyDim
	inner    copyDim // dst stride 1 where possible
	cross    copyDim // transpose: the dimension along which the source is contiguous
	kind     copyKind
	total    int // elements
	loops    int // product of the outer extents
	pieces   int // pieces of one iteration of the loop
	per      int // inner elements of a piece
	perTask  int // pieces of a task
	dst, src span
}

// span is the range of elements that a side touches, relative to its start.
type span struct{ lo, hi int }

const (
	maxCopyDims   = 32
	copyTaskElems = 1 << 15
)

// NewCopy prepares a copy of a box with the given extents between two layouts.
// Strides are in elements; source strides may be zero (repeat) or negative.
// Destination elements must be distinct.
func NewCopy(dims, dstStrides, srcStrides []int) (*Copy, error) {
	if len(dims) > maxCopyDims || len(dstStrides) != len(dims) || len(srcStrides) != len(dims) {
		return nil, &machine.SpecError{Kernel: "Copy", Field: "dims", Why: "more than 32, or strides of another rank"}
	}
	c := &Copy{total: 1}
	var ds []copyDim
	for i, n := range dims {
		t, ok := machine.MulAll(c.total, n)
		_, ok1 := machine.MulAll(n, abs(dstStrides[i]))
		_, ok2 := machine.MulAll(n, abs(srcStrides[i]))
		if !ok || !ok1 || !ok2 {
			return nil, &machine.SpecError{Kernel: "Copy", Field: "dims", Why: "negative or too large"}
		}
		c.total = t
		if n != 1 {
			ds = append(ds, copyDim{n, dstStrides[i], srcStrides[i]})
		}
	}
	if c.total == 0 {
		return c, nil
	}
	for _, d := range ds {
		c.dst.extend(d.n, d.dst)
		c.src.extend(d.n, d.src)
	}
	c.plan(ds)
	return c, nil
}

// NewTranspose prepares a transposition of a dense box: dimension i of the
// result is dimension perm[i] of the source.
func NewTranspose(dims, perm []int) (*Copy, error) {
	if len(perm) != len(dims) {
		return nil, &machine.SpecError{Kernel: "Copy", Field: "perm", Why: "not of the rank of the dimensions"}
	}
	seen := make([]bool, len(dims))
	src := denseStrides(dims)
	out, ss := make([]int, len(dims)), make([]int, len(dims))
	for i, p := range perm {
		if p < 0 || p >= len(dims) || seen[p] {
			return nil, &machine.SpecError{Kernel: "Copy", Field: "perm", Why: "not a permutation"}
		}
		seen[p] = true
		out[i], ss[i] = dims[p], src[p]
	}
	return NewCopy(out, denseStrides(out), ss)
}

// denseStrides are the strides of a dense box.
func denseStrides(dims []int) []int {
	s := make([]int, len(dims))
	n := 1
	for i := len(dims) - 1; i >= 0; i-- {
		s[i] = n
		n *= max(dims[i], 1)
	}
	return s
}

func abs(x int) int { return max(x, -x) }

func (s *span) extend(n, stride int) {
	if stride < 0 {
		s.lo += (n - 1) * stride
	} else {
		s.hi += (n - 1) * stride
	}
}

// plan orders, merges and classifies.
func (c *Copy) plan(ds []copyDim) {
	for i := range ds { // a few: inserted one by one
		for k := i; k > 0 && abs(ds[k].dst) > abs(ds[k-1].dst); k-- {
			ds[k], ds[k-1] = ds[k-1], ds[k]
		}
	}
	var m []copyDim
	for _, d := range ds {
		if last := len(m) - 1; last >= 0 && m[last].dst == d.dst*d.n && m[last].src == d.src*d.n {
			m[last] = copyDim{m[last].n * d.n, d.dst, d.src}
			continue
		}
		m = append(m, d)
	}
	if len(m) == 0 {
		m = []copyDim{{1, 1, 1}}
	}
	c.inner, m = m[len(m)-1], m[:len(m)-1]
	switch {
	case c.inner.dst == 1 && c.inner.src == 1:
		c.kind = copyRuns
	case c.inner.dst == 1 && c.inner.src == 0:
		c.kind = copyRepeats
	case c.inner.dst == 1:
		for i, d := range m {
			if d.src == 1 && d.n > 1 {
				c.kind, c.cross = copyTranspose, d
				m = slices.Delete(m, i, i+1)
				break
			}
		}
	}
	c.outer = m
	c.loops = 1
	for _, d := range m {
		c.loops *= d.n
	}
	c.cut()
}

// cut divides the work into pieces and the pieces into tasks.
func (c *Copy) cut() {
	width := max(1, c.cross.n)
	c.per = c.inner.n
	if c.kind == copyTranspose {
		c.per = min(c.inner.n, machine.RoundUp(max(1, copyTaskElems/width), 16))
	} else if c.inner.n > copyTaskElems {
		c.per = copyTaskElems
	}
	c.pieces = machine.CeilDiv(c.inner.n, c.per)
	c.perTask = max(1, copyTaskElems/(c.per*width))
}

// Len returns the number of elements that are copied.
func (c *Copy) Len() int { return c.total }

// Elem is what can be copied: anything without pointers of 1, 2, 4 or 8 bytes.
type Elem interface {
	~bool | ~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64 | ~complex64
}
