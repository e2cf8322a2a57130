package kit

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Walk is the loop nest of a computation over n-dimensional boxes, reduced to as
// few loops as the strides allow. The box is visited in row-major order, in runs
// inside which every operand moves by a fixed step:
//
//	box     [2 3 4 5]   operand 0 [2 3 4 5]   operand 1 [3 1 1]
//	merged  [2 3 20]    strides   [60 20 1]   strides   [0 1 0]
//	        └┬─┘ └─ run of 20 elements, steps 1 and 0
//	         └ outer loops
//
// Equal shapes become one run over everything, a scalar operand one run with
// step 0. Operators differ in the strides only:
//
//	broadcasting  0 along the dimensions an operand lacks
//	Reduce        the box is the operand; 0 along the result's reduced axes
//	Transpose     the source's strides are permuted
//	Slice         the source starts inside and strides by the step (may be negative)
//	Concat        the destination starts inside the result
type Walk struct {
	run  int   // elements of one run
	step []int // of each operand inside a run, in elements

	dims    []int   // outer loops
	strides [][]int // of each operand in the outer loops
	call    *ops.Call
}

// NewWalk plans the walk over a result shape to which the operands broadcast.
func NewWalk(c *ops.Call, result []int, operands ...[]int) Walk {
	strides := make([][]int, len(operands))
	for i, s := range operands {
		strides[i] = ops.BroadcastStrides(s, result)
	}
	return StridedWalk(c, result, strides...)
}

// StridedWalk plans the walk over dims with any strides for the operands.
func StridedWalk(c *ops.Call, dims []int, strides ...[]int) Walk {
	merged := make([]int, 0, len(dims)+1) // innermost first
	ms := make([][]int, len(strides))
	for d := len(dims) - 1; d >= 0; d-- {
		if dims[d] == 1 {
			continue
		}
		last := len(merged) - 1
		fits := last >= 0
		for k := range strides {
			fits = fits && strides[k][d] == ms[k][last]*merged[last]
		}
		if fits {
			merged[last] *= dims[d]
			continue
		}
		merged = append(merged, dims[d])
		for k := range strides {
			ms[k] = append(ms[k], strides[k][d])
		}
	}
	w := Walk{run: 1, step: make([]int, len(strides)), strides: make([][]int, len(strides)), call: c}
	if len(merged) == 0 {
		return w
	}
	w.run = merged[0]
	for d := len(merged) - 1; d > 0; d-- {
		w.dims = append(w.dims, merged[d])
	}
	for k := range strides {
		w.step[k] = ms[k][0]
		for d := len(merged) - 1; d > 0; d-- {
			w.strides[k] = append(w.strides[k], ms[k][d])
		}
	}
	return w
}

// eachRun calls f once per run with the position of its first element in the box
// and in each operand. The slice is reused.
func (w *Walk) eachRun(f func(first int, at []int)) {
	runs := SizeOf(w.dims)
	if w.run == 0 || runs == 0 {
		return
	}
	at := make([]int, len(w.strides))
	idx := make([]int, len(w.dims))
	watch := Watching(w.call)
	for r := range runs {
		watch.Did(1)
		f(r*w.run, at)
		for d := len(w.dims) - 1; d >= 0; d-- {
			idx[d]++
			for k := range at {
				at[k] += w.strides[k][d]
			}
			if idx[d] < w.dims[d] {
				break
			}
			for k := range at {
				at[k] -= w.strides[k][d] * w.dims[d]
			}
			idx[d] = 0
		}
	}
}

// Each calls f for every element of the box with its position in each operand.
// The slice is reused.
func (w *Walk) Each(f func(o int, at []int)) {
	pos := make([]int, len(w.step))
	watch := Watching(w.call)
	w.eachRun(func(first int, at []int) {
		copy(pos, at)
		for o := first; o < first+w.run; o++ {
			watch.Did(1)
			f(o, pos)
			for k, s := range w.step {
				pos[k] += s
			}
		}
	})
}

