package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
)

// TestErrorBounds compares reductions and normalizations with float64 on inputs that are hard to
// sum, against the bounds that the package states.
func TestErrorBounds(t *testing.T) {
	const u = 1.0 / (1 << 24)
	kerntest.EachLevel(t, func(t *testing.T) {
		for name, fill := range kerntest.HardInputs {
			for _, n := range []int{1, 7, 64, 1000, 4099} {
				rng := rand.New(rand.NewPCG(uint64(n), 1))
				x, w, y := make([]float32, n), make([]float32, n), make([]float32, n)
				fill(rng, x, w)
				sum, abs, dot, dotAbs, squares := 0.0, 0.0, 0.0, 0.0, 0.0
				for i, v := range x {
					p := float64(v) * float64(w[i])
					sum, abs = sum+float64(v), abs+math.Abs(float64(v))
					dot, dotAbs = dot+p, dotAbs+math.Abs(p)
					squares += float64(v) * float64(v)
				}
				size := float64(n)
				assert.InDelta(t, sum, Sum(x), size*u*abs, "Sum of %d, %s", n, name)
				assert.InDelta(t, dot, Dot(x, w), size*u*dotAbs, "Dot of %d, %s", n, name)

				variance := 0.0
				for _, v := range x {
					variance += (float64(v) - sum/size) * (float64(v) - sum/size) / size
				}
				sigma := math.Sqrt(variance + 1e-5)
				LayerNorm(nil, y, x, nil, nil, 1, n, 1e-5, nil, nil, 1)
				for i, v := range x {
					want := (float64(v) - sum/size) / sigma
					assert.InDelta(t, want, y[i], (size+4)*u*(abs/size/sigma+math.Abs(want)*size), "LayerNorm of %d, %s", n, name)
				}
				RMSNorm(nil, y, x, nil, 1, n, 1e-5, 1)
				for i, v := range x {
					want := float64(v) / math.Sqrt(squares/size+1e-5)
					assert.InDelta(t, want, y[i], (size+4)*u*math.Abs(want)+1e-44, "RMSNorm of %d, %s", n, name)
				}
				softmaxWithin(t, x, y, (size+8)*u)
				logSoftmaxWithin(t, x, y)
				reductionsWithin(t, name, x)
			}
		}
	})
}

func logSoftmaxWithin(t *testing.T, x, y []float32) {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = max(top, float64(v))
	}
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	LogSoftmax(nil, y, x, 1, len(x), 1)
	for i, v := range x {
		want := float64(v) - top - math.Log(sum)
		assert.InDelta(t, want, y[i], (float64(2*len(x)+8)+2*math.Abs(want))*0x1p-24, "LogSoftmax of %d", len(x))
	}
}

// reductionsWithin reduces x as the rows, and as the columns, of a matrix.
func reductionsWithin(t *testing.T, name string, x []float32) {
	for op := ReduceSum; op < numReduce; op++ {
		for _, cols := range []int{1, 3, 40} {
			rows := len(x) / cols
			byRow, byCol := make([]float32, rows), make([]float32, cols)
			ReduceRows(nil, op, byRow, x, rows, cols, 1)
			ReduceCols(nil, op, byCol, x[:rows*cols], 1, rows, cols, 1)
			for r, got := range byRow {
				assert.InDelta(t, reduce64(op, x[r*cols:], cols, 1), got, reduceBound(op, x[r*cols:], cols, 1), "row %d of %d, op %d, %s", r, cols, op, name)
			}
			for c, got := range byCol[:min(cols, rows*cols)] {
				assert.InDelta(t, reduce64(op, x[c:], rows, cols), got, reduceBound(op, x[c:], rows, cols), "column %d of %d, op %d, %s", c, rows, op, name)
			}
		}
	}
}

// reduceBound is the stated bound of a reduction of n elements step apart.
func reduceBound(op ReduceOp, x []float32, n, step int) float64 {
	size := float64(n)
	switch op {
	case ReduceSum, ReduceSumAbs:
		return size * 0x1p-24 * reduce64(ReduceSumAbs, x, n, step)
	case ReduceMean:
		return (size + 1) * 0x1p-24 * reduce64(ReduceSumAbs, x, n, step) / size
	case ReduceSumSquares:
		return size * 0x1p-24 * reduce64(ReduceSumSquares, x, n, step)
	}
	return 0
}

func softmaxWithin(t *testing.T, x, y []float32, relative float64) {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = max(top, float64(v))
	}
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	Softmax(nil, y, x, 1, len(x), 1)
	for i, v := range x {
		want := math.Exp(float64(v)-top) / sum
		assert.InDelta(t, want, y[i], (relative+math.Abs(float64(v)-top)*0x1p-24)*want+1.2e-38, "Softmax of %d", len(x))
	}
}

// TestNormOfHuge: rows whose squares are beyond the range of float32.
func TestNormOfHuge(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		x, y := make([]float32, 100), make([]float32, 100)
		x[3] = 1e30
		LayerNorm(nil, y, x, nil, nil, 1, 100, 1e-5, nil, nil, 1)
		assert.InDelta(t, math.Sqrt(99), y[3], 1e-4)
		assert.InDelta(t, -1/math.Sqrt(99), y[4], 1e-5)
		RMSNorm(nil, y, x, nil, 1, 100, 1e-5, 1)
		assert.InDelta(t, 10, y[3], 1e-4)
		assert.Zero(t, y[4])
	})
}
