package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
)

func TestQuantize(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	kerntest.EachLevel(t, func(t *testing.T) {
		for _, signed := range []bool{false, true} {
			for n := 0; n <= 135; n++ {
				const scale, zero = 0.25, 3
				x, sum := make([]float32, n), make([]int32, n)
				for i := range x {
					x[i] = float32(rng.IntN(1200)-600) / 8 // many halves
					sum[i] = int32(rng.IntN(1000) - 500)
				}
				specials := []float32{1e30, -1e30, 0.125, 0.375, -0.125}
				copy(x, specials)
				copy(sum, []int32{math.MaxInt32, math.MinInt32, 1 << 20, -1 << 20, 508, -262})
				lo, hi := quantRange(signed, 0)
				want := func(v float64) int32 {
					r := math.RoundToEven(v) + zero
					return int32(math.Max(float64(lo), math.Min(float64(hi), r)))
				}
				q, r := make([]byte, n+1), make([]byte, n+1)
				q[n], r[n] = 77, 77
				Quantize(q[:n], x, signed, scale, zero)
				Requantize(r[:n], sum, signed, 0.5, zero)
				rows := make([]byte, 3*n+5)
				RequantizeRows(rows, n+1, Sums{X: append(sum, sum...), Rows: min(n, 2), N: n, LD: n, Factors: []float32{0.5, 0.5}}, signed, zero)
				if n > 1 {
					require.Equal(t, r[:n], rows[:n])
					require.Equal(t, r[:n], rows[n+1:][:n])
					require.Zero(t, rows[n], "between rows")
				}
				back := make([]float32, n)
				Dequantize(back, q[:n], signed, scale, zero)
				for i := range x {
					require.Equal(t, want(float64(x[i])/scale), kerntest.AsInt(q[i], signed), "quantize %g", x[i])
					require.Equal(t, want(float64(sum[i])*0.5), kerntest.AsInt(r[i], signed), "requantize %d", sum[i])
					require.Equal(t, float32(kerntest.AsInt(q[i], signed)-zero)*scale, back[i])
				}
				require.EqualValues(t, 77, q[n])
				require.EqualValues(t, 77, r[n])
				IntToFloat(back, sum, 0.5)
				for i := range sum {
					require.Equal(t, float32(sum[i])*0.5, back[i])
				}
			}
		}
	})
}

func TestMaxBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	kerntest.EachLevel(t, func(t *testing.T) {
		for _, signed := range []bool{false, true} {
			for n := 0; n <= 200; n++ {
				a, b := kerntest.RandomBytes(rng, n+1), kerntest.RandomBytes(rng, n)
				want := append([]byte{}, a...)
				for i := range b {
					if kerntest.AsInt(b[i], signed) > kerntest.AsInt(a[i], signed) {
						want[i] = b[i]
					}
				}
				MaxBytes(a[:n], a[:n], b, signed)
				require.Equal(t, want, a)
			}
			row := kerntest.RandomBytes(rng, 192+5)
			want := append([]byte{}, row...)
			for i := range 192 {
				if kerntest.AsInt(row[i+5], signed) > kerntest.AsInt(row[i], signed) {
					want[i] = row[i+5]
				}
			}
			MaxBytes(row[:192], row, row[5:], signed)
			require.Equal(t, want, row, "what follows in a")
		}
	})
}
