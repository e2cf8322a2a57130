package cpu

import (
	"strconv"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Operators that move blocks of elements: each is one box, or one per part.

var moveOps = []entry{
	{op: "Concat", prepare: prepareConcat, empties: true},
	{op: "Split", prepare: prepareSplit},
	{op: "Slice", prepare: prepareSlice},
	{op: "Expand", prepare: prepareExpand},
	{op: "Tile", prepare: prepareTile},
}

// parts moves boxes between operands and results, each its own pair.
type parts []part

type part struct {
	m       *mover
	in, out int
}

// add prepares one more move.
func (k *parts) add(in, out, width int, shape, ds, ss []int, d0, s0 int) error {
	m, err := newMover(width, shape, ds, ss, d0, s0)
	if err == nil && m.c.Len() > 0 {
		*k = append(*k, part{m, in, out})
	}
	return err
}

// Run moves every part.
func (k *parts) Run(c *ops.Call) error {
	for i := range *k {
		e := &(*k)[i]
		if err := e.m.run(c, arrayOf(c.Out[e.out]), arrayOf(c.In[e.in])); err != nil {
			return err
		}
	}
	return nil
}

// Choice says how it is computed.
func (k *parts) Choice() backend.Choice {
	return backend.Choice{Algorithm: "copies of boxes", Reason: strconv.Itoa(len(*k)) + " of them"}
}

// prepareConcat copies every operand into the result behind the one before.
func prepareConcat(p *prep) (ops.Kernel, error) {
	out := p.out[0]
	axis, _ := p.axis(len(out.shape)) // checked by inference, as ranks and types are
	outer, dim, inner := around(out.shape, axis)
	k, at := &parts{}, 0
	for i, x := range p.in {
		run := x.shape[axis] * inner
		if err := k.add(i, 0, out.dt.Size(), []int{outer, run}, []int{dim * inner, 1}, []int{run, 1}, at, 0); err != nil {
			return nil, err
		}
		at += run
	}
	return k, nil
}

// prepareSplit is the reverse of Concat.
func prepareSplit(p *prep) (ops.Kernel, error) {
	x := p.in[0]
	axis, _ := p.axis(len(x.shape)) // checked by inference
	lengths, ok := splitLengths(p, x.shape[axis])
	if !ok {
		return nil, nil
	}
	outer, dim, inner := around(x.shape, axis)
	k, at := &parts{}, 0
	for i, n := range lengths {
		if p.wants(i) {
			run := n * inner
			if err := k.add(0, i, x.dt.Size(), []int{outer, run}, []int{run, 1}, []int{dim * inner, 1}, 0, at); err != nil {
				return nil, err
			}
		}
		at += n * inner
	}
	return k, nil
}

// splitLengths gives the length of every part, unused ones included.
func splitLengths(p *prep, dim int) ([]int, bool) {
	n := len(p.out)
	out := make([]int, n)
	if p.has(1) {
		given, ok := p.ints(1)
		if !ok || len(given) != n {
			return nil, false
		}
		for i, v := range given {
			out[i] = int(v)
		}
	} else {
		// Equal parts; the last one is smaller if n does not divide dim.
		each := ceilDiv(dim, n)
		for i := range out {
			out[i] = min(each, max(dim-i*each, 0))
		}
	}
	return out, true
}

// prepareSlice walks the operand from the first index with the steps' strides.
func prepareSlice(p *prep) (ops.Kernel, error) {
	x, out := p.in[0], p.out[0]
	starts, ok := p.ints(1)
	rank := len(x.shape)
	axes, steps := make([]int64, len(starts)), make([]int64, len(starts))
	for i := range axes {
		axes[i], steps[i] = int64(i), 1
	}
	if p.has(3) && ok {
		axes, ok = p.ints(3)
	}
	if p.has(4) && ok {
		steps, ok = p.ints(4)
	}
	if !ok || len(axes) != len(starts) || len(steps) != len(starts) || len(out.shape) != rank {
		return nil, nil
	}
	ds, ss, s0 := ops.Strides(out.shape), ops.Strides(x.shape), 0
	for i, a := range axes {
		axis, err := ops.NormAxis(a, rank)
		if err != nil || steps[i] == 0 {
			return nil, nil
		}
		s0 += sliceStart(starts[i], steps[i], x.shape[axis]) * ss[axis]
		if out.shape[axis] > 1 { // else any step is legal, and may overflow the stride
			ss[axis] *= int(steps[i])
		}
	}
	k := &parts{}
	return k, k.add(0, 0, x.dt.Size(), out.shape, ds, ss, 0, s0)
}

// sliceStart is the first index a range selects; negative starts count from the
// back, and all are clamped to the axis.
func sliceStart(start, step int64, dim int) int {
	d := int64(dim)
	if start < 0 {
		start += d
	}
	if step > 0 {
		return int(min(max(start, 0), d))
	}
	return int(min(max(start, 0), d-1))
}

// prepareExpand repeats the operand along broadcast dimensions.
func prepareExpand(p *prep) (ops.Kernel, error) {
	x, out := p.in[0], p.out[0]
	if !ops.TargetKnown(p.node) {
		return nil, nil
	}
	return oneBox(x.dt.Size(), out.shape, ops.Strides(out.shape), ops.BroadcastStrides(x.shape, out.shape))
}

// prepareTile walks two dimensions per axis: the repeat, along which the source
// does not move, and the index.
func prepareTile(p *prep) (ops.Kernel, error) {
	x, out := p.in[0], p.out[0]
	if len(x.shape) != len(out.shape) {
		return nil, nil
	}
	os, xs := ops.Strides(out.shape), ops.Strides(x.shape)
	var dims, ds, ss []int
	for i, d := range x.shape {
		if d == 0 || out.shape[i]%d != 0 {
			return nil, nil
		}
		dims = append(dims, out.shape[i]/d, d)
		ds = append(ds, os[i]*d, os[i])
		ss = append(ss, 0, xs[i])
	}
	return oneBox(x.dt.Size(), dims, ds, ss)
}

// oneBox is the kernel that moves one box from operand 0 to result 0.
func oneBox(width int, dims, ds, ss []int) (ops.Kernel, error) {
	k := &parts{}
	return k, k.add(0, 0, width, dims, ds, ss, 0, 0)
}

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
func (m *mover) run(c *ops.Call, dst, src *ndarray.Array) error {
	if m.inPlace(dst, src) {
		return nil
	}
	done, threads := c.Done(), c.Threads
	if len(dst.Data) < len(src.Data) && sameStart(dst.Data, src.Data) {
		threads = 1 // front to back: nothing is overwritten before it is read
	}
	return m.box(done, dst, m.d0, src, m.s0, threads)
}

// box moves the box that begins at some elements.
func (m *mover) box(done <-chan struct{}, dst *ndarray.Array, d0 int, src *ndarray.Array, s0, threads int) error {
	switch m.width {
	case 1:
		return vec.RunCopy(done, m.c, dst.Data, d0, src.Data, s0, threads)
	case 2:
		return vec.RunCopy(done, m.c, ndarray.Slice[uint16](dst), d0, ndarray.Slice[uint16](src), s0, threads)
	case 4:
		return vec.RunCopy(done, m.c, ndarray.Slice[uint32](dst), d0, ndarray.Slice[uint32](src), s0, threads)
	}
	return vec.RunCopy(done, m.c, ndarray.Slice[uint64](dst), d0, ndarray.Slice[uint64](src), s0, threads)
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
