package ops

import "github.com/berth-onnx/berth/ndarray"

// Moving blocks of elements is most of what tensor operators do. A block is an
// n-dimensional box walked in two arrays at once, each with its own strides:
//
//	Transpose   the source strides are permuted
//	Slice       the source starts inside and strides by the step (may be negative)
//	Expand      source strides are 0 along repeated dimensions
//	Concat      the destination starts inside the result
//
// Dimensions of length 1 are dropped and neighbours that are contiguous in both
// arrays are merged, so a plain copy becomes one run.

// block describes a box of elements in a destination and a source.
type block struct {
	shape      []int
	dst, src   int   // first element
	dstr, sstr []int // element strides, one per dimension
}

// moveBlock copies a box between arrays of one element type.
func moveBlock(dst, src *ndarray.Array, b block) {
	b = b.merged()
	for _, n := range b.shape {
		if n == 0 {
			return
		}
	}
	if dst.DType == ndarray.String {
		moveElems(dst.Str, src.Str, b)
		return
	}
	switch dst.DType.Size() {
	case 1:
		moveElems(dst.Data, src.Data, b)
	case 2:
		moveElems(ndarray.Slice[uint16](dst), ndarray.Slice[uint16](src), b)
	case 4:
		moveElems(ndarray.Slice[uint32](dst), ndarray.Slice[uint32](src), b)
	case 8:
		moveElems(ndarray.Slice[uint64](dst), ndarray.Slice[uint64](src), b)
	case 16:
		moveElems(ndarray.Slice[complex128](dst), ndarray.Slice[complex128](src), b)
	}
}

// merged returns the block with the fewest dimensions that walks the same elements.
func (b block) merged() block {
	m := block{dst: b.dst, src: b.src}
	for i, n := range b.shape {
		k := len(m.shape) - 1
		switch {
		case n == 1:
		case k >= 0 && m.dstr[k] == n*b.dstr[i] && m.sstr[k] == n*b.sstr[i]:
			m.shape[k] *= n
			m.dstr[k], m.sstr[k] = b.dstr[i], b.sstr[i]
		default:
			m.shape = append(m.shape, n)
			m.dstr = append(m.dstr, b.dstr[i])
			m.sstr = append(m.sstr, b.sstr[i])
		}
	}
	if len(m.shape) == 0 {
		m.shape, m.dstr, m.sstr = []int{1}, []int{1}, []int{1}
	}
	return m
}

// moveElems walks a merged block without empty dimensions.
func moveElems[T any](dst, src []T, b block) {
	last := len(b.shape) - 1
	n, ds, ss := b.shape[last], b.dstr[last], b.sstr[last]
	idx := make([]int, last)
	d, s := b.dst, b.src
	for {
		if ds == 1 && ss == 1 {
			copy(dst[d:d+n], src[s:s+n])
		} else {
			for i, x, y := 0, d, s; i < n; i, x, y = i+1, x+ds, y+ss {
				dst[x] = src[y]
			}
		}
		k := last - 1
		for ; k >= 0; k-- {
			idx[k]++
			d += b.dstr[k]
			s += b.sstr[k]
			if idx[k] < b.shape[k] {
				break
			}
			d -= b.dstr[k] * b.shape[k]
			s -= b.sstr[k] * b.shape[k]
			idx[k] = 0
		}
		if k < 0 {
			return
		}
	}
}

// copyWhole copies all elements of src, which has as many as dst.
func copyWhole(dst, src *ndarray.Array) {
	copy(dst.Data, src.Data)
	copy(dst.Str, src.Str)
}

// fillWhole writes the single element of v everywhere.
func fillWhole(dst, v *ndarray.Array) {
	if n := dst.Len(); n > 0 {
		moveBlock(dst, v, block{shape: []int{n}, dstr: []int{1}, sstr: []int{0}})
	}
}

// splitDims returns the product of the dimensions before axis, the dimension at
// axis, and the product of those after it.
func splitDims(shape []int, axis int) (outer, dim, inner int) {
	outer, inner = 1, 1
	for i, n := range shape {
		switch {
		case i < axis:
			outer *= n
		case i > axis:
			inner *= n
		}
	}
	return outer, shape[axis], inner
}

// moveMapped sets dst[i0, i1, …] = src[maps[0][i0], maps[1][i1], …].
func moveMapped(dst, src *ndarray.Array, maps [][]int) {
	if dst.Len() == 0 {
		return
	}
	if dst.DType == ndarray.String {
		mapElems(dst.Str, src.Str, dst.Shape, src.Shape, maps)
		return
	}
	switch dst.DType.Size() {
	case 1:
		mapElems(dst.Data, src.Data, dst.Shape, src.Shape, maps)
	case 2:
		mapElems(ndarray.Slice[uint16](dst), ndarray.Slice[uint16](src), dst.Shape, src.Shape, maps)
	case 4:
		mapElems(ndarray.Slice[uint32](dst), ndarray.Slice[uint32](src), dst.Shape, src.Shape, maps)
	case 8:
		mapElems(ndarray.Slice[uint64](dst), ndarray.Slice[uint64](src), dst.Shape, src.Shape, maps)
	case 16:
		mapElems(ndarray.Slice[complex128](dst), ndarray.Slice[complex128](src), dst.Shape, src.Shape, maps)
	}
}

func mapElems[T any](dst, src []T, dshape, sshape []int, maps [][]int) {
	if len(dshape) == 0 {
		dst[0] = src[0]
		return
	}
	last := len(dshape) - 1
	strides := Strides(sshape)
	row := 0
	EachIndex(dshape[:last], func(idx []int) {
		base := 0
		for k, i := range idx {
			base += maps[k][i] * strides[k]
		}
		for i, at := range maps[last] {
			dst[row+i] = src[base+at]
		}
		row += dshape[last]
	})
}

// eachOffset calls f for every position of a box: i counts them in row-major
// order, at is the sum of the indices times the strides.
func eachOffset(shape, strides []int, f func(i, at int)) {
	total := 1
	for _, n := range shape {
		total *= n
	}
	idx := make([]int, len(shape))
	at := 0
	for i := range total {
		f(i, at)
		for k := len(shape) - 1; k >= 0; k-- {
			idx[k]++
			at += strides[k]
			if idx[k] < shape[k] {
				break
			}
			at -= strides[k] * shape[k]
			idx[k] = 0
		}
	}
}
