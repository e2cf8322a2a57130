package cpu

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Reading at computed positions. Indices are int32 or int64 and count from the back
// when negative. One pass checks all of them before anything is written, so that tiles
// can run unchecked and in parallel.

var gatherOps = []entry{
	{op: "Gather", prepare: byIndex(1, prepareGather[int32], prepareGather[int64])},
	{op: "GatherElements", prepare: byIndex(1, prepareGatherElements[int32], prepareGatherElements[int64])},
	{op: "GatherND", prepare: byIndex(1, prepareGatherND[int32], prepareGatherND[int64])},
}

// index is the element type of an index operand.
type index interface{ int32 | int64 }

// byIndex chooses a prepare function by the type of index operand i.
func byIndex(i int, narrow, wide func(*prep) (ops.Kernel, error)) func(*prep) (ops.Kernel, error) {
	return func(p *prep) (ops.Kernel, error) {
		switch p.in[i].dt {
		case ndarray.Int32:
			return narrow(p)
		case ndarray.Int64:
			return wide(p)
		}
		return nil, nil
	}
}

// checkIndices reports the first index outside of [-dim, dim). Those that it leaves out when the call is to end
// are not to be used.
func checkIndices[I index](c *ops.Call, idx []I, dim int) error {
	for lo := 0; lo < len(idx); lo += lookStep {
		if lo > 0 && c.Ended() {
			return c.Ctx.Err()
		}
		for _, v := range idx[lo:min(lo+lookStep, len(idx))] {
			if int64(v) < -int64(dim) || int64(v) >= int64(dim) {
				return outOfRange(int64(v), dim)
			}
		}
	}
	return nil
}

func outOfRange(v int64, dim int) error {
	return fmt.Errorf("index %d is out of range for a dimension of %d", v, dim)
}

// wrapped counts a negative index from the back.
func wrapped[I index](v I, dim int) int {
	if v < 0 {
		return int(v) + dim
	}
	return int(v)
}

// gather copies slices of an axis:
//
//	data [outer, dim, inner], indices [picks]  ->  result [outer, picks, inner]
type gather[I index] struct {
	dim, picks   int
	width, inner int // bytes of an element; bytes of a slice
	cut              // over outer·picks slices
}

func prepareGather[I index](p *prep) (ops.Kernel, error) {
	x, idx := p.in[0], p.in[1]
	axis, _ := p.axis(len(x.shape)) // checked by inference
	outer, dim, inner := around(x.shape, axis)
	k := &gather[I]{dim: dim, picks: idx.n, width: x.dt.Size(), inner: inner * x.dt.Size()}
	k.cut = newCut(outer*idx.n, 1, max(1, TileBytes/k.inner))
	return k, nil
}

// Run checks the indices and copies the slices.
func (k *gather[I]) Run(c *ops.Call) error {
	return checkedTiles(c, checkIndices(c, elems[I](c.In[1]), k.dim), k.tiles, k)
}

// checkedTiles runs tiles if there is no error in the operands.
func checkedTiles(c *ops.Call, err error, tiles int, k tiler) error {
	if err == nil {
		runTiles(c, tiles, k)
	}
	return err
}

// Choice says how it is computed.
func (k *gather[I]) Choice() backend.Choice {
	return backend.Choice{Algorithm: "copies of slices", Reason: "slices of " + strconv.Itoa(k.inner) + " bytes"}
}

func (k *gather[I]) tile(c *ops.Call, i, _ int) {
	r0, r1, _, _ := k.cut.tile(i)
	dst, src, idx := arrayOf(c.Out[0]).Data, arrayOf(c.In[0]).Data, elems[I](c.In[1])
	switch {
	case k.inner == k.width && k.width == 4:
		gatherOnes(k, elems[uint32](c.Out[0]), elems[uint32](c.In[0]), idx, r0, r1)
		return
	case k.inner == k.width && k.width == 8:
		gatherOnes(k, elems[uint64](c.Out[0]), elems[uint64](c.In[0]), idx, r0, r1)
		return
	}
	jumps := sysmem.NewJumps(src)
	o, j := r0/k.picks, r0%k.picks
	for r := r0; r < r1; r++ {
		s := (o*k.dim + wrapped(idx[j], k.dim)) * k.inner
		d := dst[r*k.inner : (r+1)*k.inner]
		if from := src[s : s+k.inner]; !sameStart(d, from) {
			copy(d, from)
			jumps.Look(s)
		}
		if j++; j == k.picks {
			o, j = o+1, 0
		}
	}
}

// gatherOnes is a gather of single elements.
func gatherOnes[I index, T any](k *gather[I], dst, src []T, idx []I, r0, r1 int) {
	o, j := r0/k.picks, r0%k.picks
	for r := r0; r < r1; r++ {
		dst[r] = src[o*k.dim+wrapped(idx[j], k.dim)]
		if j++; j == k.picks {
			o, j = o+1, 0
		}
	}
}

// gatherElements picks one element for every index, along an axis:
// result[i…, k, j…] = data[i…, indices[i…, k, j…], j…]. The walk goes over the
// indices, with the data's strides and 0 along the axis.
type gatherElements[I index] struct {
	n      *nest
	width  int
	dim    int
	stride int // of the data's axis
}

func prepareGatherElements[I index](p *prep) (ops.Kernel, error) {
	x, idx := p.in[0], p.in[1]
	axis, ok := p.axis(len(x.shape))
	if !ok || !fitsExcept(idx.shape, x.shape, axis) {
		return nil, nil
	}
	k := newGatherElements[I](x, idx, axis)
	if k == nil {
		return nil, nil
	}
	return k, nil
}

