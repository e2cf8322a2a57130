package kern

// unaryRow applies op to a row; in place allowed.
func (t *table) unaryRow(op UnaryOp, dst, src []float32, p0, p1 float32) {
	dst = dst[:len(src)]
	if f := t.unary[op]; f != nil {
		f(f32p(dst, 0), f32p(src, 0), len(src), p0, p1)
		return
	}
	unaryGeneric(op, dst, src, p0, p1)
}

// binaryRow is dst = a op b; in place allowed.
func (t *table) binaryRow(op BinaryOp, dst, a, b []float32) {
	binaryGeneric(op, dst, a, b)
}
