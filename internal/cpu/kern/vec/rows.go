package vec

import (
	"cmp"
	"math"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Reductions, and functions that work row by row.

// Sum returns Σx. Sum and Dot add in float32, in 32 to 64
// interleaved partial sums whose order depends on the length only.
func Sum(x []float32) float32 { return simd.Active().Sum(machine.F32p(x, 0), len(x)) }

// Extreme is the largest or smallest number of a row, and the position of the first or of the last that equals it; NaN
// where the row has one.
func Extreme[T cmp.Ordered](x []T, largest, last bool) (v T, at int) {
	v = x[0]
	for i, u := range x {
		if IsBetter(u, v, largest, last) {
			v, at = u, i
		}
	}
	return v, at
}

// IsBetter reports that v takes the place of best, which came before it, as the extreme of a row.
func IsBetter[T cmp.Ordered](v, best T, largest, last bool) bool {
	switch {
	case v != v:
		return best == best || last
	case best != best:
		return false
	case v == best:
		return last
	}
	return (v > best) == largest
}

// ExtremeF32 is Extreme by vectors: the number, then its place.
func ExtremeF32(x []float32, largest, last bool) (v float32, at int) {
	f := simd.Active().Min
	if largest {
		f = simd.Active().Max
	}
	v = f(machine.F32p(x, 0), len(x))
	for i, u := range x {
		if u == v || u != u && v != v {
			if at = i; !last {
				break
			}
		}
	}
	return v, at
}

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

// WideDots is DotRows with sums in float64, each rounded once.
func WideDots(dst, x, rows []float32, n, ld, step int) {
	if n <= 0 {
		return
	}
	_, _ = dst[(n-1)*step], rows[(n-1)*ld+len(x):]
	simd.Active().WideDots(machine.F32p(dst, 0), machine.F32p(x, 0), machine.F32p(rows, 0), n, len(x), 4*ld, 4*step)
}

// rowOp names a function of rowJob.
type rowOp uint8

const (
	rowSoftmax rowOp = iota
	rowLogSoftmax
	rowLayerNorm
	rowRMSNorm
	rowBatchNorm
	rowBatchNormPixels // channels are neighbours
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
	done         <-chan struct{} // closed: the rest is left out
}

var rowJobs machine.FreeList[rowJob]

// rowChunk is the number of elements of a task. A row of more than longRow elements is gone through in pieces of so many,
// with a look at what ends the run before each.
const (
	rowChunk = 1 << 13
	longRow  = 1 << 22
)

// pieces calls f for the pieces of n elements until the run is to end.
func pieces(done <-chan struct{}, n, most int, f func(lo, hi int)) {
	for lo := 0; lo < n && !machine.Closed(done); lo += most {
		f(lo, min(lo+most, n))
	}
}

// total is a sum over a row, that of its pieces.
func total(done <-chan struct{}, x []float32, sum func(x *float32, n int) float32) (s float64) {
	pieces(done, len(x), longRow, func(lo, hi int) { s += float64(sum(machine.F32p(x, lo), hi-lo)) })
	return s
}

// extreme is the largest of the maxima of pieces.
func extreme(done <-chan struct{}, x []float32, largest func(x *float32, n int) float32) float32 {
	top := float32(math.Inf(-1))
	pieces(done, len(x), longRow, func(lo, hi int) { top = max(top, largest(machine.F32p(x, lo), hi-lo)) })
	return top
}

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
	if machine.Closed(j.done) {
		return
	}
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
	case rowSoftmax:
		j.softmaxRow(dst, src)
	case rowLogSoftmax:
		j.logSoftmaxRow(dst, src)
	case rowLayerNorm:
		j.layerNormRow(dst, src, r)
	case rowRMSNorm:
		j.rmsNormRow(dst, src)
	case rowBatchNorm:
		c := r % j.channels
		pieces(j.done, j.cols, longRow, func(lo, hi int) {
			j.t.MulAdd(machine.F32p(dst, lo), machine.F32p(src, lo), hi-lo, j.scale[c], j.shift[c])
		})
	case rowBatchNormPixels:
		MulAdd(dst, src, j.scale, j.shift)
	}
}

