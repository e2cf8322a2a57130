package kit

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// CopyReshaped stores a's elements as result 0 under another shape of as many
// elements. Where the result is planned as a view of the operand both are the
// same memory and nothing moves.
func CopyReshaped(c *ops.Call, a *ndarray.Array, shape []int) {
	out := Result(c, 0, a.DType, shape...)
	CopyWhole(c, out, a)
}

// Spread gives the elements of a as T, repeated to a full shape by
// unidirectional broadcasting; nil for nil. The suffix case, where a covers the
// last dimensions exactly, stays as it is and is indexed modulo its length.
func Spread[T RealNum](c *ops.Call, what string, a *ndarray.Array, shape []int) []T {
	if a == nil {
		return nil
	}
	out, err := ops.BroadcastShapes(a.Shape, shape)
	if err != nil || !slices.Equal(out, shape) {
		Failf("%s of shape %v does not broadcast to %v", what, a.Shape, shape)
	}
	v := Elements[T](c, a)
	if slices.Equal(a.Shape, shape[len(shape)-len(a.Shape):]) || a.Len() == 1 {
		return v
	}
	n := Try(ndarray.NumElems(shape))
	full := Make[T](c, n)
	EachBroadcast(c, shape, a.Shape, nil, func(o, i, _ int) { full[o] = v[i] })
	return full
}

// CopyElems copies n elements between arrays of one element type, and counts them.
func CopyElems(w *Watch, dst *ndarray.Array, d int, src *ndarray.Array, s, n int) {
	for ; n > piece; n -= piece {
		copyElems(dst, d, src, s, piece)
		w.Did(piece)
		d, s = d+piece, s+piece
	}
	w.Did(n)
	copyElems(dst, d, src, s, n)
}

func copyElems(dst *ndarray.Array, d int, src *ndarray.Array, s, n int) {
	if dst.DType == ndarray.String {
		copy(dst.Str[d:d+n], src.Str[s:s+n])
		return
	}
	w := dst.DType.Size()
	copy(dst.Data[d*w:(d+n)*w], src.Data[s*w:(s+n)*w])
}

// CopySlice is copy, piece by piece.
func CopySlice[T any](c *ops.Call, dst, src []T) {
	for from, to := range Pieces(c, min(len(dst), len(src))) {
		copy(dst[from:to], src[from:to])
	}
}

// ClearSlice is clear, piece by piece.
func ClearSlice[T any](c *ops.Call, v []T) {
	for from, to := range Pieces(c, len(v)) {
		clear(v[from:to])
	}
}

// TakeAlong fills out with the listed indices of a along axis.
func TakeAlong(c *ops.Call, out, a *ndarray.Array, axis int, list []int) {
	outer, dim, inner := SplitDims(a.Shape, axis)
	at, w := 0, Watching(c)
	for o := range outer {
		for _, k := range list {
			CopyElems(&w, out, at, a, (o*dim+k)*inner, inner)
			at += inner
		}
	}
}

// ConcatArrays stores the parts joined along axis as result 0.
func ConcatArrays(c *ops.Call, parts []*ndarray.Array, axis64 int64) {
	first := parts[0]
	axis := Try(ops.NormAxis(axis64, first.Rank()))
	shape := append([]int(nil), first.Shape...)
	shape[axis] = 0
	for i, a := range parts {
		if a.DType != first.DType || a.Rank() != first.Rank() {
			Failf("operand %d is %s, operand 0 is %s", i, a, first)
		}
		for k, d := range a.Shape {
			if k == axis {
				shape[k] += d
			} else if d != shape[k] {
				Failf("operand %d is %s, it does not fit %s along axis %d", i, a, first, axis)
			}
		}
	}
	out := Result(c, 0, first.DType, shape...)
	outer, dim, inner := SplitDims(shape, axis)
	at, w := 0, Watching(c)
	for _, a := range parts {
		run := a.Shape[axis] * inner
		for o := range outer {
			CopyElems(&w, out, o*dim*inner+at, a, o*run, run)
		}
		at += run
	}
}

// MoveFirstAxis returns a copy with axis 0 moved to position axis.
func MoveFirstAxis(c *ops.Call, a *ndarray.Array, axis int) *ndarray.Array {
	shape := append(slices.Clone(a.Shape[1:axis+1]), a.Shape[0])
	shape = append(shape, a.Shape[axis+1:]...)
	out := New(c, a.DType, shape...)
	n, mid, inner := a.Shape[0], 1, 1
	for _, d := range a.Shape[1 : axis+1] {
		mid *= d
	}
	for _, d := range a.Shape[axis+1:] {
		inner *= d
	}
	w := Watching(c)
	for i := range n {
		for m := range mid {
			CopyElems(&w, out, (m*n+i)*inner, a, (i*mid+m)*inner, inner)
		}
	}
	return out
}

// CopyPart fills out with the indices of a along axis that start at first.
func CopyPart(c *ops.Call, out, a *ndarray.Array, axis, first int) {
	outer, dim, inner := SplitDims(a.Shape, axis)
	run, w := out.Shape[axis]*inner, Watching(c)
	for o := range outer {
		CopyElems(&w, out, o*run, a, (o*dim+first)*inner, run)
	}
}
