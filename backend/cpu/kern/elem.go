package kern

// Elementwise functions. A destination may be one of the sources, the same
// slice exactly. Slices shorter than the first source panic, as in plain Go.

// Unary is dst[i] = op(src[i]) for all of src.
func Unary(op UnaryOp, dst, src []float32, p0, p1 float32) {
	active.Load().unaryRow(op, dst, src, p0, p1)
}

// Binary is dst[i] = a[i] op b[i] for all of a.
func Binary(op BinaryOp, dst, a, b []float32) { active.Load().binaryRow(op, dst, a, b) }

// BinaryScalar is dst[i] = a[i] op s.
func BinaryScalar(op BinaryOp, dst, a []float32, s float32) {
	active.Load().binaryScalarRow(op, dst, a, s)
}

// ScaleShift is dst[i] = src[i]·scale + shift.
func ScaleShift(dst, src []float32, scale, shift float32) {
	dst = dst[:len(src)]
	active.Load().mulAdd(f32p(dst, 0), f32p(src, 0), len(src), scale, shift)
}

// MulAdd is dst[i] = a[i]·b[i] + c[i].
func MulAdd(dst, a, b, c []float32) {
	n := len(a)
	dst, b, c = dst[:n], b[:n], c[:n]
	active.Load().mulAddRows(f32p(dst, 0), f32p(a, 0), f32p(b, 0), f32p(c, 0), n)
}

// unaryRow applies op to a row.
func (t *table) unaryRow(op UnaryOp, dst, src []float32, p0, p1 float32) {
	dst = dst[:len(src)]
	if f := t.unary[op]; f != nil {
		f(f32p(dst, 0), f32p(src, 0), len(src), p0, p1)
		return
	}
	unaryGeneric(op, dst, src, p0, p1)
}

func (t *table) binaryRow(op BinaryOp, dst, a, b []float32) {
	dst, b = dst[:len(a)], b[:len(a)]
	if f := t.binVV[op]; f != nil {
		f(f32p(dst, 0), f32p(a, 0), f32p(b, 0), len(a))
		return
	}
	binaryGeneric(op, dst, a, b)
}

func (t *table) binaryScalarRow(op BinaryOp, dst, a []float32, s float32) {
	dst = dst[:len(a)]
	if f := t.binVS[op]; f != nil {
		f(f32p(dst, 0), f32p(a, 0), s, len(a))
		return
	}
	binaryScalarGeneric(op, dst, a, s)
}

func (t *table) scalarBinaryRow(op BinaryOp, dst []float32, s float32, b []float32) {
	dst = dst[:len(b)]
	if f := t.binSV[op]; f != nil {
		f(f32p(dst, 0), s, f32p(b, 0), len(b))
		return
	}
	scalarBinaryGeneric(op, dst, s, b)
}
