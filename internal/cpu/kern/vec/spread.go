package vec

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Binary operations over rows × cols with broadcasting, and unary operations on
// the worker pool.

// Spread says how an operand covers rows × cols.
type Spread uint8

// The ways in which an operand covers rows × cols.
const (
	Full Spread = iota // rows·cols values
	Row                // cols values, the same for every row
	Col                // rows values, one for each row
	One                // one value
)

// len is the number of values of an operand.
func (k Spread) len(rows, cols int) int {
	switch k {
	case Row:
		return cols
	case Col:
		return rows
	case One:
		return 1
	}
	return rows * cols
}

// BinaryRows is dst[r][c] = a op b over rows × cols, ka and kb saying how the operands
// cover them. dst may be an operand that is Full.
func BinaryRows(op simd.BinaryOp, dst, a []float32, ka Spread, b []float32, kb Spread, rows, cols int) {
	if rows == 0 || cols == 0 {
		return
	}
	s := spreadJob{t: simd.Active(), op: op, dst: dst[:rows*cols], ka: ka, kb: kb, rows: rows, cols: cols}
	s.a, s.b = a[:ka.len(rows, cols)], b[:kb.len(rows, cols)]
	s.flatten()
	if s.cols < shortRow && s.rows > 8 && (s.column() || s.repeat()) {
		return
	}
	for r := range s.rows {
		s.row(r)
	}
}

// spreadJob is one broadcast operation.
type spreadJob struct {
	t          *simd.Table
	op         simd.BinaryOp
	dst, a, b  []float32
	ka, kb     Spread
	rows, cols int
}

// flatten reduces the forms: operands that cover one row or one column become Full or
// One, and an operation on such operands alone becomes one row.
func (s *spreadJob) flatten() {
	if s.cols == 1 {
		s.ka, s.kb = s.ka.without(Col, Row), s.kb.without(Col, Row)
	}
	if s.rows == 1 {
		s.ka, s.kb = s.ka.without(Row, Col), s.kb.without(Row, Col)
		return
	}
	if s.ka.isFlat() && s.kb.isFlat() {
		s.cols *= s.rows
		s.rows = 1
	}
}

// without is the spread over a single row or column: one that has all of its values is
// Full there, one that has a single value of it is One.
func (k Spread) without(full, one Spread) Spread {
	switch k {
	case full:
		return Full
	case one:
		return One
	}
	return k
}

// isFlat reports whether rows make no difference.
func (k Spread) isFlat() bool { return k == Full || k == One }

// shortRow is the width below which a repeated row or column is written out several
// times first, so that the kernels see long rows.
const shortRow = 48

// row does one row.
func (s *spreadJob) row(r int) {
	dst := s.dst[r*s.cols:][:s.cols]
	a, xa, va := s.operand(s.a, s.ka, r)
	b, xb, vb := s.operand(s.b, s.kb, r)
	switch {
	case va && vb:
		s.t.BinaryRow(s.op, dst, a, b)
	case va:
		s.t.BinaryScalarRow(s.op, dst, a, xb)
	case vb:
		s.t.ScalarBinaryRow(s.op, dst, xa, b)
	default:
		v := simd.Binary1(s.op, xa, xb)
		for i := range dst {
			dst[i] = v
		}
	}
}

// operand returns the part of an operand that row r reads: values, or one scalar.
func (s *spreadJob) operand(x []float32, k Spread, r int) (v []float32, scalar float32, isRow bool) {
	switch k {
	case Full:
		return x[r*s.cols:][:s.cols], 0, true
	case Row:
		return x, 0, true
	case Col:
		return nil, x[r], false
	}
	return nil, x[0], false
}

// column handles products of a column and rows of whole vectors. It reports false for all others.
func (s *spreadJob) column() bool {
	lanes := s.t.Lanes()
	if s.op != simd.Mul || s.t.MulColumn == nil || s.cols%lanes != 0 {
		return false
	}
	x, k, column := s.b, s.kb, s.a
	if s.kb == Col {
		x, k, column = s.a, s.ka, s.b
	}
	step := 0
	switch {
	case s.ka != Col && s.kb != Col || k != Row && k != Full:
		return false
	case k == Full:
		step = 4 * s.cols
	}
	s.t.MulColumn(&s.dst[0], &column[0], &x[0], s.rows, s.cols/lanes, step)
	return true
}

// patterns keeps buffers for operands that are written out.
var patterns machine.FreeList[[1024]float32]

// repeat handles short rows: as many of them as fit a buffer become one, for which an operand
// that is a row or a column is written out. It reports false where an operand is one number.
func (s *spreadJob) repeat() bool {
	if s.ka == One || s.kb == One {
		return false
	}
	a, b := s.written(s.a, s.ka), s.written(s.b, s.kb)
	per := len(a.buffer) / s.cols
	for r := 0; r < s.rows; r += per {
		n := min(per, s.rows-r)
		s.t.BinaryRow(s.op, s.dst[r*s.cols:][:n*s.cols], a.rows(s, r, n), b.rows(s, r, n))
	}
	a.release()
	b.release()
	return true
}

// written is an operand of [spreadJob.repeat].
type written struct {
	x      []float32
	k      Spread
	buffer *[1024]float32 // nil where the operand is there in full
}

// written begins to write an operand out: a row as often as it fits the buffer.
func (s *spreadJob) written(x []float32, k Spread) written {
	w := written{x: x, k: k}
	if k == Full {
		return w
	}
	w.buffer = patterns.Get()
	if k == Row {
		all := w.buffer[:min(s.rows*s.cols, len(w.buffer))]
		for n := copy(all, x); n < len(all); n *= 2 {
			copy(all[n:], all[:n])
		}
	}
	return w
}

// rows are n rows of the operand from r on.
func (w *written) rows(s *spreadJob, r, n int) []float32 {
	switch w.k {
	case Full:
		return w.x[r*s.cols:][:n*s.cols]
	case Col:
		s.t.RepeatEach(&w.buffer[0], &w.x[r:][:n][0], n, s.cols)
	}
	return w.buffer[:n*s.cols]
}

func (w *written) release() {
	if w.buffer != nil {
		patterns.Put(w.buffer)
	}
}

// parChunk is the number of elements of one task.
const parChunk = 1 << 15

// elemJob is a unary operation cut into chunks; it is a Task.
type elemJob struct {
	t        *simd.Table
	un       simd.UnaryOp
	p0, p1   float32
	src, dst []float32
}

var elemJobs machine.FreeList[elemJob]

// Run does chunk i.
func (j *elemJob) Run(i, _ int) {
	lo, hi := i*parChunk, min((i+1)*parChunk, len(j.src))
	j.t.UnaryRow(j.un, j.dst[lo:hi], j.src[lo:hi], j.p0, j.p1)
}

// UnaryN is Unary on at most threads threads.
func UnaryN(op simd.UnaryOp, dst, src []float32, p0, p1 float32, threads int) {
	if threads <= 1 || len(src) <= parChunk {
		Unary(op, dst, src, p0, p1)
		return
	}
	j := elemJobs.Get()
	defer elemJobs.Release(j)
	j.t, j.un, j.p0, j.p1, j.src, j.dst = simd.Active(), op, p0, p1, src, dst[:len(src)]
	machine.Parallel(machine.CeilDiv(len(src), parChunk), threads, j)
}
