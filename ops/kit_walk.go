package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
)

// walk is the loop nest of a computation over n-dimensional boxes, reduced to as
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
type walk struct {
	run  int   // elements of one run
	step []int // of each operand inside a run, in elements

	dims    []int   // outer loops
	strides [][]int // of each operand in the outer loops
}

// newWalk plans the walk over a result shape to which the operands broadcast.
func newWalk(result []int, operands ...[]int) walk {
	strides := make([][]int, len(operands))
	for i, s := range operands {
		strides[i] = BroadcastStrides(s, result)
	}
	return stridedWalk(result, strides...)
}

// stridedWalk plans the walk over dims with any strides for the operands.
func stridedWalk(dims []int, strides ...[]int) walk {
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
	w := walk{run: 1, step: make([]int, len(strides)), strides: make([][]int, len(strides))}
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
func (w *walk) eachRun(f func(first int, at []int)) {
	runs := sizeOf(w.dims)
	if w.run == 0 || runs == 0 {
		return
	}
	at := make([]int, len(w.strides))
	idx := make([]int, len(w.dims))
	for r := range runs {
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

// each calls f for every element of the box with its position in each operand.
// The slice is reused.
func (w *walk) each(f func(o int, at []int)) {
	pos := make([]int, len(w.step))
	w.eachRun(func(first int, at []int) {
		copy(pos, at)
		for o := first; o < first+w.run; o++ {
			f(o, pos)
			for k, s := range w.step {
				pos[k] += s
			}
		}
	})
}

// EachBroadcast calls f(o, a, b) with the linear positions of every element of
// out and of the two operands that broadcast to it.
func EachBroadcast(out, sa, sb []int, f func(o, a, b int)) {
	w := newWalk(out, sa, sb)
	w.each(func(o int, at []int) { f(o, at[0], at[1]) })
}

// EachIndex calls f with every multi-index of shape in row-major order. The
// slice is reused.
func EachIndex(shape []int, f func(idx []int)) {
	idx := make([]int, len(shape))
	for range sizeOf(shape) {
		f(idx)
		for k := len(shape) - 1; k >= 0; k-- {
			if idx[k]++; idx[k] < shape[k] {
				break
			}
			idx[k] = 0
		}
	}
}

// block describes a box of elements in a destination and a source.
type block struct {
	shape      []int
	dst, src   int   // first element
	dstr, sstr []int // element strides, one per dimension
}

// moveBlock copies a box between arrays of one element type.
func moveBlock(dst, src *ndarray.Array, b block) {
	w := stridedWalk(b.shape, b.dstr, b.sstr)
	n, runs := 1, w.run
	if w.step[0] == 1 && w.step[1] == 1 {
		n, runs = w.run, 1
	}
	w.eachRun(func(_ int, at []int) {
		d, s := b.dst+at[0], b.src+at[1]
		for range runs {
			copyElems(dst, d, src, s, n)
			d += w.step[0]
			s += w.step[1]
		}
	})
}

// moveMapped sets dst[i0, i1, …] = src[maps[0][i0], maps[1][i1], …].
func moveMapped(dst, src *ndarray.Array, maps [][]int) {
	strides, to := Strides(src.Shape), 0
	EachIndex(dst.Shape, func(idx []int) {
		from := 0
		for k, i := range idx {
			from += maps[k][i] * strides[k]
		}
		copyElems(dst, to, src, from, 1)
		to++
	})
}

// copyElems copies n elements between arrays of one element type.
func copyElems(dst *ndarray.Array, d int, src *ndarray.Array, s, n int) {
	if dst.DType == ndarray.String {
		copy(dst.Str[d:d+n], src.Str[s:s+n])
		return
	}
	w := dst.DType.Size()
	copy(dst.Data[d*w:(d+n)*w], src.Data[s*w:(s+n)*w])
}

// clearElems zeroes n elements from position i.
func clearElems(a *ndarray.Array, i, n int) {
	if a.DType == ndarray.String {
		clear(a.Str[i : i+n])
		return
	}
	w := a.DType.Size()
	clear(a.Data[i*w : (i+n)*w])
}

// copyWhole copies all elements of src, which has as many as dst.
func copyWhole(dst, src *ndarray.Array) { copyElems(dst, 0, src, 0, dst.Len()) }

// fillWhole writes the first element of v everywhere.
func fillWhole(dst, v *ndarray.Array) {
	for i := range dst.Len() {
		copyElems(dst, i, v, 0, 1)
	}
}

// splitDims returns the product of the dimensions before axis, the dimension at
// axis, and the product of those after it.
func splitDims(shape []int, axis int) (outer, dim, inner int) {
	return sizeOf(shape[:axis]), shape[axis], sizeOf(shape[axis+1:])
}

// sizeOf is the product of dimensions that belong to an existing array.
func sizeOf(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// takeAlong fills out with the listed indices of a along axis.
func takeAlong(out, a *ndarray.Array, axis int, list []int) {
	outer, dim, inner := splitDims(a.Shape, axis)
	at := 0
	for o := range outer {
		for _, k := range list {
			copyElems(out, at, a, (o*dim+k)*inner, inner)
			at += inner
		}
	}
}

// concatArrays stores the parts joined along axis as result 0.
func concatArrays(c *Call, parts []*ndarray.Array, axis64 int64) {
	first := parts[0]
	axis := try(NormAxis(axis64, first.Rank()))
	shape := append([]int(nil), first.Shape...)
	shape[axis] = 0
	for i, a := range parts {
		if a.DType != first.DType || a.Rank() != first.Rank() {
			failf("operand %d is %s, operand 0 is %s", i, a, first)
		}
		for k, d := range a.Shape {
			if k == axis {
				shape[k] += d
			} else if d != shape[k] {
				failf("operand %d is %s, it does not fit %s along axis %d", i, a, first, axis)
			}
		}
	}
	out := result(c, 0, first.DType, shape...)
	outer, dim, inner := splitDims(shape, axis)
	at := 0
	for _, a := range parts {
		run := a.Shape[axis] * inner
		for o := range outer {
			copyElems(out, o*dim*inner+at, a, o*run, run)
		}
		at += run
	}
}

// moveFirstAxis returns a copy with axis 0 moved to position axis.
func moveFirstAxis(a *ndarray.Array, axis int) *ndarray.Array {
	shape := append(slices.Clone(a.Shape[1:axis+1]), a.Shape[0])
	shape = append(shape, a.Shape[axis+1:]...)
	out := ndarray.Must(a.DType, shape...)
	n, mid, inner := a.Shape[0], 1, 1
	for _, d := range a.Shape[1 : axis+1] {
		mid *= d
	}
	for _, d := range a.Shape[axis+1:] {
		inner *= d
	}
	for i := range n {
		for m := range mid {
			copyElems(out, (m*n+i)*inner, a, (i*mid+m)*inner, inner)
		}
	}
	return out
}

// copyPart fills out with the indices of a along axis that start at first.
func copyPart(out, a *ndarray.Array, axis, first int) {
	outer, dim, inner := splitDims(a.Shape, axis)
	run := out.Shape[axis] * inner
	for o := range outer {
		copyElems(out, o*run, a, (o*dim+first)*inner, run)
	}
}
