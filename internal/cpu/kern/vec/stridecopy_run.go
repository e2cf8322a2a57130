package vec

import (
	"cmp"
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Running a prepared copy: the loop over the outer dimensions and the ways of copying the inner
// ones.

// copyJob is one run; it is a Task. The pointers are at the start of the box.
type copyJob struct {
	c        *Copy
	t        *simd.Table
	dst, src unsafe.Pointer
	size     int // bytes of an element
	done     <-chan struct{}
}

var copyJobs machine.FreeList[copyJob]

// RunCopy runs a prepared copy on at most threads threads. dstAt and srcAt are
// the elements at which the box starts. dst and src do not overlap. When done, which may be nil,
// is closed, the rest is left out.
func RunCopy[T Elem](done <-chan struct{}, c *Copy, dst []T, dstAt int, src []T, srcAt int, threads int) error {
	if c.total == 0 {
		return nil
	}
	if dstAt+c.dst.lo < 0 || srcAt+c.src.lo < 0 {
		return &machine.SpecError{Kernel: "Copy", Field: "start", Why: "the box reaches before the slice"}
	}
	if err := cmp.Or(
		machine.Needs("Copy", "destination", dst, dstAt+c.dst.hi+1),
		machine.Needs("Copy", "source", src, srcAt+c.src.hi+1),
	); err != nil {
		return err
	}
	j := copyJobs.Get()
	defer copyJobs.Release(j)
	*j = copyJob{c, simd.Active(), machine.Ptr(dst, dstAt), machine.Ptr(src, srcAt), int(unsafe.Sizeof(dst[0])), done}
	machine.Parallel(machine.CeilDiv(c.loops*c.pieces, c.perTask), threads, j)
	return nil
}

// Run copies the pieces of task i.
func (j *copyJob) Run(i, _ int) {
	if machine.Closed(j.done) {
		return
	}
	c := j.c
	first, past := i*c.perTask, min((i+1)*c.perTask, c.loops*c.pieces)
	if c.pieces == 1 && len(c.outer) > 0 {
		j.iterations(first, past)
		return
	}
	for u := first; u < past; u++ {
		var idx [maxCopyDims]int
		at := u % c.pieces * c.per
		d, s := c.start(u/c.pieces, &idx)
		d, s = d+at*c.inner.dst, s+at*c.inner.src
		j.piece(unsafe.Add(j.dst, d*j.size), unsafe.Add(j.src, s*j.size), min(c.per, c.inner.n-at))
	}
}

// start is where an iteration of the loop begins, and its indices.
func (c *Copy) start(iter int, idx *[maxCopyDims]int) (d, s int) {
	for k := len(c.outer) - 1; k >= 0; k-- {
		o := &c.outer[k]
		idx[k] = iter % o.n
		iter /= o.n
		d += idx[k] * o.dst
		s += idx[k] * o.src
	}
	return d, s
}

// iterations copies iterations first to past-1 of the loop, a line of the innermost outer
// dimension at a time.
func (j *copyJob) iterations(first, past int) {
	c := j.c
	var idx [maxCopyDims]int
	d, s := c.start(first, &idx)
	last := len(c.outer) - 1
	for first < past {
		o := &c.outer[last]
		n := min(o.n-idx[last], past-first)
		j.line(unsafe.Add(j.dst, d*j.size), unsafe.Add(j.src, s*j.size), o, n)
		first += n
		idx[last] += n
		d, s = d+n*o.dst, s+n*o.src
		for k := last; k > 0 && idx[k] == c.outer[k].n; k-- { // carry
			o, up := &c.outer[k], &c.outer[k-1]
			idx[k] = 0
			idx[k-1]++
			d, s = d+up.dst-o.n*o.dst, s+up.src-o.n*o.src
		}
	}
}

// line copies n iterations of the innermost outer dimension.
func (j *copyJob) line(d, s unsafe.Pointer, o *copyDim, n int) {
	c := j.c
	ds, ss := o.dst*j.size, o.src*j.size
	if size := c.inner.n * j.size; c.kind == copyRuns && size <= 64 {
		copyShort(d, s, ds, ss, n, size)
		return
	}
	for i := range n {
		j.piece(unsafe.Add(d, i*ds), unsafe.Add(s, i*ss), c.inner.n)
	}
}

// copyShort copies n runs of at most 64 bytes, which a call of memmove each would take
// longer for: the first bytes and the last ones, in widths that may overlap.
func copyShort(d, s unsafe.Pointer, ds, ss, n, size int) {
	switch {
	case size == 1:
		copyEnds[uint8](d, s, ds, ss, n, size)
	case size < 4:
		copyEnds[uint16](d, s, ds, ss, n, size)
	case size < 8:
		copyEnds[uint32](d, s, ds, ss, n, size)
	case size < 16:
		copyEnds[uint64](d, s, ds, ss, n, size)
	case size < 32:
		copyEnds[[2]uint64](d, s, ds, ss, n, size)
	default:
		copyEnds[[4]uint64](d, s, ds, ss, n, size)
	}
}

// copyEnds copies the first and the last bytes of n runs, as many as T has, which together
// are all of them.
func copyEnds[T any](d, s unsafe.Pointer, ds, ss, n, size int) {
	last := size - int(unsafe.Sizeof(*new(T)))
	if last == 0 {
		for i := range n {
			*(*T)(unsafe.Add(d, i*ds)) = *(*T)(unsafe.Add(s, i*ss))
		}
		return
	}
	for i := range n {
		to, from := unsafe.Add(d, i*ds), unsafe.Add(s, i*ss)
		head, tail := *(*T)(from), *(*T)(unsafe.Add(from, last))
		*(*T)(to), *(*T)(unsafe.Add(to, last)) = head, tail
	}
}

// piece copies n elements of the inner dimension.
func (j *copyJob) piece(d, s unsafe.Pointer, n int) {
	c := j.c
	if c.kind == copyRuns {
		copy(unsafe.Slice((*byte)(d), n*j.size), unsafe.Slice((*byte)(s), n*j.size))
		return
	}
	if c.kind == copyTranspose && j.size == 4 {
		j.transpose4((*float32)(d), (*float32)(s), n)
		return
	}
	if c.kind == copyTranspose && j.size == 2 {
		j.transpose2((*uint16)(d), (*uint16)(s), n)
		return
	}
	switch j.size {
	case 1:
		pieceOf(j, (*uint8)(d), (*uint8)(s), n)
	case 2:
		pieceOf(j, (*uint16)(d), (*uint16)(s), n)
	case 4:
		pieceOf(j, (*uint32)(d), (*uint32)(s), n)
	default:
		pieceOf(j, (*uint64)(d), (*uint64)(s), n)
	}
}

// transposeBlock is the number of columns transposed before the next rows: the cache
// lines they touch stay in the cache.
const transposeBlock = 64

// lookCross is how many columns, of at least 16 elements, are transposed between two looks at what ends the run.
const lookCross = 1 << 14

// transpose4 transposes elements of 4 bytes: n along the inner dimension are rows of the source, the
// crossing dimension its columns.
func (j *copyJob) transpose4(d, s *float32, n int) {
	c, tw := j.c, j.t.Tw
	if n == 2 {
		interleave((*uint32)(unsafe.Pointer(d)), (*uint32)(unsafe.Pointer(s)), c.cross.n, c.cross.dst, c.inner.src)
		return
	}
	for k := 0; k < c.cross.n; k += transposeBlock {
		if k%lookCross == 0 && machine.Closed(j.done) {
			return
		}
		cols := min(transposeBlock, c.cross.n-k)
		for r := 0; r < n; r += tw {
			dst := (*float32)(unsafe.Add(unsafe.Pointer(d), 4*(k*c.cross.dst+r)))
			src := (*float32)(unsafe.Add(unsafe.Pointer(s), 4*(k+r*c.inner.src)))
			j.t.Transpose(dst, src, cols, 4*c.cross.dst, 4*c.inner.src, min(tw, n-r))
		}
	}
}

// halvesBlock is how many columns of elements of 2 bytes are transposed before the next rows.
const halvesBlock = 32

// transpose2 is transpose4 for elements of 2 bytes, in blocks of 4 rows and 4 columns, each row in a register.
func (j *copyJob) transpose2(d, s *uint16, n int) {
	c := j.c
	at := func(p *uint16, i int) unsafe.Pointer { return unsafe.Add(unsafe.Pointer(p), 2*i) }
	columns, rows := c.cross.n&^3, n&^3
	for first := 0; first < columns; first += halvesBlock {
		if first%lookCross == 0 && machine.Closed(j.done) {
			return
		}
		past := min(first+halvesBlock, columns)
		for r := 0; r < rows; r += 4 {
			for k := first; k < past; k += 4 {
				transpose4x4(at(d, k*c.cross.dst+r), at(s, k+r*c.inner.src), 2*c.cross.dst, 2*c.inner.src)
			}
		}
	}
	for r := range n {
		from := 0
		if r < rows {
			from = columns
		}
		for k := from; k < c.cross.n; k++ {
			if k%lookCross == lookCross-1 && machine.Closed(j.done) {
				return
			}
			*(*uint16)(at(d, k*c.cross.dst+r)) = *(*uint16)(at(s, k+r*c.inner.src))
		}
	}
}

// transpose4x4 transposes 4 rows of 4 elements of 2 bytes, in two steps: pairs of elements, then pairs of pairs. ds and ss are bytes from row to row.
//
//	a0 a1 a2 a3      a0 b0 a2 b2      a0 b0 c0 d0
//	b0 b1 b2 b3  ─▶  a1 b1 a3 b3  ─▶  a1 b1 c1 d1
//	c0 c1 c2 c3      c0 d0 c2 d2      a2 b2 c2 d2
//	d0 d1 d2 d3      c1 d1 c3 d3      a3 b3 c3 d3
func transpose4x4(d, s unsafe.Pointer, ds, ss int) {
	const even, low = 0x0000ffff0000ffff, 0x00000000ffffffff
	a0, b0 := *(*uint64)(s), *(*uint64)(unsafe.Add(s, ss))
	c0, d0 := *(*uint64)(unsafe.Add(s, 2*ss)), *(*uint64)(unsafe.Add(s, 3*ss))
	a, b := a0&even|b0&even<<16, a0>>16&even|b0&^even
	e, f := c0&even|d0&even<<16, c0>>16&even|d0&^even
	*(*uint64)(d) = a&low | e<<32
	*(*uint64)(unsafe.Add(d, ds)) = b&low | f<<32
	*(*uint64)(unsafe.Add(d, 2*ds)) = a>>32 | e&^low
	*(*uint64)(unsafe.Add(d, 3*ds)) = b>>32 | f&^low
}

// interleave writes n pairs, step elements apart, of a row and the one that begins gap
// elements behind it.
func interleave(d, s *uint32, n, step, gap int) {
	x := unsafe.Slice(s, n)
	y := unsafe.Slice((*uint32)(unsafe.Add(unsafe.Pointer(s), 4*gap)), n)
	for k, v := range x {
		to := (*[2]uint32)(unsafe.Add(unsafe.Pointer(d), 4*k*step))
		to[0], to[1] = v, y[k]
	}
}

// pieceOf copies the inner dimension, and the crossing one if there is one,
// element by element.
func pieceOf[T Elem](j *copyJob, d, s *T, n int) {
	const block = 16
	c := j.c
	at := func(p *T, i int) *T { return (*T)(unsafe.Add(unsafe.Pointer(p), i*int(unsafe.Sizeof(*p)))) }
	switch c.kind {
	case copyRepeats:
		row := unsafe.Slice(d, n)
		v := *s
		for i := range row {
			row[i] = v
		}
	case copyTranspose:
		for i0 := 0; i0 < n; i0 += block {
			for k := range c.cross.n {
				if k%lookCross == lookCross-1 && machine.Closed(j.done) {
					return
				}
				for i := i0; i < min(i0+block, n); i++ {
					*at(d, k*c.cross.dst+i) = *at(s, k+i*c.inner.src)
				}
			}
		}
	default:
		for i := range n {
			*at(d, i*c.inner.dst) = *at(s, i*c.inner.src)
		}
	}
}
