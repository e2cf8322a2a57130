package kern

import "unsafe"

// sweep runs the micro-kernel over a tile: panels p0..p1 of packed rows by
// panels q0..q1 of columns, for one block of K at a time. The matrix product
// and the convolutions share it; they differ in how the panels come about.
type sweep struct {
	t    *table
	ints intKind // which product; floatWords for float32
	u    ukArgs
	rows split // panels of A
	cols int   // columns of C, over all panels

	p0, p1, q0, q1 int
	loopRows       bool // the inner loop runs over panels of A

	a     unsafe.Pointer // panel p0 of the block
	oneA  bool           // all panels of A are that one
	b     unsafe.Pointer // panel q0 of the block
	bStep int            // bytes between panels of B
	bLD   int            // bytes between the rows of a panel
	tail  unsafe.Pointer // the last, narrow panel where it lies apart, packed

	c, res  unsafe.Pointer // element (0, 0) of the result and of the residual
	bias    unsafe.Pointer // one value for each row, or each column
	lastCol []float32      // bias of the last, narrow panel, padded
}

// stages sets the flags of the epilogue for one block of K: the first scales C
// by beta, the last adds bias and residual and clamps. A residual that is C
// itself comes with the first block, before C is written.
func (w *sweep) stages(e *Epilogue, alpha, beta float32, clamp, first, last bool) {
	u := &w.u
	inPlace := e.Residual && w.res == w.c
	if inPlace {
		beta++
	}
	u.flags, u.alpha, u.beta = ukAcc, alpha, 1
	if first {
		u.beta = beta
		if beta == 0 {
			u.flags = 0
		}
	}
	if alpha != 1 {
		u.flags |= ukAlpha
	}
	if !last {
		return
	}
	switch e.Bias {
	case BiasPerRow:
		u.flags |= ukRow
	case BiasPerCol:
		u.flags |= ukCol
	}
	if e.Residual && !inPlace {
		u.flags |= ukRes
	}
	if clamp {
		u.flags |= ukClamp
	}
}

// run multiplies one block of K into the tile.
func (w *sweep) run(kc int) {
	w.u.k = kc
	row0, _ := w.rows.part(w.p0)
	if w.loopRows {
		for q := w.q0; q < w.q1; q++ {
			w.panelB(q)
			for p := w.p0; p < w.p1; p++ {
				row, h := w.rows.part(p)
				w.panelA(row-row0, kc)
				w.fetch(w.u.b, w.bStep, p-w.p0, q+1 < w.q1)
				w.call(row, h, q)
			}
		}
		return
	}
	for p := w.p0; p < w.p1; p++ {
		row, h := w.rows.part(p)
		w.panelA(row-row0, kc)
		for q := w.q0; q < w.q1; q++ {
			w.panelB(q)
			w.fetch(w.u.a, 4*kc*h, q-w.q0, p+1 < w.p1)
			w.call(row, h, q)
		}
	}
}

// panelA points the micro-kernel at the panel of A that begins so many rows in.
func (w *sweep) panelA(rows, kc int) {
	if w.oneA {
		rows = 0
	}
	w.u.a = unsafe.Add(w.a, 4*rows*kc)
}

// panelB points the micro-kernel at a panel of B.
func (w *sweep) panelB(q int) {
	if w.tail != nil && (q+1)*w.t.nr > w.cols {
		w.u.b, w.u.ldb = w.tail, 4*w.t.nr
		return
	}
	w.u.b, w.u.ldb = unsafe.Add(w.b, (q-w.q0)*w.bStep), w.bLD
}

// fetch has the micro-kernel prefetch a piece of the outer loop's next panel,
// which follows the present one: piece i of as many as the inner loop has.
func (w *sweep) fetch(panel unsafe.Pointer, size, i int, more bool) {
	if off := i * w.u.k * lineBytes; more && w.tail == nil && off < size {
		w.u.pre = unsafe.Add(panel, size+off)
		return
	}
	w.u.pre = w.u.a // in the cache already
}

// call runs the micro-kernel on h rows from row by panel q.
func (w *sweep) call(row, h, q int) {
	u := &w.u
	col := q * w.t.nr
	u.c = unsafe.Add(w.c, row*u.ldc+4*col)
	if u.flags&ukRes != 0 {
		u.res = unsafe.Add(w.res, row*u.ldr+4*col)
	}
	if u.flags&ukRow != 0 {
		u.bias = unsafe.Add(w.bias, 4*row)
	}
	u.flags &^= ukTail
	narrow := col+w.t.nr > w.cols
	if narrow {
		u.flags |= ukTail
		u.cols = w.cols - col
	}
	if u.flags&ukCol != 0 {
		u.bias = unsafe.Add(w.bias, 4*col)
		if narrow && len(w.lastCol) > 0 {
			u.bias = ptr(w.lastCol, 0)
		}
	}
	if w.ints == floatWords {
		w.t.micro(h, u)
	} else {
		w.t.microInt(w.ints, h, u)
	}
}

// activate applies an activation that is no clamp to the finished tile; c is
// the result from element (0, 0) on.
func (w *sweep) activate(op UnaryOp, e *Epilogue, c []float32) {
	r0, _ := w.rows.part(w.p0)
	last, h := w.rows.part(w.p1 - 1)
	c0, c1 := w.q0*w.t.nr, min(w.q1*w.t.nr, w.cols)
	for row := r0; row < last+h; row++ {
		x := c[row*w.u.ldc/4+c0 : row*w.u.ldc/4+c1]
		w.t.unaryRow(op, x, x, e.P0, e.P1)
	}
}
