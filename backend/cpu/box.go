package cpu

import (
	"github.com/berth-onnx/berth/ndarray"
)

// Moving blocks of elements is most of what tensor operators do. A box is an
// n-dimensional block walked in two arrays at once, each with its own strides:
//
//	Transpose   the source strides are permuted
//	Slice       the source starts inside and strides by the step (may be negative)
//	Expand      source strides are 0 along repeated dimensions
//	Concat      the destination starts inside the result
//
// Dimensions of one are dropped and neighbours that lie one behind the other in
// both arrays are merged. What remains is outer loops around a run:
//
//	dims  [2 3 | 20]     strides of destination and source for each loop
//	       outer  run
//
// Offsets and strides count in elements of width bytes. Where the run is dense in
// both arrays it is one copy; elements of odd sizes never are.

// maxLoops bounds the loops that are left after merging.
const maxLoops = 8

// box is a prepared block move.
type box struct {
	width  int // bytes of an element: 1, 2, 4, 8 or 16
	dims   []int
	ds, ss []int // strides, one per loop
	d0, s0 int   // first element
	dense  bool  // the run is contiguous in both
	cut          // over the outer loops and the run
}

// newBox merges loops; ok is false if too many are left.
func newBox(width int, shape, ds, ss []int, d0, s0 int) (b box, ok bool) {
	b = box{width: width, d0: d0, s0: s0}
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
	b.dense = b.ds[last] == 1 && b.ss[last] == 1
	b.cut = newCut(sizeOf(b.dims[:last]), b.dims[last], max(1, tileBytes/width))
	return b, len(b.dims) <= maxLoops
}

// place says where the run a walk stands at begins in both arrays.
type place struct {
	idx  [maxLoops]int
	d, s int
}

// seek goes to outer run r.
func (b *box) seek(p *place, r int) {
	p.d, p.s = b.d0, b.s0
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

// move copies tile i. Where both arrays begin the box at one address there is
// nothing to do; see [box.inPlace].
func (b *box) move(dst, src *ndarray.Array, i int) {
	if b.dense {
		b.moveDense(dst.Data, src.Data, i)
		return
	}
	switch b.width {
	case 1:
		moveStrided(b, dst.Data, src.Data, i)
	case 2:
		moveStrided(b, ndarray.Slice[uint16](dst), ndarray.Slice[uint16](src), i)
	case 4:
		moveStrided(b, ndarray.Slice[uint32](dst), ndarray.Slice[uint32](src), i)
	case 8:
		moveStrided(b, ndarray.Slice[uint64](dst), ndarray.Slice[uint64](src), i)
	default:
		moveStrided(b, ndarray.Slice[complex128](dst), ndarray.Slice[complex128](src), i)
	}
}

// inPlace reports that the box is one dense run whose ends are at one address: a
// planned view.
func (b *box) inPlace(dst, src *ndarray.Array) bool {
	return b.dense && len(b.dims) == 1 && sameStart(dst.Data[b.d0*b.width:], src.Data[b.s0*b.width:])
}

func (b *box) moveDense(dst, src []byte, i int) {
	r0, r1, lo, hi := b.tile(i)
	n := (hi - lo) * b.width
	var p place
	b.seek(&p, r0)
	for r := r0; r < r1; r++ {
		d, s := (p.d+lo)*b.width, (p.s+lo)*b.width
		copy(dst[d:d+n], src[s:s+n])
		b.next(&p)
	}
}

func moveStrided[T any](b *box, dst, src []T, i int) {
	r0, r1, lo, hi := b.tile(i)
	last := len(b.dims) - 1
	ds, ss := b.ds[last], b.ss[last]
	var p place
	b.seek(&p, r0)
	for r := r0; r < r1; r++ {
		d, s := p.d+lo*ds, p.s+lo*ss
		switch {
		case ds == 1 && ss == 0:
			fill(dst[d:d+hi-lo], src[s])
		case ds == 1:
			for k := range dst[d : d+hi-lo] {
				dst[d+k] = src[s]
				s += ss
			}
		default:
			for range hi - lo {
				dst[d] = src[s]
				d += ds
				s += ss
			}
		}
		b.next(&p)
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