// fitsExcept reports that a box of indices exceeds a shape in no dimension but axis.
func fitsExcept(box, shape []int, axis int) bool {
	if len(box) != len(shape) {
		return false
	}
	for i, d := range box {
		if i != axis && d > shape[i] {
			return false
		}
	}
	return true
}

// newGatherElements prepares the walk over indices that address single elements of x
// along an axis; nil if there are too many loops.
func newGatherElements[I index](x, idx operand, axis int) *gatherElements[I] {
	strides := ops.Strides(x.shape)
	k := &gatherElements[I]{width: x.dt.Size(), dim: x.shape[axis], stride: strides[axis]}
	strides[axis] = 0
	var ok bool
	if k.n, ok = stridedNest(idx.shape, strides); !ok {
		return nil
	}
	return k
}

// Run checks the indices and picks the elements.
func (k *gatherElements[I]) Run(c *ops.Call) error {
	if err := checkIndices(c, elems[I](c.In[1]), k.dim); err != nil {
		return err
	}
	runTiles(c, k.n.tiles, k)
	return nil
}

// Choice says how it is computed.
func (k *gatherElements[I]) Choice() backend.Choice {
	return backend.Choice{Algorithm: "element by element"}
}

func (k *gatherElements[I]) tile(c *ops.Call, i, _ int) {
	idx := elems[I](c.In[1])
	switch k.width {
	case 1:
		pickElements(k, elems[uint8](c.Out[0]), elems[uint8](c.In[0]), idx, i)
	case 2:
		pickElements(k, elems[uint16](c.Out[0]), elems[uint16](c.In[0]), idx, i)
	case 4:
		pickElements(k, elems[uint32](c.Out[0]), elems[uint32](c.In[0]), idx, i)
	case 8:
		pickElements(k, elems[uint64](c.Out[0]), elems[uint64](c.In[0]), idx, i)
	default:
		pickElements(k, elems[complex128](c.Out[0]), elems[complex128](c.In[0]), idx, i)
	}
}

func pickElements[I index, T any](k *gatherElements[I], dst, src []T, idx []I, i int) {
	n := k.n
	for w := n.walk(i); w.next(); {
		for r := range w.rows {
			o, s := w.out+r*w.cols, w.at[0]+r*n.row[0]
			d := dst[o : o+w.cols]
			for j, v := range idx[o : o+w.cols] {
				d[j] = src[s+wrapped(v, k.dim)*k.stride]
				s += n.step[0]
			}
		}
	}
}

// gatherND copies slices addressed by index tuples:
//
//	data [batch, d0 … dk, inner], indices [batch, picks, k+1]  ->  [batch, picks, inner]
type gatherND[I index] struct {
	tuple
	batch, picks, inner int // inner in bytes
	cut                     // over batch·picks slices
}

// tuple computes positions from index tuples.
type tuple struct {
	dims, strides []int // dimensions addressed; strides in slices
	size          int   // slices of one batch
}

func newTuple(dims []int) tuple { return tuple{dims, ops.Strides(dims), sizeOf(dims)} }

// checkTuples checks every element of idx against its dimension.
func checkTuples[I index](c *ops.Call, t *tuple, idx []I) error {
	n := len(t.dims)
	for i, v := range idx {
		if i%lookStep == lookStep-1 && c.Ended() {
			return c.Ctx.Err()
		}
		if d := t.dims[i%n]; int64(v) < -int64(d) || int64(v) >= int64(d) {
			return outOfRange(int64(v), d)
		}
	}
	return nil
}

// at is the slice that tuple r of idx addresses.
func tupleAt[I index](t *tuple, idx []I, r int) int {
	s := 0
	for k, v := range idx[r*len(t.dims) : (r+1)*len(t.dims)] {
		s += wrapped(v, t.dims[k]) * t.strides[k]
	}
	return s
}

func prepareGatherND[I index](p *prep) (ops.Kernel, error) {
	x, idx := p.in[0], p.in[1]
	b := int(ops.Int(p.node, "batch_dims"))
	if b < 0 || len(idx.shape) <= b {
		return nil, nil
	}
	n := idx.shape[len(idx.shape)-1]
	if n < 1 || b+n > len(x.shape) || !slices.Equal(idx.shape[:b], x.shape[:b]) {
		return nil, nil
	}
	k := &gatherND[I]{tuple: newTuple(x.shape[b : b+n]), batch: sizeOf(x.shape[:b])}
	k.picks = idx.n / n / k.batch
	k.inner = sizeOf(x.shape[b+n:]) * x.dt.Size()
	k.cut = newCut(k.batch*k.picks, 1, max(1, TileBytes/k.inner))
	return k, nil
}

// Run checks the indices and copies the slices.
func (k *gatherND[I]) Run(c *ops.Call) error {
	return checkedTiles(c, checkTuples(c, &k.tuple, elems[I](c.In[1])), k.tiles, k)
}

// Choice says how it is computed.
func (k *gatherND[I]) Choice() backend.Choice {
	return backend.Choice{Algorithm: "copies of slices"}
}

func (k *gatherND[I]) tile(c *ops.Call, i, _ int) {
	r0, r1, _, _ := k.cut.tile(i)
	dst, src, idx := arrayOf(c.Out[0]).Data, arrayOf(c.In[0]).Data, elems[I](c.In[1])
	jumps := sysmem.NewJumps(src)
	for r := r0; r < r1; r++ {
		s := (r/k.picks*k.size + tupleAt(&k.tuple, idx, r)) * k.inner
		copy(dst[r*k.inner:(r+1)*k.inner], src[s:s+k.inner])
		jumps.Look(s)
	}
}