// together does rows from r0 on by one kernel, and returns the first row that it leaves: one
// whose squares are beyond the range of float32, or r0 where the rows are long or the kernel does not do
// all that is asked for.
func (j *rowJob) together(r0, r1 int) int {
	kernel, a := simd.SoftmaxRows, simd.RowArgs{}
	switch {
	case j.cols > longRow:
		return r0
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

// newRowJob makes a job with what all have in common. When done, which may be nil, is closed, the
// rest is left out.
func newRowJob(done <-chan struct{}, op rowOp, dst, src []float32, rows, cols int) *rowJob {
	j := rowJobs.Get()
	j.done, j.t, j.op, j.dst, j.src, j.rows, j.cols = done, simd.Active(), op, dst, src, rows, cols
	return j
}

// Softmax is e^(x−max)/Σe^(x−max) for each of rows rows; in place allowed.
func Softmax(done <-chan struct{}, dst, src []float32, rows, cols, threads int) {
	newRowJob(done, rowSoftmax, dst, src, rows, cols).start(threads)
}

// LogSoftmax is x − max − ln Σe^(x−max) for each row; in place allowed.
func LogSoftmax(done <-chan struct{}, dst, src []float32, rows, cols, threads int) {
	newRowJob(done, rowLogSoftmax, dst, src, rows, cols).start(threads)
}

// LayerNorm is (x−mean)/√(variance+eps)·gamma + beta for each row. gamma and
// beta have cols elements or are nil. mean and invStd, if not nil, receive one
// value for each row. In place allowed.
func LayerNorm(done <-chan struct{}, dst, src, gamma, beta []float32, rows, cols int, eps float32, mean, invStd []float32, threads int) {
	j := newRowJob(done, rowLayerNorm, dst, src, rows, cols)
	j.gamma, j.beta, j.eps, j.mean, j.inv = gamma, beta, float64(eps), mean, invStd
	j.start(threads)
}

// RMSNorm is x/√(mean of squares + eps)·gamma for each row. gamma has cols
// elements or is nil. In place allowed.
func RMSNorm(done <-chan struct{}, dst, src, gamma []float32, rows, cols int, eps float32, threads int) {
	j := newRowJob(done, rowRMSNorm, dst, src, rows, cols)
	j.gamma, j.eps = gamma, float64(eps)
	j.start(threads)
}

// BatchNorm is x·scale[c] + shift[c] over n × channels × spatial; in place
// allowed.
func BatchNorm(done <-chan struct{}, dst, src, scale, shift []float32, n, channels, spatial, threads int) {
	op, rows, cols := rowBatchNorm, n*channels, spatial
	if spatial == 1 && channels < longRow {
		op, rows, cols = rowBatchNormPixels, n, channels
	}
	j := newRowJob(done, op, dst, src, rows, cols)
	j.channels, j.scale, j.shift = channels, scale[:channels], shift[:channels]
	j.start(threads)
}

// softmaxRow does a long row; the others are done together.
func (j *rowJob) softmaxRow(dst, src []float32) {
	t, sum := j.t, 0.0
	top := extreme(j.done, src, t.Max)
	pieces(j.done, len(src), parChunk, func(lo, hi int) { // they stay in the cache
		d := dst[lo:hi]
		t.BinaryScalarRow(simd.Sub, d, src[lo:hi], top)
		t.UnaryRow(simd.Exp, d, d, 0, 0)
		sum += float64(t.Sum(machine.F32p(d, 0), len(d)))
	})
	pieces(j.done, len(src), longRow, func(lo, hi int) {
		t.BinaryScalarRow(simd.Div, dst[lo:hi], dst[lo:hi], float32(sum))
	})
}

func (j *rowJob) logSoftmaxRow(dst, src []float32) {
	t := j.t
	top := extreme(j.done, src, t.Max)
	log := float32(math.Log(total(j.done, src, func(x *float32, n int) float32 { return t.ExpSumOnly(x, n, top) })))
	pieces(j.done, len(src), longRow, func(lo, hi int) {
		t.SubSub(machine.F32p(dst, lo), machine.F32p(src, lo), hi-lo, top, log)
	})
}

// moments are mean and variance of a row, summed in float64.
func (j *rowJob) moments(x []float32) (mean float32, variance float64) {
	sum, squares := 0.0, 0.0
	pieces(j.done, len(x), longRow, func(lo, hi int) {
		for _, v := range x[lo:hi] {
			sum += float64(v)
		}
	})
	m := sum / float64(len(x))
	pieces(j.done, len(x), longRow, func(lo, hi int) {
		for _, v := range x[lo:hi] {
			squares += (float64(v) - m) * (float64(v) - m)
		}
	})
	return float32(m), squares / float64(len(x))
}

// layerNormRow takes the mean first and the variance from the distances to it,
// which does not cancel as the mean of squares would.
func (j *rowJob) layerNormRow(dst, src []float32, r int) {
	t, n := j.t, len(src)
	mean := float32(total(j.done, src, t.Sum) / float64(n))
	variance := total(j.done, src, func(x *float32, n int) float32 { return t.SumSqDiff(x, n, mean) }) / float64(n)
	if variance-variance != 0 { // squares or the sum are beyond the range of float32
		mean, variance = j.moments(src)
	}
	inv := float32(1 / math.Sqrt(variance+j.eps))
	if j.mean != nil {
		j.mean[r] = mean
	}
	if j.inv != nil {
		j.inv[r] = inv
	}
	pieces(j.done, n, longRow, func(lo, hi int) {
		d := dst[lo:hi]
		t.SubMul(machine.F32p(d, 0), machine.F32p(src, lo), len(d), mean, inv)
		if j.gamma != nil {
			t.BinaryRow(simd.Mul, d, d, j.gamma[lo:hi])
		}
		if j.beta != nil {
			t.BinaryRow(simd.Add, d, d, j.beta[lo:hi])
		}
	})
}

func (j *rowJob) rmsNormRow(dst, src []float32) {
	t, n := j.t, len(src)
	squares := total(j.done, src, t.SumSq)
	if squares-squares != 0 { // beyond the range of float32
		squares = 0
		pieces(j.done, n, longRow, func(lo, hi int) {
			for _, v := range src[lo:hi] {
				squares += float64(v) * float64(v)
			}
		})
	}
	inv := float32(1 / math.Sqrt(squares/float64(n)+j.eps))
	pieces(j.done, n, longRow, func(lo, hi int) {
		d := dst[lo:hi]
		t.BinaryScalarRow(simd.Mul, d, src[lo:hi], inv)
		if j.gamma != nil {
			t.BinaryRow(simd.Mul, d, d, j.gamma[lo:hi])
		}
	})
}