// EachBroadcast calls f(o, a, b) with the linear positions of every element of
// out and of the two operands that broadcast to it.
func EachBroadcast(c *ops.Call, out, sa, sb []int, f func(o, a, b int)) {
	if slices.Equal(out, sa) && slices.Equal(out, sb) { // one run, without memory for the general loop
		watch := Watching(c)
		for i := range SizeOf(out) {
			watch.Did(1)
			f(i, i, i)
		}
		return
	}
	w := NewWalk(c, out, sa, sb)
	w.Each(func(o int, at []int) { f(o, at[0], at[1]) })
}

// EachIndex calls f with every multi-index of shape in row-major order. The
// slice is reused.
func EachIndex(c *ops.Call, shape []int, f func(idx []int)) {
	idx := make([]int, len(shape))
	w := Watching(c)
	for range SizeOf(shape) {
		w.Did(1)
		f(idx)
		for k := len(shape) - 1; k >= 0; k-- {
			if idx[k]++; idx[k] < shape[k] {
				break
			}
			idx[k] = 0
		}
	}
}

// Block describes a box of elements in a destination and a source.
type Block struct {
	Shape      []int
	Dst, Src   int   // first element
	Dstr, Sstr []int // element strides, one per dimension
}

// MoveBlock copies a box between arrays of one element type.
func MoveBlock(c *ops.Call, dst, src *ndarray.Array, b Block) {
	w, watch := StridedWalk(c, b.Shape, b.Dstr, b.Sstr), Watching(c)
	n, runs := 1, w.run
	if w.step[0] == 1 && w.step[1] == 1 {
		n, runs = w.run, 1
	}
	w.eachRun(func(_ int, at []int) {
		d, s := b.Dst+at[0], b.Src+at[1]
		if n == 1 && dst.DType.Size() == 1 && dst.DType != ndarray.String {
			for from, to := range Pieces(c, runs) {
				spreadBytes(dst.Data, src.Data, d+from*w.step[0], s+from*w.step[1], to-from, w.step)
			}
			return
		}
		for range runs {
			CopyElems(&watch, dst, d, src, s, n)
			d += w.step[0]
			s += w.step[1]
		}
	})
}

// spreadBytes copies n bytes, from s on to where d is, that lie steps apart in the two slices.
func spreadBytes(dst, src []byte, d, s, n int, step []int) {
	to, from := step[0], step[1]
	for ; n > 0; n-- {
		dst[d] = src[s]
		d, s = d+to, s+from
	}
}

// MoveMapped sets dst[i0, i1, …] = src[maps[0][i0], maps[1][i1], …].
func MoveMapped(c *ops.Call, dst, src *ndarray.Array, maps [][]int) {
	strides, to, w := ops.Strides(src.Shape), 0, Watching(c)
	EachIndex(c, dst.Shape, func(idx []int) {
		from := 0
		for k, i := range idx {
			from += maps[k][i] * strides[k]
		}
		CopyElems(&w, dst, to, src, from, 1)
		to++
	})
}

// ClearElems zeroes n elements from position i.
func ClearElems(w *Watch, a *ndarray.Array, i, n int) {
	for ; n > piece; n -= piece {
		ClearElems(w, a, i, piece)
		i += piece
	}
	w.Did(n)
	if a.DType == ndarray.String {
		clear(a.Str[i : i+n])
		return
	}
	size := a.DType.Size()
	clear(a.Data[i*size : (i+n)*size])
}

// CopyWhole copies all elements of src, which has as many as dst.
func CopyWhole(c *ops.Call, dst, src *ndarray.Array) {
	w := Watching(c)
	CopyElems(&w, dst, 0, src, 0, dst.Len())
}

// FillWhole writes the first element of v everywhere.
func FillWhole(c *ops.Call, dst, v *ndarray.Array) {
	w := Watching(c)
	for i := range dst.Len() {
		CopyElems(&w, dst, i, v, 0, 1)
	}
}

// SplitDims returns the product of the dimensions before axis, the dimension at
// axis, and the product of those after it.
func SplitDims(shape []int, axis int) (outer, dim, inner int) {
	return SizeOf(shape[:axis]), shape[axis], SizeOf(shape[axis+1:])
}

// SizeOf is the product of dimensions that belong to an existing array.
func SizeOf(dims []int) int { return ndarray.Product(dims) }
