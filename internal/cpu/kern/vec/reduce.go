package vec

import (
	"math"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Reductions of the rows or the columns of a matrix.

// ReduceOp names a reduction.
type ReduceOp uint8

// The reductions.
const (
	ReduceSum ReduceOp = iota
	ReduceMean
	ReduceMax // NaN if there is one
	ReduceMin // NaN if there is one
	ReduceSumSquares
	ReduceSumAbs
	numReduce
)

// reduceJob reduces rows or columns; it is a Task.
type reduceJob struct {
	t          *simd.Table
	op         ReduceOp
	dst, src   []float32
	rows, cols int
	per        int  // rows, or columns, of a task
	vertical   bool // over rows, keeping columns
	blocks     int  // tasks of a matrix
	done       <-chan struct{}
}

var reduceJobs machine.FreeList[reduceJob]

func (j *reduceJob) start(tasks, threads int) {
	defer reduceJobs.Release(j)
	if !j.vertical && j.cols > 1 && &j.dst[0] == &j.src[0] {
		machine.ParallelWaves(tasks, threads, j)
		return
	}
	machine.Parallel(tasks, threads, j)
}

// ReduceRows reduces each of rows rows of cols elements to one value. dst may begin
// where src does. When done, which may be nil, is closed, the rest is left out.
func ReduceRows(done <-chan struct{}, op ReduceOp, dst, src []float32, rows, cols, threads int) {
	if rows == 0 {
		return
	}
	j := reduceJobs.Get()
	j.done = done
	j.t, j.op, j.dst, j.src, j.rows, j.cols = simd.Active(), op, dst[:rows], src[:rows*cols], rows, cols
	j.per = max(1, parChunk/max(1, cols))
	j.start(machine.CeilDiv(rows, j.per), threads)
}

// ReduceCols reduces, in each of n matrices of rows × cols, each column to one
// value: dst is n × cols. dst overlaps nothing. An empty reduction (no rows) is 0, of
// the mean NaN, of the maximum −∞, of the minimum +∞.
// When done, which may be nil, is closed, the rest is left out.
func ReduceCols(done <-chan struct{}, op ReduceOp, dst, src []float32, n, rows, cols, threads int) {
	if n == 0 || cols == 0 {
		return
	}
	j := reduceJobs.Get()
	j.done = done
	j.t, j.op, j.dst, j.src, j.rows, j.cols = simd.Active(), op, dst[:n*cols], src[:n*rows*cols], rows, cols
	j.vertical = true
	j.per = min(cols, max(64, min(2048, machine.RoundUp(parChunk/max(1, rows), 16))))
	j.blocks = machine.CeilDiv(cols, j.per)
	j.start(n*j.blocks, threads)
}

// Run does task i.
func (j *reduceJob) Run(i, _ int) {
	if machine.Closed(j.done) {
		return
	}
	if j.vertical {
		c0 := i % j.blocks * j.per
		j.columns(i/j.blocks, c0, min(c0+j.per, j.cols))
		return
	}
	r0, r1 := i*j.per, min((i+1)*j.per, j.rows)
	if j.cols > 0 && j.cols <= shortReduction {
		reduceShort(j.op, j.dst[r0:r1], j.src[r0*j.cols:r1*j.cols], j.cols)
		return
	}
	for r := r0; r < r1; r++ {
		x := j.src[r*j.cols:][:j.cols]
		if j.cols > longRow {
			j.dst[r] = j.long(x)
			continue
		}
		j.dst[r] = reduceRow(j.t, j.op, x)
	}
}

// shortReduction is the length up to which rows are reduced without calling a kernel.
const shortReduction = 8

// reduceShort reduces rows of a few elements. dst may begin where src does.
func reduceShort(op ReduceOp, dst, src []float32, cols int) {
	for r := range dst {
		row := src[r*cols:][:cols]
		v := row[0]
		switch op {
		case ReduceMax:
			for _, x := range row[1:] {
				v = max(v, x)
			}
		case ReduceMin:
			for _, x := range row[1:] {
				v = min(v, x)
			}
		case ReduceSumSquares:
			v *= v
			for _, x := range row[1:] {
				v += x * x
			}
		case ReduceSumAbs:
			v = magnitude(v)
			for _, x := range row[1:] {
				v += magnitude(x)
			}
		default:
			for _, x := range row[1:] {
				v += x
			}
			if op == ReduceMean {
				v /= float32(cols)
			}
		}
		dst[r] = v
	}
}

// reduceRow reduces one row.
func reduceRow(t *simd.Table, op ReduceOp, x []float32) float32 {
	p, n := machine.F32p(x, 0), len(x)
	switch op {
	case ReduceMean:
		return t.Sum(p, n) / float32(n)
	case ReduceMax:
		return t.Max(p, n)
	case ReduceMin:
		return t.Min(p, n)
	case ReduceSumSquares:
		return t.SumSq(p, n)
	case ReduceSumAbs:
		return t.SumAbs(p, n)
	}
	return t.Sum(p, n)
}

// long reduces a long row, piece by piece.
func (j *reduceJob) long(x []float32) float32 {
	t := j.t
	switch j.op {
	case ReduceMax:
		return extreme(j.done, x, t.Max)
	case ReduceMin:
		return -extreme(j.done, x, func(x *float32, n int) float32 { return -t.Min(x, n) })
	case ReduceSumSquares:
		return float32(total(j.done, x, t.SumSq))
	case ReduceSumAbs:
		return float32(total(j.done, x, t.SumAbs))
	case ReduceMean:
		return float32(total(j.done, x, t.Sum) / float64(len(x)))
	}
	return float32(total(j.done, x, t.Sum))
}

// lookRows is how many rows are added up between two looks at what ends the run.
const lookRows = 1 << 10

// columns reduces columns c0..c1 of matrix m, one row after the other.
func (j *reduceJob) columns(m, c0, c1 int) {
	t := j.t
	dst := j.dst[m*j.cols:][c0:c1]
	row := func(r int) []float32 { return j.src[(m*j.rows+r)*j.cols:][c0:c1] }
	if j.rows == 0 {
		v := reduceRow(t, j.op, nil)
		for i := range dst {
			dst[i] = v
		}
		return
	}
	p, n := machine.F32p(dst, 0), len(dst)
	switch j.op {
	case ReduceSumSquares:
		t.UnaryRow(simd.Square, dst, row(0), 0, 0)
	case ReduceSumAbs:
		t.UnaryRow(simd.Abs, dst, row(0), 0, 0)
	default:
		copy(dst, row(0))
	}
	for r := 1; r < j.rows; r++ {
		if r%lookRows == 0 && machine.Closed(j.done) {
			return
		}
		x := row(r)
		switch j.op {
		case ReduceSum, ReduceMean:
			t.BinaryRow(simd.Add, dst, dst, x)
		case ReduceMax:
			t.BinaryRow(simd.Max, dst, dst, x)
		case ReduceMin:
			t.BinaryRow(simd.Min, dst, dst, x)
		case ReduceSumSquares:
			t.MulAddRows(p, machine.F32p(x, 0), machine.F32p(x, 0), p, n)
		case ReduceSumAbs:
			addAbs(t, dst, x)
		}
	}
	if j.op == ReduceMean {
		t.BinaryScalarRow(simd.Div, dst, dst, float32(j.rows))
	}
}

// addAbs is dst += |x|, in pieces that fit a buffer.
func addAbs(t *simd.Table, dst, x []float32) {
	b := patterns.Get()
	defer patterns.Put(b)
	for i := 0; i < len(x); i += len(b) {
		n := min(len(b), len(x)-i)
		t.UnaryRow(simd.Abs, b[:n], x[i:i+n], 0, 0)
		t.BinaryRow(simd.Add, dst[i:i+n], dst[i:i+n], b[:n])
	}
}

// magnitude is x without its sign.
func magnitude(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }
