package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// specials are the numbers at which elementwise kernels tend to go wrong.
var specials = func() []float32 {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	x := []float32{
		0, float32(math.Copysign(0, -1)), 1, -1, inf, -inf, nan,
		math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 1e-40, -1e-40, 1.1754944e-38, -1.1754944e-38,
		math.MaxFloat32, -math.MaxFloat32, 88.72283, 88.72284, 89, -87.3, -88, -103.9, -104.1, -150, 150,
		0.5, -0.5, 1.5, 2.5, -2.5, 0.9999999, 1.0000001, 3, -3, 6, -6, 9, -9, 14, -14, 20, -20, 1e10, -1e10, 1e-8, -1e-8,
		0.70710677, 0.7071068, 1.4142135, 4, -4, 0.625, 8388609, -8388609.5, 2147483648, -2147483904,
	}
	return x
}()

// params gives every unary operation sensible parameters.
func params(op simd.UnaryOp) (p0, p1 float32) {
	switch op {
	case simd.Clip:
		return -0.75, 1.25
	case simd.LeakyRelu:
		return 0.1, 0
	case simd.HardSigmoid:
		return 0.2, 0.5
	case simd.Silu, simd.Elu:
		return 1, 0
	}
	return 0, 0
}

// exact operations give the same bits at every level.
var exactUnary = map[simd.UnaryOp]bool{
	simd.Identity: true, simd.Neg: true, simd.Abs: true, simd.Sqrt: true, simd.Recip: true, simd.Square: true, simd.Floor: true, simd.Ceil: true,
	simd.Round: true, simd.Relu: true, simd.Clip: true, simd.LeakyRelu: true,
}

// domain is where an operation's error in units of the last place is measured:
// results stay normal numbers, and inputs are those models see.
func domain(op simd.UnaryOp) (lo, hi float64) {
	switch op {
	case simd.Exp:
		return -87.3, 88.7
	case simd.Log:
		return 1e-37, 1e37
	case simd.Sigmoid, simd.Softplus:
		return -87, 88
	case simd.Gelu:
		return -5, 50 // below, see TestGeluTail
	case simd.GeluTanh:
		return -4, 50 // below, the error grows with the exponent 2u
	case simd.Silu, simd.Mish:
		return -80, 80
	}
	return -20, 20
}

// maxULP is what the package promises; the test fails beyond it.
var maxULP = map[simd.UnaryOp]float64{
	simd.HardSigmoid: 2, simd.HardSwish: 3, simd.Exp: 1.5, simd.Log: 1.5, simd.Tanh: 2.5, simd.Sigmoid: 3, simd.Erf: 2, simd.Gelu: 8,
	simd.GeluTanh: 20, simd.Silu: 4, simd.Softplus: 2.5, simd.Softsign: 1.5, simd.Elu: 2.5, simd.Mish: 5,
}

// ulpError is the error of got in units of the last place of the true value.
func ulpError(got float32, want float64) float64 {
	if math.IsNaN(want) || math.IsInf(want, 0) {
		return 0
	}
	f := float32(math.Abs(want))
	unit := float64(math.Nextafter32(f, float32(math.Inf(1)))) - float64(f)
	return math.Abs(float64(got)-want) / unit
}

// unary1 is the reference value in float64.
func unary1(op simd.UnaryOp, x, p0, p1 float32) float64 {
	if f := simd.Unary64[op]; f != nil {
		return f(float64(x), float64(p0))
	}
	y := []float32{x}
	if op == simd.Softsign {
		return float64(x) / (1 + math.Abs(float64(x)))
	}
	if op == simd.HardSigmoid {
		return math.Min(math.Max(float64(p0)*float64(x)+float64(p1), 0), 1)
	}
	if op == simd.HardSwish {
		return float64(x) * math.Min(math.Max(float64(x)/6+0.5, 0), 1)
	}
	simd.UnaryGeneric(op, y, y, p0, p1)
	return float64(y[0])
}

// Below −5 Gelu is as near to the true value as 10⁻¹¹.
func TestGeluTail(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		x := make([]float32, 20_000)
		for i := range x {
			x[i] = -5 - float32(i)*1e-3 // to −25
		}
		x = append(x, -1e3, -1e10, -math.MaxFloat32)
		y := make([]float32, len(x))
		Unary(simd.Gelu, y, x, 0, 0)
		for i := range x {
			assert.InDelta(t, unary1(simd.Gelu, x[i], 0, 0), float64(y[i]), 1e-11, "at %g", x[i])
		}
	})
}

