package simd

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// Rows of elementwise functions: the vector kernel of the level where it has one, else plain Go.

// UnaryRow applies op to a row; in place allowed.
func (t *Table) UnaryRow(op UnaryOp, dst, src []float32, p0, p1 float32) {
	dst = dst[:len(src)]
	if f := t.unary[op]; f != nil {
		f(machine.F32p(dst, 0), machine.F32p(src, 0), len(src), p0, p1)
		return
	}
	UnaryGeneric(op, dst, src, p0, p1)
}

// BinaryRow computes dst[i] = a[i] op b[i]; in place allowed.
func (t *Table) BinaryRow(op BinaryOp, dst, a, b []float32) {
	dst, b = dst[:len(a)], b[:len(a)]
	if f := t.binVV[op]; f != nil {
		f(machine.F32p(dst, 0), machine.F32p(a, 0), machine.F32p(b, 0), len(a))
		return
	}
	binaryGeneric(op, dst, a, b)
}

// BinaryScalarRow computes dst[i] = a[i] op s; in place allowed.
func (t *Table) BinaryScalarRow(op BinaryOp, dst, a []float32, s float32) {
	dst = dst[:len(a)]
	if f := t.binVS[op]; f != nil {
		f(machine.F32p(dst, 0), machine.F32p(a, 0), s, len(a))
		return
	}
	binaryScalarGeneric(op, dst, a, s)
}

// ScalarBinaryRow computes dst[i] = s op b[i]; in place allowed.
func (t *Table) ScalarBinaryRow(op BinaryOp, dst []float32, s float32, b []float32) {
	dst = dst[:len(b)]
	if f := t.binSV[op]; f != nil {
		f(machine.F32p(dst, 0), s, machine.F32p(b, 0), len(b))
		return
	}
	scalarBinaryGeneric(op, dst, s, b)
}
