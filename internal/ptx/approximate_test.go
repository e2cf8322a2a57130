package ptx

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestErrors: with the option, approximate results are as wrong as the PTX ISA says, in both directions, and no more.
func TestErrors(t *testing.T) {
	relative := func(e float64) func(x, y float64) float64 {
		return func(_, y float64) float64 { return e * math.Abs(y) }
	}
	absolute := func(e float64) func(x, y float64) float64 { return func(_, _ float64) float64 { return e } }
	const n = 128
	tests := []struct {
		op       string
		from, to float64
		exact    func(x float64) float64
		most     func(x, y float64) float64
	}{
		{"rcp.approx.f32 %f1, %f1;", 1, 2, func(x float64) float64 { return 1 / x }, absolute(0x1p-23)},
		{"rcp.approx.ftz.f32 %f1, %f1;", -16, -8, func(x float64) float64 { return 1 / x }, absolute(0x1p-26)},
		{"sqrt.approx.f32 %f1, %f1;", 0, 1000, math.Sqrt, relative(0x1p-23)},
		{"rsqrt.approx.f32 %f1, %f1;", 1, 4, func(x float64) float64 { return 1 / math.Sqrt(x) }, absolute(math.Exp2(-22.9))},
		{"rsqrt.approx.ftz.f32 %f1, %f1;", 0.25, 1, func(x float64) float64 { return 1 / math.Sqrt(x) }, absolute(math.Exp2(-21.9))},
		{"ex2.approx.ftz.f32 %f1, %f1;", -30, 30, math.Exp2, relative(0x1p-22)},
		{"lg2.approx.f32 %f1, %f1;", 0.5, 2, math.Log2, absolute(0x1p-22)},
		{"lg2.approx.f32 %f1, %f1;", 4, 1e9, math.Log2, relative(0x1p-22)},
		{"sin.approx.f32 %f1, %f1;", -math.Pi, math.Pi, math.Sin, absolute(math.Exp2(-20.5))},
		{"cos.approx.f32 %f1, %f1;", -math.Pi, math.Pi, math.Cos, absolute(math.Exp2(-20.5))},
		{"tanh.approx.f32 %f1, %f1;", -3, 3, math.Tanh, relative(0x1p-11)},
		{"div.approx.f32 %f1, 0f40400000, %f1;", 1, 100, func(x float64) float64 { return 3 / x }, relative(0x1p-22)},
		{"div.full.f32 %f1, %f1, 0f40400000;", 1, 100, func(x float64) float64 { return x / 3 }, relative(0x1p-22)},
	}
	for _, test := range tests {
		t.Run(test.op, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(test.from + rng.Float64()*(test.to-test.from))
			}
			run := func(errors uint64) []float32 {
				m, err := Parse(small(test.op))
				require.NoError(t, err)
				p, err := CompileWith(m, Options{Errors: errors})
				require.NoError(t, err)
				b := &bench{t, p, NewMemory()}
				y := out[float32](b, n)
				b.must("k", line(1), line(n), in(b, x), y)
				return values[float32](b, y)
			}
			got := run(1)
			assert.Equal(t, got, run(1))
			assert.NotEqual(t, got, run(2))
			up, down, largest := 0, 0, 0.0
			for i, v := range got {
				y := test.exact(float64(x[i]))
				e, most := float64(v)-y, test.most(float64(x[i]), y)
				require.LessOrEqual(t, math.Abs(e), most, "of %v", x[i])
				if largest = max(largest, math.Abs(e)/most); e > 0 {
					up++
				} else {
					down++
				}
			}
			assert.Greater(t, largest, 0.5)
			assert.Greater(t, min(up, down), n/4)
		})
	}
	t.Run("special operands", func(t *testing.T) {
		list := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.NaN())}
		for op, want := range map[string][]float64{
			"rcp": {math.Inf(1), math.Inf(-1), 0, math.NaN()}, "ex2": {1, 1, math.Inf(1), math.NaN()}, "sqrt": {0, math.Copysign(0, -1), math.Inf(1), math.NaN()},
			"lg2": {math.Inf(-1), math.Inf(-1), math.Inf(1), math.NaN()}, "tanh": {0, math.Copysign(0, -1), 1, math.NaN()}, "cos": {1, 1, math.NaN(), math.NaN()},
		} {
			m, err := Parse(small(op + ".approx.f32 %f1, %f1;"))
			require.NoError(t, err)
			p, err := CompileWith(m, Options{Errors: 1})
			require.NoError(t, err)
			b := &bench{t, p, NewMemory()}
			y := out[float32](b, 4)
			b.must("k", line(1), line(4), in(b, list), y)
			for i, v := range values[float32](b, y) {
				if !math.IsNaN(want[i]) || v == v {
					assert.Equal(t, math.Float32bits(float32(want[i])), math.Float32bits(v), "%s of %v is %v", op, list[i], v)
				}
			}
		}
	})
}
