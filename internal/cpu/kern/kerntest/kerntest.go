// Package kerntest has what the tests of the packages beside it share: inputs,
// guarded results, a run at every level, timing.
package kerntest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// BestOf runs f as a benchmark and returns the seconds of its fastest call:
// what the kernel can do, whatever else the machine is doing meanwhile.
func BestOf(b *testing.B, f func()) float64 {
	f() // warm caches, make free lists
	start := time.Now()
	f()
	once := time.Since(start)
	calls := max(1, int(20*time.Microsecond/max(once, 1))) // a clock reading costs some 50 ns
	best := time.Hour
	for b.Loop() {
		start := time.Now()
		for range calls {
			f()
		}
		best = min(best, time.Since(start)/time.Duration(calls))
	}
	return best.Seconds()
}

// ReportFLOPs prints arithmetic speed and its share of the level's peak.
func ReportFLOPs(b *testing.B, flops int, sec, peak float64) {
	b.ReportMetric(float64(flops)/sec/1e9, "GFLOP/s")
	b.ReportMetric(100*float64(flops)/sec/peak, "%peak")
}

// AtLevel runs a benchmark at a level and goes back to the level before.
func AtLevel(b *testing.B, l machine.Level, f func(b *testing.B)) {
	was := machine.Active()
	defer func() { _ = machine.Use(was) }()
	if err := machine.Use(l); err != nil {
		b.Skip(err)
	}
	f(b)
}

// Same reports equality with NaN equal to NaN.
func Same(a, b float32) bool { return a == b || (a != a && b != b) }

// EachLevel runs a test at every level of the machine.
func EachLevel(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	was := machine.Active()
	defer func() { require.NoError(t, machine.Use(was)) }()
	for _, l := range machine.Levels() {
		require.NoError(t, machine.Use(l))
		t.Run(l.String(), f)
	}
}

// Noise returns n numbers in [−1, 1); start shifts the slice off alignment.
func Noise(rng *rand.Rand, n, start int) []float32 {
	x := make([]float32, n+start)[start:]
	for i := range x {
		x[i] = rng.Float32()*2 - 1
	}
	return x
}

// Guarded returns n elements followed by a guard area that must not change.
func Guarded(n int) (x []float32, check func(t *testing.T)) {
	const guard = 64
	full := make([]float32, n+2*guard)
	for i := range full {
		full[i] = 12345
	}
	return full[guard : guard+n : guard+n], func(t *testing.T) {
		t.Helper()
		for i := range guard {
			require.EqualValues(t, 12345, full[i], "wrote before the slice")
			require.EqualValues(t, 12345, full[guard+n+i], "wrote after the slice")
		}
	}
}

// RandomBytes returns bytes over the whole range, extremes included.
func RandomBytes(rng *rand.Rand, n int) []byte {
	x := make([]byte, n+1)[1:] // off alignment
	for i := range x {
		x[i] = byte(rng.Uint32())
		if rng.IntN(8) == 0 {
			x[i] = []byte{0, 0x7f, 0x80, 0xff}[rng.IntN(4)]
		}
	}
	return x
}

// AsInt returns the value of a byte, signed or unsigned.
func AsInt(b byte, signed bool) int32 {
	if signed {
		return int32(int8(b))
	}
	return int32(b)
}

// IntZeros makes the zero points of a form: none, one, or one each.
func IntZeros(rng *rand.Rand, form, n int, signed bool) []int32 {
	z := make([]int32, []int{0, 1, n}[form])
	for i := range z {
		z[i] = AsInt(byte(rng.Uint32()), signed)
	}
	return z
}

// HardInputs fill two operands of sums with values that are hard to add up.
var HardInputs = map[string]func(rng *rand.Rand, x, w []float32){
	"large mean": func(rng *rand.Rand, x, w []float32) {
		fillWith(x, func(int) float64 { return 1e4 + rng.NormFloat64() })
		fillWith(w, func(int) float64 { return rng.NormFloat64() })
	},
	"cancelling": func(rng *rand.Rand, x, w []float32) {
		fillWith(x, func(int) float64 { return 100 + 1e-3*rng.NormFloat64() })
		fillWith(w, func(i int) float64 { return float64(1-i%2*2) + 1e-5*rng.NormFloat64() })
	},
	"mixed magnitudes": func(rng *rand.Rand, x, w []float32) {
		fillWith(x, func(int) float64 { return rng.NormFloat64() * math.Exp(16*rng.Float64()-10) })
		fillWith(w, func(int) float64 { return rng.NormFloat64() * math.Exp(16*rng.Float64()-10) })
	},
}

func fillWith(x []float32, f func(i int) float64) {
	for i := range x {
		x[i] = float32(f(i))
	}
}

// Abs returns the magnitudes of x.
func Abs(x []float32) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(math.Abs(float64(v)))
	}
	return out
}
