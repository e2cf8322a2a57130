package gemm

import (
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Sweep runs the micro-kernel over a tile: panels p0..p1 of packed rows by
// panels q0..q1 of columns, for one block of K at a time. Matrix products and
// convolutions share it; they differ in how panels are packed.
type Sweep struct {
	T    *simd.Table
	Ints simd.IntKind // which product; FloatWords for float32
	U    simd.UkArgs
	Rows Split // panels of A
	Cols int   // columns of C, over all panels

	P0, P1, Q0, Q1 int
	LoopRows       bool // the inner loop runs over panels of A
	Backwards      bool // of one row: from the last panel of B on
	Far            bool // B is read from far away

	A     unsafe.Pointer // panel p0 of the block
	OneA  bool           // all panels of A are equal: the one at A
	B     unsafe.Pointer // panel q0 of the block
	BStep int            // bytes between panels of B
	BLD   int            // bytes between the rows of a panel
	Next  unsafe.Pointer // nil, or the panel of B that is read after the last one of the tile
	Tail  unsafe.Pointer // the last, narrow panel, packed, where the others are read in place

	C, Res  unsafe.Pointer // element (Row0, Col0) of the result, (0, 0) of the residual
	Row0    int            // not 0 where the result is a tile of its own
	Col0    int
	Bias    unsafe.Pointer // one value for each row, or each column
	lastCol []float32      // bias of the last, narrow panel, padded
}

// Stages sets the flags of the epilogue for one block of K: the first scales C
// by beta, the last adds bias and residual and clamps. A residual that is C
// itself comes with the first block, before C is written.
func (w *Sweep) Stages(e *simd.Epilogue, alpha, beta float32, clamp, first, last bool) {
	u := &w.U
	inPlace := e.Residual && w.Res == w.C
	if inPlace {
		beta++
	}
	u.Flags, u.Alpha, u.Beta = simd.UkAcc, alpha, 1
	if first {
		u.Beta = beta
		if beta == 0 {
			u.Flags = 0
		}
	}
	if alpha != 1 {
		u.Flags |= simd.UkAlpha
	}
	if w.Far {
		u.Flags |= simd.UkFar
	}
	if !last {
		return
	}
	switch e.Bias {
	case simd.BiasPerRow:
		u.Flags |= simd.UkRow
	case simd.BiasPerCol:
		u.Flags |= simd.UkCol
	}
	if e.Residual && !inPlace {
		u.Flags |= simd.UkRes
	}
	if clamp {
		u.Flags |= simd.UkClamp
	}
}

// Run multiplies one block of K into the tile.
func (w *Sweep) Run(kc int) {
	w.U.K = kc
	row0, h0 := w.Rows.Part(w.P0)
	if w.P1-w.P0 == 1 && h0 == 1 && w.Ints == simd.FloatWords {
		w.oneRow(row0, kc)
		return
	}
	if w.LoopRows {
		for q := w.Q0; q < w.Q1; q++ {
			w.panelB(q)
			for p := w.P0; p < w.P1; p++ {
				row, h := w.Rows.Part(p)
				w.panelA(row-row0, kc)
				w.fetch(w.U.B, w.BStep, p-w.P0, q+1 < w.Q1)
				if q+1 == w.Q1 {
					w.fetchNext(w.P1-p, kc)
				}
				w.call(row, h, q)
			}
		}
		return
	}
	for p := w.P0; p < w.P1; p++ {
		row, h := w.Rows.Part(p)
		w.panelA(row-row0, kc)
		for q := w.Q0; q < w.Q1; q++ {
			w.panelB(q)
			w.fetch(w.U.A, 4*kc*h, q-w.Q0, p+1 < w.P1)
			w.call(row, h, q)
		}
	}
}

// oneRow is Run of one row: the micro-kernel goes on to the next panel of B by itself.
func (w *Sweep) oneRow(row, kc int) {
	w.panelA(0, kc)
	w.U.Pre = w.U.A // in the cache already
	whole := min(w.Q1, w.Cols/w.T.Nr)
	first, step := w.Q0, 1
	if w.Backwards {
		first, step = whole-1, -1
		w.narrow(row, whole)
	}
	if n := whole - w.Q0; n > 0 {
		w.panelB(first)
		w.U.Panels, w.U.StepB, w.U.StepC = n, step*w.BStep-kc*w.BLD, step*4*w.T.Nr
		w.call(row, 1, first)
		w.U.Panels = 0
	}
	if !w.Backwards {
		w.narrow(row, whole)
	}
}

// narrow computes the last panel of B of one row, where that is narrower than the others.
func (w *Sweep) narrow(row, q int) {
	if q < w.Q1 {
		w.panelB(q)
		w.call(row, 1, q)
	}
}

// panelA points the micro-kernel at the panel of A that begins so many rows in.
func (w *Sweep) panelA(rows, kc int) {
	if w.OneA {
		rows = 0
	}
	w.U.A = unsafe.Add(w.A, 4*rows*kc)
}

// panelB points the micro-kernel at a panel of B.
func (w *Sweep) panelB(q int) {
	if w.Tail != nil && (q+1)*w.T.Nr > w.Cols {
		w.U.B, w.U.Ldb = w.Tail, 4*w.T.Nr
		return
	}
	w.U.B, w.U.Ldb = unsafe.Add(w.B, (q-w.Q0)*w.BStep), w.BLD
}

// fetch has the micro-kernel prefetch a part of the outer loop's next panel, which
// follows the present one: part i of as many as the inner loop has iterations.
func (w *Sweep) fetch(panel unsafe.Pointer, size, i int, more bool) {
	if off := i * w.U.K * machine.LineBytes; more && w.Tail == nil && off < size {
		w.U.Pre = unsafe.Add(panel, size+off)
		return
	}
	w.U.Pre = w.U.A // in the cache already
}

// fetchNext has the micro-kernel prefetch a part of the next panel of B instead, in the last calls of a tile.
func (w *Sweep) fetchNext(left, kc int) {
	if parts := machine.CeilDiv(4*w.T.Nr, machine.LineBytes); w.Next != nil && left <= parts {
		w.U.Pre = unsafe.Add(w.Next, (parts-left)*kc*machine.LineBytes)
	}
}

// call runs the micro-kernel on h rows from row by panel q.
func (w *Sweep) call(row, h, q int) {
	u := &w.U
	col := q * w.T.Nr
	u.C = unsafe.Add(w.C, (row-w.Row0)*u.Ldc+4*(col-w.Col0))
	if u.Flags&simd.UkRes != 0 {
		u.Res = unsafe.Add(w.Res, row*u.Ldr+4*col)
	}
	if u.Flags&simd.UkRow != 0 {
		u.Bias = unsafe.Add(w.Bias, 4*row)
	}
	u.Flags &^= simd.UkTail
	narrow := col+w.T.Nr > w.Cols
	if narrow {
		u.Flags |= simd.UkTail
		u.Cols = w.Cols - col
	}
	if u.Flags&simd.UkCol != 0 {
		u.Bias = unsafe.Add(w.Bias, 4*col)
		if narrow && len(w.lastCol) > 0 {
			u.Bias = machine.Ptr(w.lastCol, 0)
		}
	}
	if w.Ints == simd.FloatWords {
		w.T.Micro(h, u)
	} else {
		w.T.MicroInt(w.Ints, h, u)
	}
}

// Activate applies an activation other than a clamp to the finished tile; c is
// the result from element (0, 0) on.
func (w *Sweep) Activate(op simd.UnaryOp, e *simd.Epilogue, c []float32) {
	r0, _ := w.Rows.Part(w.P0)
	last, h := w.Rows.Part(w.P1 - 1)
	c0, c1 := w.Q0*w.T.Nr, min(w.Q1*w.T.Nr, w.Cols)
	for row := r0; row < last+h; row++ {
		x := c[row*w.U.Ldc/4+c0 : row*w.U.Ldc/4+c1]
		w.T.UnaryRow(op, x, x, e.P0, e.P1)
	}
}
