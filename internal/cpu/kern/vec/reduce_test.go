package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
)

func TestReduce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	kerntest.EachLevel(t, func(t *testing.T) {
		for op := ReduceSum; op < numReduce; op++ {
			for _, sh := range [][3]int{{1, 1, 1}, {2, 5, 67}, {3, 100, 3}, {1, 700, 130}, {2, 4, 3000}} {
				n, rows, cols := sh[0], sh[1], sh[2]
				x := kerntest.Noise(rng, n*rows*cols, 1)
				byRow, check1 := kerntest.Guarded(n * rows)
				byCol, check2 := kerntest.Guarded(n * cols)
				ReduceRows(nil, op, byRow, x, n*rows, cols, 2)
				ReduceCols(nil, op, byCol, x, n, rows, cols, 2)
				check1(t)
				check2(t)
				for r := range byRow {
					require.InDelta(t, reduce64(op, x[r*cols:], cols, 1), byRow[r], 1e-3, "op %d row %d", op, r)
				}
				for i := range byCol {
					require.InDelta(t, reduce64(op, x[i/cols*rows*cols+i%cols:], rows, cols), byCol[i], 1e-3, "op %d column %d", op, i)
				}
			}
		}
	})
}

// reduce64 reduces n elements step apart in float64.
func reduce64(op ReduceOp, x []float32, n, step int) float64 {
	sum, sq, ab, hi, lo := 0.0, 0.0, 0.0, math.Inf(-1), math.Inf(1)
	for i := range n {
		v := float64(x[i*step])
		sum, sq, ab, hi, lo = sum+v, sq+v*v, ab+math.Abs(v), math.Max(hi, v), math.Min(lo, v)
	}
	return []float64{sum, sum / float64(n), hi, lo, sq, ab}[op]
}
