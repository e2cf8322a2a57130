package cpu

import (
	"github.com/berth-onnx/berth/backend/cpu/kern"
	"github.com/berth-onnx/berth/ndarray"
)

// Moving blocks of elements is most of what tensor operators do. A block is an
// n-dimensional box that lies in two arrays at once, each with its own strides:
//
//	Transpose   the source strides are permuted
//	Slice       the source starts inside and strides by the step (may be negative)
//	Expand      source strides are 0 along repeated dimensions
//	Concat      the destination starts inside the result
//
// Offsets and strides count in elements.

// mover is a prepared block move.
type mover struct {
	c      *kern.Copy
	width  int  // bytes of an element: 1, 2, 4 or 8
	d0, s0 int  // first element of the destination and of the source
	dense  bool // one run of memory on both sides
}

// newMover prepares the move of a box of elements of width bytes. Elements of 16
// bytes are two of 8.
func newMover(width int, shape, ds, ss []int, d0, s0 int) (*mover, error) {
	if width > 8 {
		k := width / 8
		twice := func(v []int, last int) []int {
			out := make([]int, len(v), len(v)+1)
			for i, x := range v {
				out[i] = k * x
			}
			return append(out, last)
		}
		shape = append(append([]int(nil), shape...), k)
		width, ds, ss, d0, s0 = 8, twice(ds, 1), twice(ss, 1), k*d0, k*s0
	}
	c, err := kern.NewCopy(shape, ds, ss)
	if err != nil {
		return nil, err
	}
	m := &mover{c: c, width: width, d0: d0, s0: s0, dense: true}
	run := 1
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] != 1 {
			m.dense = m.dense && ds[i] == run && ss[i] == run
			run *= shape[i]
		}
	}
	return m, nil
}

// run moves the box, unless it is in place already: a planned view.
func (m *mover) run(dst, src *ndarray.Array, threads int) error {
	if m.inPlace(dst, src) {
		return nil
	}
	if len(dst.Data) < len(src.Data) && sameStart(dst.Data, src.Data) {
		threads = 1 // front to back: nothing is overwritten before it is read
	}
	switch m.width {
	case 1:
		return kern.RunCopy(m.c, dst.Data, m.d0, src.Data, m.s0, threads)
	case 2:
		return kern.RunCopy(m.c, ndarray.Slice[uint16](dst), m.d0, ndarray.Slice[uint16](src), m.s0, threads)
	case 4:
		return kern.RunCopy(m.c, ndarray.Slice[uint32](dst), m.d0, ndarray.Slice[uint32](src), m.s0, threads)
	}
	return kern.RunCopy(m.c, ndarray.Slice[uint64](dst), m.d0, ndarray.Slice[uint64](src), m.s0, threads)
}

// inPlace reports that both sides are one run of memory at one address.
func (m *mover) inPlace(dst, src *ndarray.Array) bool {
	return m.c.Len() == 0 || m.dense && &dst.Data[m.d0*m.width] == &src.Data[m.s0*m.width]
}

// maxLoops bounds the loops that are left after merging.
const maxLoops = 8

// box is the loop nest over a block, for kernels that do more than move it.
// Dimensions of one are dropped and neighbours that lie one behind the other in
// both arrays are merged; what remains is outer loops around a run:
//
//	dims  [2 3 | 20]     strides of destination and source for each loop
//	       outer  run
type box struct {
	dims   []int
	ds, ss []int // strides, one per loop
	cut          // over the outer loops and the run
}

// newBox merges loops; ok is false if too many are left.
func newBox(shape, ds, ss []int) (b box, ok bool) {
	for i, n := range shape {
		k := len(b.dims) - 1
		switch {
		case n == 1:
		case k >= 0 && b.ds[k] == n*ds[i] && b.ss[k] == n*ss[i]:
			b.dims[k] *= n
			b.ds[k], b.ss[k] = ds[i], ss[i]
		default:
			b.dims = append(b.dims, n)
			b.ds, b.ss = append(b.ds, ds[i]), append(b.ss, ss[i])
		}
	}
	if len(b.dims) == 0 {
		b.dims, b.ds, b.ss = []int{1}, []int{1}, []int{1}
	}
	last := len(b.dims) - 1
	b.cut = newCut(sizeOf(b.dims[:last]), b.dims[last], tileElems)
	return b, len(b.dims) <= maxLoops
}

// place says where the run a walk stands at begins in both arrays.
type place struct {
	idx  [maxLoops]int
	d, s int
}

// seek goes to outer run r.
func (b *box) seek(p *place, r int) {
	p.d, p.s = 0, 0
	for k := len(b.dims) - 2; k >= 0; k-- {
		i := r % b.dims[k]
		r /= b.dims[k]
		p.idx[k] = i
		p.d += i * b.ds[k]
		p.s += i * b.ss[k]
	}
}

// next goes to the following run.
func (b *box) next(p *place) {
	for k := len(b.dims) - 2; k >= 0; k-- {
		p.idx[k]++
		p.d += b.ds[k]
		p.s += b.ss[k]
		if p.idx[k] < b.dims[k] {
			return
		}
		p.d -= b.ds[k] * b.dims[k]
		p.s -= b.ss[k] * b.dims[k]
		p.idx[k] = 0
	}
}

// fill writes v everywhere.
func fill[T any](dst []T, v T) {
	for i := range dst {
		dst[i] = v
	}
}

// fillBytes repeats an element over dst.
func fillBytes(dst, elem []byte) {
	if len(dst) == 0 {
		return
	}
	for n := copy(dst, elem); n < len(dst); {
		n += copy(dst[n:], dst[:n])
	}
}
