package signal_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	_ "github.com/berth-onnx/berth/ops/all"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// hardSignals are hard to sum: a large mean, magnitudes of many orders, a line that cancels all others.
var hardSignals = map[string]func(rng *rand.Rand, i int) float64{
	"noise":        func(rng *rand.Rand, _ int) float64 { return rng.NormFloat64() },
	"a large mean": func(rng *rand.Rand, _ int) float64 { return 1e6 + rng.NormFloat64() },
	"many orders": func(rng *rand.Rand, _ int) float64 {
		return math.Copysign(math.Pow(10, 40*rng.Float64()-20), rng.Float64()-0.5)
	},
	"a sign each time": func(_ *rand.Rand, i int) float64 { return 1e8 * float64(1-2*(i%2)) },
}

// TestDFTBounds holds transforms and frames against sums of products in float64, within the bound that DFT states, for lengths of small factors and primes.
func TestDFTBounds(t *testing.T) {
	for _, n := range []int{1, 2, 3, 60, 211, 256, 2 * 211} {
		for name, signal := range hardSignals {
			for _, dt := range []ndarray.DType{ndarray.Float32, ndarray.Float64} {
				t.Run(fmt.Sprint(n, " ", name, " ", dt), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(uint64(n), 1))
					x := ndarray.Must(dt, 1, n, 1)
					for i := range n {
						x.SetFloat(i, signal(rng, i))
					}
					within(t, evaluated(t, fmt.Sprintf(`in %%x: %s[1,%d,1] %%y = DFT(%%x) out %%y`, dt, n), x), x, n)
					within(t, evaluated(t, fmt.Sprintf(`in %%x: %s[1,%d,1] const %%s: int64[] = 1 const %%l: int64[] = %d %%y = STFT(%%x, %%s, _, %%l) [onesided=0] out %%y`, dt, n, n), x), x, n)
				})
			}
		}
	}
}

func evaluated(t *testing.T, graph string, x *ndarray.Array) *ndarray.Array {
	t.Helper()
	g, err := ssa.ParseGraph(`graph "g" { ` + graph + ` }`)
	require.NoError(t, err)
	out, err := ops.Interpret(t.Context(), g, []ndarray.Value{x}, nil)
	require.NoError(t, err)
	return out[0].(*ndarray.Array)
}

func largestFactor(n int) int {
	most := 1
	for f := 2; n > 1; f++ {
		for n%f == 0 {
			most, n = f, n/f
		}
	}
	return most
}

// within compares a transform with the definition, whose sums are compensated.
func within(t *testing.T, y, x *ndarray.Array, n int) {
	t.Helper()
	unit, sum := 0x1p-53, 0.0
	if y.DType == ndarray.Float32 {
		unit = 0x1p-24
	}
	turns := make([][2]float64, n)
	for i := range n {
		sum += math.Abs(x.Float(i))
		s, c := math.Sincos(-2 * math.Pi * float64(i) / float64(n))
		turns[i] = [2]float64{c, s}
	}
	rounds := 8 * (math.Log2(float64(n)) + float64(largestFactor(n))) * 0x1p-53 * sum
	for k := range n {
		for part := range 2 {
			var total, lost float64
			for i := range n {
				v := x.Float(i)*turns[i*k%n][part] - lost
				next := total + v
				total, lost = next, next-total-v
			}
			if got := y.Float(2*k + part); !(math.Abs(got-total) <= unit*math.Abs(total)+rounds+0x1p-149) {
				require.Fail(t, "beyond the bound", "value %d of %d, part %d: %g, not %g, which is off by %g roundings", k, n, part, got, total, math.Abs(got-total)/(0x1p-53*sum))
			}
		}
	}
}
