package cpu

import (
	"slices"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Writing at computed positions: the result starts as a copy of the data, unless it is
// in place, then the updates are applied one after the other, so that repeated indices
// give the same result on any number of threads.

var scatterOps = []entry{
	{op: "ScatterElements", prepare: byIndex(1, prepareScatterElements[int32], prepareScatterElements[int64])},
	{op: "ScatterND", prepare: byIndex(1, prepareScatterND[int32], prepareScatterND[int64])},
}

// combine says how an update is combined with the element that it addresses.
type combine uint8

const (
	replace combine = iota
	addTo
	mulBy
	maxOf
	minOf
)

var combines = map[string]combine{"none": replace, "add": addTo, "mul": mulBy, "max": maxOf, "min": minOf}

// scatterWith is the reduction of a scatter; ok is false if there is no code for it over
// the element type: any type for replacing, four for the others.
func scatterWith(p *prep) (how combine, ok bool) {
	how, ok = combines[ops.Str(p.node, "reduction")]
	if !ok || p.in[2].dt != p.in[0].dt || p.out[0].dt != p.in[0].dt {
		return 0, false
	}
	switch p.in[0].dt {
	case ndarray.Float32, ndarray.Float64, ndarray.Int32, ndarray.Int64:
		return how, true
	}
	return how, how == replace
}

// number is what arithmetic is defined on.
type number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// combineInto applies updates to a slice of the result.
func combineInto[T number](how combine, dst, src []T) {
	dst = dst[:len(src)]
	switch how {
	case replace:
		copy(dst, src)
	case addTo:
		for i, v := range src {
			dst[i] += v
		}
	case mulBy:
		for i, v := range src {
			dst[i] *= v
		}
	case maxOf:
		for i, v := range src {
			dst[i] = max(dst[i], v)
		}
	case minOf:
		for i, v := range src {
			dst[i] = min(dst[i], v)
		}
	}
}

// scatterElements writes one element for every index, along an axis.
type scatterElements[I index] struct {
	*gatherElements[I]
	copy *copyTo
	dt   ndarray.DType
	how  combine
}

func prepareScatterElements[I index](p *prep) (ops.Kernel, error) {
	x, idx := p.in[0], p.in[1]
	axis, ok := p.axis(len(x.shape))
	how, known := scatterWith(p)
	if !ok || !known || !fitsExcept(idx.shape, x.shape, axis) || !slices.Equal(p.in[2].shape, idx.shape) {
		return nil, nil
	}
	walk := newGatherElements[I](x, idx, axis)
	if walk == nil {
		return nil, nil
	}
	k := &scatterElements[I]{gatherElements: walk, dt: x.dt, how: how}
	var err error
	k.copy, err = newCopy(x)
	return k, err
}

// Run copies the data and writes the updates in order.
func (k *scatterElements[I]) Run(c *ops.Call) error {
	idx := elems[I](c.In[1])
	if err := checkIndices(c, idx, k.dim); err != nil {
		return err
	}
	if err := k.copy.Run(c); err != nil {
		return err
	}
	switch k.dt {
	case ndarray.Float32:
		putElements(c, k, elems[float32](c.Out[0]), elems[float32](c.In[2]), idx)
	case ndarray.Float64:
		putElements(c, k, elems[float64](c.Out[0]), elems[float64](c.In[2]), idx)
	case ndarray.Int32:
		putElements(c, k, elems[int32](c.Out[0]), elems[int32](c.In[2]), idx)
	case ndarray.Int64:
		putElements(c, k, elems[int64](c.Out[0]), elems[int64](c.In[2]), idx)
	default:
		k.replaceAny(c, idx)
	}
	return nil
}

// Choice says how it is computed.
func (k *scatterElements[I]) Choice() backend.Choice {
	return backend.Choice{Algorithm: "element by element"}
}

func putElements[I index, T number](c *ops.Call, k *scatterElements[I], dst, src []T, idx []I) {
	k.eachRow(c, func(o, n, s int) { putRow(k, dst, src[o:o+n], idx[o:o+n], s, k.n.step[0]) })
}

// eachRow calls f for rows of updates: where the row starts, how many there are, and the element that index 0 of the first one
// addresses.
func (k *scatterElements[I]) eachRow(c *ops.Call, f func(o, n, s int)) {
	for t := range k.n.tiles {
		if c.Ended() {
			return
		}
		for w := k.n.walk(t); w.next(); {
			for r := range w.rows {
				f(w.out+r*w.cols, w.cols, w.at[0]+r*k.n.row[0])
			}
		}
	}
}

// putRow applies a row of updates; s is the element that index 0 of the first one
// addresses, step its distance to that of the next.
func putRow[I index, T number](k *scatterElements[I], dst, src []T, idx []I, s, step int) {
	for i, v := range idx {
		switch at := s + wrapped(v, k.dim)*k.stride; k.how {
		case replace:
			dst[at] = src[i]
		case addTo:
			dst[at] += src[i]
		default:
			combineInto(k.how, dst[at:at+1], src[i:i+1])
		}
		s += step
	}
}

// replaceAny writes elements of any width.
func (k *scatterElements[I]) replaceAny(c *ops.Call, idx []I) {
	size, dst, src := k.width, arrayOf(c.Out[0]).Data, arrayOf(c.In[2]).Data
	k.eachRow(c, func(o, n, s int) {
		for i, v := range idx[o : o+n] {
			at := s + wrapped(v, k.dim)*k.stride + i*k.n.step[0]
			copy(dst[at*size:(at+1)*size], src[(o+i)*size:])
		}
	})
}

// scatterND writes slices addressed by index tuples.
type scatterND[I index] struct {
	tuple
	copy  *copyTo
	inner int // elements of a slice
	picks int
	width int
	dt    ndarray.DType
	how   combine
}

func prepareScatterND[I index](p *prep) (ops.Kernel, error) {
	x, idx, up := p.in[0], p.in[1], p.in[2]
	how, ok := scatterWith(p)
	if !ok || len(idx.shape) == 0 {
		return nil, nil
	}
	last := len(idx.shape) - 1
	n := idx.shape[last]
	if n < 1 || n > len(x.shape) || !slices.Equal(up.shape, slices.Concat(idx.shape[:last], x.shape[n:])) {
		return nil, nil
	}
	whole, err := newCopy(x)
	return &scatterND[I]{
		tuple: newTuple(x.shape[:n]), copy: whole, inner: sizeOf(x.shape[n:]),
		picks: idx.n / n, width: x.dt.Size(), dt: x.dt, how: how,
	}, err
}

// Run copies the data and writes the updates in order.
func (k *scatterND[I]) Run(c *ops.Call) error {
	idx := elems[I](c.In[1])
	if err := checkTuples(c, &k.tuple, idx); err != nil {
		return err
	}
	if err := k.copy.Run(c); err != nil {
		return err
	}
	if k.how == replace {
		n := k.inner * k.width
		putSlices(c, k, arrayOf(c.Out[0]).Data, arrayOf(c.In[2]).Data, idx, n)
		return nil
	}
	switch k.dt {
	case ndarray.Float32:
		putSlices(c, k, elems[float32](c.Out[0]), elems[float32](c.In[2]), idx, k.inner)
	case ndarray.Float64:
		putSlices(c, k, elems[float64](c.Out[0]), elems[float64](c.In[2]), idx, k.inner)
	case ndarray.Int32:
		putSlices(c, k, elems[int32](c.Out[0]), elems[int32](c.In[2]), idx, k.inner)
	default:
		putSlices(c, k, elems[int64](c.Out[0]), elems[int64](c.In[2]), idx, k.inner)
	}
	return nil
}

// Choice says how it is computed.
func (k *scatterND[I]) Choice() backend.Choice {
	return backend.Choice{Algorithm: "copies of slices"}
}

// putSlices combines slices of n numbers; bytes where they only replace.
func putSlices[I index, T number](c *ops.Call, k *scatterND[I], dst, src []T, idx []I, n int) {
	per := max(1, lookStep/max(n, 8))
	for r := range k.picks {
		if r%per == 0 && c.Ended() {
			return
		}
		to, from := dst[tupleAt(&k.tuple, idx, r)*n:][:n], src[r*n:(r+1)*n]
		if n <= lookStep {
			combineInto(k.how, to, from)
			continue
		}
		pieces(c, n, func(lo, hi int) { combineInto(k.how, to[lo:hi], from[lo:hi]) })
	}
}
