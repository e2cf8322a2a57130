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
	if s.cols < shortRow && s.rows > 8 && s.repeat() {
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

// shortRow is the width below which a repeated row is written out several
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

// patterns keeps buffers for repeated rows.
var patterns machine.FreeList[[512]float32]

// repeat handles a full operand with a short repeated row: the row is written
// out as often as fits a buffer. It reports false for other combinations.
func (s *spreadJob) repeat() bool {
	row, full := s.b, s.a
	switch {
	case s.ka == Full && s.kb == Row:
	case s.ka == Row && s.kb == Full:
		row, full = full, row
	default:
		return false
	}
	p := patterns.Get()
	defer patterns.Put(p)
	per := len(p) / s.cols
	for i := range per {
		copy(p[i*s.cols:], row)
	}
	for r := 0; r < s.rows; r += per {
		n := min(per, s.rows-r) * s.cols
		dst, x := s.dst[r*s.cols:][:n], full[r*s.cols:][:n]
		if s.ka == Full {
			s.t.BinaryRow(s.op, dst, x, p[:n])
		} else {
			s.t.BinaryRow(s.op, dst, p[:n], x)
		}
	}
	return true
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