func TestUnaryULP(t *testing.T) {
	const n = 200_000
	rng := rand.New(rand.NewPCG(1, 2))
	kerntest.EachLevel(t, func(t *testing.T) {
		for op := simd.Identity; op < simd.NumUnary; op++ {
			lo, hi := domain(op)
			p0, p1 := params(op)
			x, y := make([]float32, n), make([]float32, n)
			for i := range x {
				switch {
				case i%4 == 0: // all magnitudes
					x[i] = float32(math.Exp(rng.Float64()*80-60)) * float32(1-2*rng.IntN(2))
				case op == simd.Log && i%4 < 3:
					x[i] = rng.Float32() * 3
				default:
					x[i] = float32(lo + (hi-lo)*rng.Float64())
				}
				if float64(x[i]) < lo || float64(x[i]) > hi {
					x[i] = float32(lo + (hi-lo)*rng.Float64())
				}
			}
			Unary(op, y, x, p0, p1)
			worst, at := 0.0, float32(0)
			for i := range x {
				e := ulpError(y[i], unary1(op, x[i], p0, p1))
				if op == simd.HardSigmoid || op == simd.HardSwish { // they cancel: error relative to 1
					e = math.Abs(float64(y[i])-unary1(op, x[i], p0, p1)) / max(1, math.Abs(float64(x[i]))) * (1 << 23)
				}
				if e > worst {
					worst, at = e, x[i]
				}
			}
			t.Logf("%-12s %.2f ulp at %g", op, worst, at)
			limit := max(maxULP[op], 0.51)
			assert.LessOrEqual(t, worst, limit, "%s at %g", op, at)
		}
	})
}

func TestUnarySpecials(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for op := simd.Identity; op < simd.NumUnary; op++ {
			p0, p1 := params(op)
			got, want := make([]float32, len(specials)), make([]float32, len(specials))
			Unary(op, got, specials, p0, p1)
			simd.UnaryGeneric(op, want, specials, p0, p1)
			for i, x := range specials {
				if exactUnary[op] {
					assert.True(t, kerntest.Same(want[i], got[i]), "%s(%g) = %g, want %g", op, x, got[i], want[i])
					continue
				}
				least := 1e-37
				if lo, _ := domain(op); op == simd.Gelu && float64(x) < lo {
					least = 1e-11
				}
				ok := kerntest.Same(want[i], got[i]) || math.Abs(float64(want[i]-got[i])) <= 1e-5*math.Abs(float64(want[i]))+least
				assert.True(t, ok, "%s(%g) = %g, want %g", op, x, got[i], want[i])
			}
		}
	})
}

func TestUnaryTails(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	kerntest.EachLevel(t, func(t *testing.T) {
		for op := simd.Identity; op < simd.NumUnary; op++ {
			p0, p1 := params(op)
			full := kerntest.Noise(rng, 67, 0)
			ref := make([]float32, 67)
			Unary(op, ref, full, p0, p1)
			for n := 0; n <= 67; n++ {
				dst, check := kerntest.Guarded(n)
				Unary(op, dst, full[67-n:], p0, p1)
				check(t)
				for i := range dst {
					require.True(t, kerntest.Same(ref[67-n+i], dst[i]), "%s n=%d i=%d", op, n, i)
				}
				in := append([]float32(nil), full[:n]...)
				Unary(op, in, in, p0, p1)
				for i := range in {
					require.True(t, kerntest.Same(ref[i], in[i]), "%s in place n=%d i=%d", op, n, i)
				}
			}
		}
	})
}

func TestBinary(t *testing.T) {
	var a, b []float32
	for _, x := range specials {
		for _, y := range specials {
			a, b = append(a, x), append(b, y)
		}
	}
	kerntest.EachLevel(t, func(t *testing.T) {
		for op := simd.Add; op < simd.NumBinary; op++ {
			got := make([]float32, len(a))
			Binary(op, got, a, b)
			for i := range a {
				want := simd.Binary1(op, a[i], b[i])
				if !kerntest.Same(want, got[i]) {
					require.Fail(t, "differs", "%g %s %g = %g, want %g", a[i], op, b[i], got[i], want)
				}
			}
			for _, s := range specials {
				BinaryScalar(op, got, a, s)
				for i := range a {
					if !kerntest.Same(simd.Binary1(op, a[i], s), got[i]) {
						require.Fail(t, "differs", "%g %s scalar %g = %g", a[i], op, s, got[i])
					}
				}
				simd.Active().ScalarBinaryRow(op, got, s, b)
				for i := range a {
					if !kerntest.Same(simd.Binary1(op, s, b[i]), got[i]) {
						require.Fail(t, "differs", "scalar %g %s %g = %g", s, op, b[i], got[i])
					}
				}
			}
			for n := 0; n <= 67; n++ {
				for form := range 3 {
					dst, check := kerntest.Guarded(n)
					x, y := a[100:100+n], b[101:101+n]
					switch form {
					case 0:
						Binary(op, dst, x, y)
					case 1:
						BinaryScalar(op, dst, x, 3)
					case 2:
						simd.Active().ScalarBinaryRow(op, dst, 3, y)
					}
					check(t)
					for i := range dst {
						want := []float32{simd.Binary1(op, x[i], y[i]), simd.Binary1(op, x[i], 3), simd.Binary1(op, 3, y[i])}[form]
						require.True(t, kerntest.Same(want, dst[i]), "%s form %d n=%d i=%d", op, form, n, i)
					}
				}
			}
		}
	})
}

func TestBinaryRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	kerntest.EachLevel(t, func(t *testing.T) {
		for _, sh := range [][2]int{{1, 1}, {1, 40}, {30, 1}, {3, 5}, {20, 7}, {9, 47}, {10, 16}, {9, 32}, {15, 24}, {700, 3}, {5, 200}, {300, 120}} {
			rows, cols := sh[0], sh[1]
			for ka := Full; ka <= One; ka++ {
				for kb := Full; kb <= One; kb++ {
					a, b := kerntest.Noise(rng, ka.len(rows, cols), 1), kerntest.Noise(rng, kb.len(rows, cols), 2)
					at := func(x []float32, k Spread, r, c int) float32 {
						return x[[]int{r*cols + c, c, r, 0}[k]]
					}
					for _, op := range []simd.BinaryOp{simd.Sub, simd.Mul} {
						dst, check := kerntest.Guarded(rows * cols)
						BinaryRows(op, dst, a, ka, b, kb, rows, cols)
						check(t)
						for i := range dst {
							r, c := i/cols, i%cols
							if want := simd.Binary1(op, at(a, ka, r, c), at(b, kb, r, c)); want != dst[i] {
								require.Equal(t, want, dst[i], "%v op %d spread %d %d", sh, op, ka, kb)
							}
						}
					}
				}
			}
		}
	})
}

func TestElementwiseOnThreads(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	x := kerntest.Noise(rng, 3*parChunk+5, 0)
	one, two := make([]float32, len(x)), make([]float32, len(x))
	Unary(simd.Tanh, one, x, 0, 0)
	UnaryN(simd.Tanh, two, x, 0, 0, 2)
	require.Equal(t, one, two)
	require.Zero(t, testing.AllocsPerRun(20, func() {
		UnaryN(simd.Relu, two, x, 0, 0, 2)
		BinaryRows(simd.Add, two, x, Full, one, Full, 1, len(x))
		BinaryRows(simd.Mul, two, x, Full, one, Row, 1000, 90)
		BinaryRows(simd.Mul, two, x, Full, one, Row, 9000, 9)
		BinaryRows(simd.Mul, two, x, Col, one, Row, 9000, 9)
	}))
}

func TestScaleShiftMulAdd(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	kerntest.EachLevel(t, func(t *testing.T) {
		for n := 0; n <= 67; n++ {
			a, b, c := kerntest.Noise(rng, n, 0), kerntest.Noise(rng, n, 1), kerntest.Noise(rng, n, 2)
			dst, check := kerntest.Guarded(n)
			ScaleShift(dst, a, 2, -0.5)
			check(t)
			for i := range dst {
				require.InDelta(t, a[i]*2-0.5, dst[i], 1e-6)
			}
			MulAdd(dst, a, b, c)
			check(t)
			for i := range dst {
				require.InDelta(t, a[i]*b[i]+c[i], dst[i], 1e-6)
			}
		}
	})
}

func BenchmarkUnary(b *testing.B) {
	x, y := machine.AlignedFloats(b.Context(), 4096), machine.AlignedFloats(b.Context(), 4096)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range x {
		x[i] = rng.Float32()*8 - 4
	}
	for _, l := range machine.Levels() {
		for op := simd.Neg; op < simd.NumUnary; op++ {
			b.Run(fmt.Sprintf("%s/%s", l, op), func(b *testing.B) {
				kerntest.AtLevel(b, l, func(b *testing.B) {
					p0, p1 := params(op)
					sec := kerntest.BestOf(b, func() { Unary(op, y, x, p0, p1) })
					b.ReportMetric(float64(len(x))/sec/1e9, "Gelem/s")
				})
			})
		}
	}
}

func BenchmarkBinary(b *testing.B) {
	for _, l := range machine.Levels() {
		for _, n := range []int{4096, 4 << 20} {
			x, y, z := machine.AlignedFloats(b.Context(), n), machine.AlignedFloats(b.Context(), n), machine.AlignedFloats(b.Context(), n)
			for op := simd.Add; op < simd.NumBinary; op++ {
				b.Run(fmt.Sprintf("%s/%s/%d", l, op, n), func(b *testing.B) {
					kerntest.AtLevel(b, l, func(b *testing.B) {
						sec := kerntest.BestOf(b, func() { Binary(op, z, x, y) })
						b.ReportMetric(float64(12*n)/sec/1e9, "GB/s")
					})
				})
			}
		}
	}
}
