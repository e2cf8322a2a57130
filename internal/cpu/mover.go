package cpu

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
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
	c      *vec.Copy
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
	c, err := vec.NewCopy(shape, ds, ss)
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

// run moves the box, unless source and destination are the same memory: a planned view.
func (m *mover) run(dst, src *ndarray.Array, threads int) error {
	if m.inPlace(dst, src) {
		return nil
	}
	if len(dst.Data) < len(src.Data) && sameStart(dst.Data, src.Data) {
		threads = 1 // front to back: nothing is overwritten before it is read
	}
	switch m.width {
	case 1:
		return vec.RunCopy(m.c, dst.Data, m.d0, src.Data, m.s0, threads)
	case 2:
		return vec.RunCopy(m.c, ndarray.Slice[uint16](dst), m.d0, ndarray.Slice[uint16](src), m.s0, threads)
	case 4:
		return vec.RunCopy(m.c, ndarray.Slice[uint32](dst), m.d0, ndarray.Slice[uint32](src), m.s0, threads)
	}
	return vec.RunCopy(m.c, ndarray.Slice[uint64](dst), m.d0, ndarray.Slice[uint64](src), m.s0, threads)
}

// inPlace reports that both sides are one run of memory at one address.
func (m *mover) inPlace(dst, src *ndarray.Array) bool {
	return m.c.Len() == 0 || m.dense && &dst.Data[m.d0*m.width] == &src.Data[m.s0*m.width]
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
