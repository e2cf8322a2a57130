package vec

import (
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Rows of integers, comparisons and choices. Operands move by a step of 1 or 0 elements. Each
// function computes as many leading elements of a row as there are whole vectors, and returns
// their number; where there is no kernel, or another step, that is 0. The callers have typed loops
// for the rest.

// vectors is the part of n elements that fills vectors of so many lanes, if the operands' steps
// allow: stepA and stepB are then the bytes that they move a vector.
func vectors(n, lanes, size, sa, sb int) (whole, stepA, stepB int) {
	if lanes < 2 || uint(sa) > 1 || uint(sb) > 1 {
		return 0, 0, 0
	}
	return n - n%lanes, sa * lanes * size, sb * lanes * size
}

// rowKernel computes n elements of a row; the operands move by steps of bytes a vector.
type rowKernel[D, S any] = func(dst *D, a, b *S, n, stepA, stepB int)

// row lets a kernel for elements of size bytes compute the whole vectors.
func row[D, S any](f rowKernel[D, S], lanes, size int, dst []D, a []S, sa int, b []S, sb int) (done int) {
	n, stepA, stepB := vectors(len(dst), lanes, size, sa, sb)
	if n > 0 {
		f(&dst[0], first(a, sa, n), first(b, sb, n), n, stepA, stepB)
	}
	return n
}

// IntRow computes dst = a op b.
func IntRow(op simd.IntOp, dst, a []int32, sa int, b []int32, sb int) (done int) {
	t := simd.Active()
	return row(t.RowOps.Ints[op], t.Lanes(), 4, dst, a, sa, b, sb)
}

// CompareFloats computes dst = a r b.
func CompareFloats(r simd.Relation, dst []bool, a []float32, sa int, b []float32, sb int) (done int) {
	t := simd.Active()
	return row(t.RowOps.CompareF32[r], t.Lanes(), 4, dst, a, sa, b, sb)
}

// CompareInts computes dst = a r b.
func CompareInts(r simd.Relation, dst []bool, a []int32, sa int, b []int32, sb int) (done int) {
	t := simd.Active()
	return row(t.RowOps.CompareI32[r], t.Lanes(), 4, dst, a, sa, b, sb)
}

// CompareLongs computes dst = a r b.
func CompareLongs(r simd.Relation, dst []bool, a []int64, sa int, b []int64, sb int) (done int) {
	t := simd.Active()
	return row(t.RowOps.CompareI64[r], t.Lanes()/2, 8, dst, a, sa, b, sb)
}

// Choose computes dst = cond ? a : b, over elements of four bytes.
func Choose(dst []uint32, cond []byte, a []uint32, sa int, b []uint32, sb int) (done int) {
	t := simd.Active()
	n, stepA, stepB := vectors(len(dst), t.Lanes(), 4, sa, sb)
	if n > 0 {
		t.RowOps.Choose(&dst[0], unsafe.SliceData(cond[:n]), first(a, sa, n), first(b, sb, n), n, stepA, stepB)
	}
	return n
}

// first is the address of an operand of n elements, or of one.
func first[T any](x []T, step, n int) *T { return unsafe.SliceData(x[:max(1, step*n)]) }
