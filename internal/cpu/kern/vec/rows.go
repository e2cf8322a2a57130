package vec

import (
	"math"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Reductions, and functions that work row by row.

// Sum returns Σx. Sum and Dot add in float32, in 32 to 64
// interleaved partial sums whose order depends on the length only.
func Sum(x []float32) float32 { return simd.Active().Sum(machine.F32p(x, 0), len(x)) }

// MaxOf returns the largest element, NaN if there is one, −∞ for none.
func MaxOf(x []float32) float32 { return simd.Active().Max(machine.F32p(x, 0), len(x)) }

// MinOf returns the smallest element, NaN if there is one, +∞ for none.
func MinOf(x []float32) float32 { return simd.Active().Min(machine.F32p(x, 0), len(x)) }

// Dot returns Σa·b over the elements of a.
func Dot(a, b []float32) float32 {
	b = b[:len(a)]
	return simd.Active().Dot(machine.F32p(a, 0), machine.F32p(b, 0), len(a))
}

// DotRows computes dst[i·step] = Σ x·rows[i·ld : i·ld+len(x)] for n rows, in one sum
// per lane of a vector: a result depends on its row only, not on n or i.
func DotRows(dst, x, rows []float32, n, ld, step int) {
	if n <= 0 {
		return
	}
	_, _ = dst[(n-1)*step], rows[(n-1)*ld+len(x):]
	simd.Active().DotRows(machine.F32p(dst, 0), machine.F32p(x, 0), machine.F32p(rows, 0), n, len(x), 4*ld, 4*step)
}

// rowOp names a function of rowJob.
type rowOp uint8

const (
	rowSoftmax rowOp = iota
	rowLogSoftmax
	rowLayerNorm
	rowRMSNorm
	rowBatchNorm
)

// rowJob applies a function to every row; it is a Task for chunks of rows.
type rowJob struct {
	t            *simd.Table
	op           rowOp
	dst, src     []float32
	gamma, beta  []float32
	mean, inv    []float32 // optional results, nil where not wanted
	rows, cols   int
	per          int // rows of a chunk
	eps          float64
	channels     int
	scale, shift []float32
}

var rowJobs machine.FreeList[rowJob]

// rowChunk is the number of elements of a task.
const rowChunk = 1 << 13

// start runs the job on at most threads threads and recycles it.
func (j *rowJob) start(threads int) {
	defer rowJobs.Release(j)
	if j.rows == 0 || j.cols == 0 {
		return
	}
	n := j.rows * j.cols
	j.dst, j.src = j.dst[:n], j.src[:n]
	j.per = max(1, rowChunk/j.cols)
	machine.Parallel(machine.CeilDiv(j.rows, j.per), threads, j)
}

// Run does chunk i.
func (j *rowJob) Run(i, _ int) {
	end := min((i+1)*j.per, j.rows)
	for r := i * j.per; r < end; r++ {
		if r = j.together(r, end); r < end {
			j.row(r)
		}
	}
}

// row does one row.
func (j *rowJob) row(r int) {
	dst, src := j.dst[r*j.cols:][:j.cols], j.src[r*j.cols:][:j.cols]
	switch j.op {
	case rowLogSoftmax:
		logSoftmaxRow(j.t, dst, src)
	case rowLayerNorm:
		j.layerNormRow(dst, src, r)
	case rowRMSNorm:
		j.rmsNormRow(dst, src)
	case rowBatchNorm:
		c := r % j.channels
		j.t.MulAdd(machine.F32p(dst, 0), machine.F32p(src, 0), j.cols, j.scale[c], j.shift[c])
	}
}

// together does rows from r0 on by one kernel, and returns the first row that it leaves: one
// whose squares are beyond the range of float32, or r0 where the kernel does not do all that
// is asked for.
func (j *rowJob) together(r0, r1 int) int {
	kernel, a := simd.SoftmaxRows, simd.RowArgs{}
	switch {
	case j.op == rowSoftmax:
	case j.op == rowLayerNorm && j.gamma != nil && j.beta != nil && j.mean == nil && j.inv == nil:
		kernel, a.Gamma, a.Beta = simd.LayerNormRows, machine.Ptr(j.gamma[:j.cols], 0), machine.Ptr(j.beta[:j.cols], 0)
	case j.op == rowRMSNorm && j.gamma != nil:
		kernel, a.Gamma = simd.RMSNormRows, machine.Ptr(j.gamma[:j.cols], 0)
	default:
		return r0
	}
	a.Dst, a.Src = machine.Ptr(j.dst, r0*j.cols), machine.Ptr(j.src, r0*j.cols)
	a.Rows, a.Cols, a.Size, a.Eps = r1-r0, j.cols, float64(j.cols), j.eps
	j.t.Rows(kernel, &a)
	return r1 - a.Rows
}

// newRowJob makes a job with what all have in common.
func newRowJob(op rowOp, dst, src []float32, rows, cols int) *rowJob {
	j := rowJobs.Get()
	j.t, j.op, j.dst, j.src, j.rows, j.cols = simd.Active(), op, dst, src, rows, cols
	return j
}

// Softmax is e^(x−max)/Σe^(x−max) for each of rows rows; in place allowed.
func Softmax(dst, src []float32, rows, cols, threads int) {
	newRowJob(rowSoftmax, dst, src, rows, cols).start(threads)
}

// LogSoftmax is x − max − ln Σe^(x−max) for each row; in place allowed.
func LogSoftmax(dst, src []float32, rows, cols, threads int) {
	newRowJob(rowLogSoftmax, dst, src, rows, cols).start(threads)
}

// LayerNorm is (x−mean)/√(variance+eps)·gamma + beta for each row. gamma and
// beta have cols elements or are nil. mean and invStd, if not nil, receive one
// value for each row. In place allowed.
func LayerNorm(dst, src, gamma, beta []float32, rows, cols int, eps float32, mean, invStd []float32, threads int) {
	j := newRowJob(rowLayerNorm, dst, src, rows, cols)
	j.gamma, j.beta, j.eps, j.mean, j.inv = gamma, beta, float64(eps), mean, invStd
	j.start(threads)
}

// RMSNorm is x/√(mean of squares + eps)·gamma for each row. gamma has cols
// elements or is nil. In place allowed.
func RMSNorm(dst, src, gamma []float32, rows, cols int, eps float32, threads int) {
	j := newRowJob(rowRMSNorm, dst, src, rows, cols)
	j.gamma, j.eps = gamma, float64(eps)
	j.start(threads)
}

// BatchNorm is x·scale[c] + shift[c] over n × channels × spatial; in place
// allowed.
func BatchNorm(dst, src, scale, shift []float32, n, channels, spatial, threads int) {
	j := newRowJob(rowBatchNorm, dst, src, n*channels, spatial)
	j.channels, j.scale, j.shift = channels, scale[:channels], shift[:channels]
	j.start(threads)
}

func logSoftmaxRow(t *simd.Table, dst, src []float32) {
	n := len(src)
	top := t.Max(machine.F32p(src, 0), n)
	sum := t.ExpSumOnly(machine.F32p(src, 0), n, top)
	t.SubSub(machine.F32p(dst, 0), machine.F32p(src, 0), n, top, float32(math.Log(float64(sum))))
}

// moments are mean and variance of a row, summed in float64.
func moments(x []float32) (mean float32, variance float64) {
	sum, squares := 0.0, 0.0
	for _, v := range x {
		sum += float64(v)
	}
	m := sum / float64(len(x))
	for _, v := range x {
		squares += (float64(v) - m) * (float64(v) - m)
	}
	return float32(m), squares / float64(len(x))
}

// layerNormRow takes the mean first and the variance from the distances to it,
// which does not cancel as the mean of squares would.
func (j *rowJob) layerNormRow(dst, src []float32, r int) {
	t, n := j.t, len(src)
	mean := float32(float64(t.Sum(machine.F32p(src, 0), n)) / float64(n))
	variance := float64(t.SumSqDiff(machine.F32p(src, 0), n, mean)) / float64(n)
	if variance-variance != 0 { // squares or the sum are beyond the range of float32
		mean, variance = moments(src)
	}
	inv := float32(1 / math.Sqrt(variance+j.eps))
	if j.mean != nil {
		j.mean[r] = mean
	}
	if j.inv != nil {
		j.inv[r] = inv
	}
	t.SubMul(machine.F32p(dst, 0), machine.F32p(src, 0), n, mean, inv)
	if j.gamma != nil {
		t.BinaryRow(simd.Mul, dst, dst, j.gamma[:n])
	}
	if j.beta != nil {
		t.BinaryRow(simd.Add, dst, dst, j.beta[:n])
	}
}

func (j *rowJob) rmsNormRow(dst, src []float32) {
	t, n := j.t, len(src)
	squares := float64(t.SumSq(machine.F32p(src, 0), n))
	if squares-squares != 0 { // beyond the range of float32
		squares = 0
		for _, v := range src {
			squares += float64(v) * float64(v)
		}
	}
	inv := float32(1 / math.Sqrt(squares/float64(n)+j.eps))
	t.BinaryScalarRow(simd.Mul, dst, src, inv)
	if j.gamma != nil {
		t.BinaryRow(simd.Mul, dst, dst, j.gamma[:n])
	}
}
