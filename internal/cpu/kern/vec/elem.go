package vec

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Elementwise functions. A destination may be one of the sources, the same
// slice exactly. Slices shorter than the first source panic, as in plain Go.

// Unary is dst[i] = op(src[i]) for all of src.
func Unary(op simd.UnaryOp, dst, src []float32, p0, p1 float32) {
	simd.Active().UnaryRow(op, dst, src, p0, p1)
}

// Binary is dst[i] = a[i] op b[i] for all of a.
func Binary(op simd.BinaryOp, dst, a, b []float32) { simd.Active().BinaryRow(op, dst, a, b) }

// BinaryScalar is dst[i] = a[i] op s.
func BinaryScalar(op simd.BinaryOp, dst, a []float32, s float32) {
	simd.Active().BinaryScalarRow(op, dst, a, s)
}

// ScaleShift is dst[i] = src[i]·scale + shift.
func ScaleShift(dst, src []float32, scale, shift float32) {
	dst = dst[:len(src)]
	simd.Active().MulAdd(machine.F32p(dst, 0), machine.F32p(src, 0), len(src), scale, shift)
}

// MulAdd is dst[i] = a[i]·b[i] + c[i].
func MulAdd(dst, a, b, c []float32) {
	n := len(a)
	dst, b, c = dst[:n], b[:n], c[:n]
	simd.Active().MulAddRows(machine.F32p(dst, 0), machine.F32p(a, 0), machine.F32p(b, 0), machine.F32p(c, 0), n)
}
