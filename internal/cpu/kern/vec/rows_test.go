package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// rowLengths are the lengths that functions of rows are tested with: all tails of short rows,
// some of long ones.
var rowLengths = func() []int {
	n := []int{96, 127, 128, 129, 200}
	for i := 1; i <= 67; i++ {
		n = append(n, i)
	}
	return n
}()

// reductions pairs each reduction with its definition in float64.
var reductions = []struct {
	name string
	fast func(x []float32) float32
	slow func(x []float32) float64
}{
	{"Sum", Sum, func(x []float32) (s float64) {
		for _, v := range x {
			s += float64(v)
		}
		return s
	}},
	{"SumAbs", func(x []float32) float32 { return simd.Active().SumAbs(machine.F32p(x, 0), len(x)) }, func(x []float32) (s float64) {
		for _, v := range x {
			s += math.Abs(float64(v))
		}
		return s
	}},
	{"SumSquares", func(x []float32) float32 { return simd.Active().SumSq(machine.F32p(x, 0), len(x)) }, func(x []float32) (s float64) {
		for _, v := range x {
			s += float64(v) * float64(v)
		}
		return s
	}},
	{"Dot", func(x []float32) float32 { return Dot(x, x) }, func(x []float32) (s float64) {
		for _, v := range x {
			s += float64(v) * float64(v)
		}
		return s
	}},
	{"MaxOf", MaxOf, func(x []float32) float64 {
		m := math.Inf(-1)
		for _, v := range x {
			m = math.Max(m, float64(v))
		}
		return m
	}},
	{"MinOf", MinOf, func(x []float32) float64 {
		m := math.Inf(1)
		for _, v := range x {
			m = math.Min(m, float64(v))
		}
		return m
	}},
}

func TestReductions(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	kerntest.EachLevel(t, func(t *testing.T) {
		for _, r := range reductions {
			for n := 0; n <= 200; n++ {
				x := kerntest.Noise(rng, n, n%5)
				want := r.slow(x)
				got := float64(r.fast(x))
				if math.IsInf(want, 0) {
					require.Equal(t, want, got, "%s of nothing", r.name)
					continue
				}
				require.InDelta(t, want, got, 1e-5, "%s n=%d", r.name, n)
				if n == 0 {
					continue
				}
				y := append([]float32(nil), x...)
				y[n/2] = float32(math.NaN())
				got = float64(r.fast(y))
				require.True(t, got != got, "%s with NaN at %d of %d is %g", r.name, n/2, n, got)
				y[n/2] = float32(math.Inf(1))
				got = float64(r.fast(y))
				if r.name != "MinOf" || n == 1 {
					require.True(t, math.IsInf(got, 1), "%s with infinity is %g", r.name, got)
				}
			}
		}
	})
}

// TestDotRows compares with float64, and every row in company with itself alone. Sums in float64 are rounded once.
func TestDotRows(t *testing.T) {
	for _, f := range []struct {
		name   string
		rows   func(dst, x, rows []float32, n, ld, step int)
		within func(sum float64) float64
	}{
		{"lanes", DotRows, func(float64) float64 { return 1e-5 }},
		{"wide", WideDots, func(sum float64) float64 { return 0x1.00001p-24 * math.Abs(sum) }},
	} {
		t.Run(f.name, func(t *testing.T) { testDotRows(t, f.rows, f.within) })
	}
}

func testDotRows(t *testing.T, dotRows func(dst, x, rows []float32, n, ld, step int), within func(sum float64) float64) {
	rng := rand.New(rand.NewPCG(3, 4))
	kerntest.EachLevel(t, func(t *testing.T) {
		for k := 0; k <= 70; k++ {
			for n := 0; n <= 9; n++ {
				ld, step := k+n%3, 1+n%2
				x, rows := kerntest.Noise(rng, k, k%3), kerntest.Noise(rng, n*ld+k, n%2)
				dst := slices.Repeat([]float32{77}, n*step+3)
				dotRows(dst, x, rows, n, ld, step)
				for i := range n {
					row, want := rows[i*ld:i*ld+k], 0.0
					for j, v := range x {
						want += float64(v) * float64(row[j])
					}
					require.InDelta(t, want, dst[i*step], within(want), "row %d of %d, k %d", i, n, k)
					var alone [1]float32
					dotRows(alone[:], x, row, 1, k, 1)
					require.Equal(t, alone[0], dst[i*step])
					dst[i*step] = 77
				}
				for _, v := range dst {
					require.Equal(t, float32(77), v, "written beside the results")
				}
			}
		}
	})
}

// softmax64 is softmax, or its logarithm, in float64.
func softmax64(x []float32, logarithm bool) []float64 {
	top, sum := math.Inf(-1), 0.0
	for _, v := range x {
		top = math.Max(top, float64(v))
	}
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	out := make([]float64, len(x))
	for i, v := range x {
		if logarithm {
			out[i] = float64(v) - top - math.Log(sum)
		} else {
			out[i] = math.Exp(float64(v)-top) / sum
		}
	}
	return out
}

func TestSoftmax(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	kerntest.EachLevel(t, func(t *testing.T) {
		for _, cols := range rowLengths {
			const rows = 3
			x := kerntest.Noise(rng, rows*cols, cols%3)
			for i := range x {
				x[i] = x[i]*30 - 500 // far from zero
			}
			for _, logarithm := range []bool{false, true} {
				y, check := kerntest.Guarded(rows * cols)
				if logarithm {
					LogSoftmax(nil, y, x, rows, cols, 1)
				} else {
					Softmax(nil, y, x, rows, cols, 1)
				}
				check(t)
				for r := range rows {
					for i, want := range softmax64(x[r*cols:][:cols], logarithm) {
						require.InDelta(t, want, y[r*cols+i], 1e-6+1e-5*math.Abs(want)*0.1, "cols %d", cols)
					}
				}
			}
		}
	})
}

func TestSoftmaxSpecials(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	cases := []struct {
		name string
		x    []float32
		want []float32
	}{
		{"masked", []float32{-inf, 0, -inf, 0}, []float32{0, 0.5, 0, 0.5}},
		{"all masked", []float32{-inf, -inf}, []float32{nan, nan}},
		{"NaN", []float32{nan, 1}, []float32{nan, nan}},
		{"infinite", []float32{inf, 1}, []float32{nan, nan}},
		{"wide", []float32{-1000, 1000}, []float32{0, 1}},
		{"huge", []float32{math.MaxFloat32, -math.MaxFloat32}, []float32{1, 0}},
	}
	kerntest.EachLevel(t, func(t *testing.T) {
		for _, c := range cases {
			got := make([]float32, len(c.x))
			Softmax(nil, got, c.x, 1, len(c.x), 1)
			for i := range got {
				assert.True(t, kerntest.Same(c.want[i], got[i]), "%s: %v, want %v", c.name, got, c.want)
			}
		}
	})
}

func TestLayerNorm(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const rows, eps = 4, 1e-5
	kerntest.EachLevel(t, func(t *testing.T) {
		for _, cols := range rowLengths {
			x := kerntest.Noise(rng, rows*cols, 1)
			for i := range x {
				x[i] += 100 // a mean that squares would cancel against
			}
			gamma, beta := kerntest.Noise(rng, cols, 2), kerntest.Noise(rng, cols, 3)
			for form := range 5 {
				var gm, bt []float32
				if form&1 != 0 {
					gm = gamma
				}
				if form&2 != 0 {
					bt = beta
				}
				y, check := kerntest.Guarded(rows * cols)
				mean, inv := make([]float32, rows), make([]float32, rows)
				if form == 4 { // without statistics: the kernel of many rows
					gm, bt, mean, inv = gamma, beta, nil, nil
				}
				LayerNorm(nil, y, x, gm, bt, rows, cols, eps, mean, inv, 2)
				check(t)
				for r := range rows {
					row := x[r*cols:][:cols]
					m, v := 0.0, 0.0
					for _, e := range row {
						m += float64(e) / float64(cols)
					}
					for _, e := range row {
						v += (float64(e) - m) * (float64(e) - m) / float64(cols)
					}
					if mean != nil {
						require.InDelta(t, m, mean[r], 1e-4)
					}
					for i, e := range row {
						want := (float64(e) - m) / math.Sqrt(v+eps)
						if gm != nil {
							want *= float64(gamma[i])
						}
						if bt != nil {
							want += float64(beta[i])
						}
						require.InDelta(t, want, y[r*cols+i], 1e-3/math.Sqrt(v+eps)*0.1, "cols %d form %d", cols, form)
					}
				}
			}
		}
	})
}

func TestRMSNorm(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	kerntest.EachLevel(t, func(t *testing.T) {
		for _, cols := range rowLengths {
			x, gamma := kerntest.Noise(rng, 2*cols, 1), kerntest.Noise(rng, cols, 0)
			y, check := kerntest.Guarded(2 * cols)
			RMSNorm(nil, y, x, gamma, 2, cols, 1e-6, 1)
			check(t)
			for r := range 2 {
				s := 0.0
				for _, e := range x[r*cols:][:cols] {
					s += float64(e) * float64(e) / float64(cols)
				}
				for i := range cols {
					require.InDelta(t, float64(x[r*cols+i])/math.Sqrt(s+1e-6)*float64(gamma[i]), y[r*cols+i], 1e-5)
				}
			}
		}
	})
}

// TestRowBeyondRange puts a row whose squares overflow between others: it is computed
// in float64, and the others come out as they do without it.
func TestRowBeyondRange(t *testing.T) {
	const rows, eps = 5, 1e-5
	kerntest.EachLevel(t, func(t *testing.T) {
		for _, cols := range []int{3, 16, 64, 100} {
			rng := rand.New(rand.NewPCG(1, uint64(cols)))
			x, gamma, beta := kerntest.Noise(rng, rows*cols, 0), kerntest.Noise(rng, cols, 0), kerntest.Noise(rng, cols, 0)
			tame := slices.Clone(x)
			for i := range cols {
				x[2*cols+i] *= 1e30
			}
			norms := map[string]func(y, x []float32){
				"layer": func(y, x []float32) { LayerNorm(nil, y, x, gamma, beta, rows, cols, eps, nil, nil, 1) },
				"rms":   func(y, x []float32) { RMSNorm(nil, y, x, gamma, rows, cols, eps, 1) },
			}
			for name, f := range norms {
				got, want := make([]float32, rows*cols), make([]float32, rows*cols)
				f(got, x)
				f(want, tame)
				for i := range got {
					if i/cols != 2 {
						require.Equal(t, want[i], got[i], "%s of %d, element %d", name, cols, i)
					} else { // a row has the direction that it has without the factor
						require.InDelta(t, want[i], got[i], 1e-3, "%s of %d, element %d", name, cols, i)
					}
				}
			}
		}
	})
}

func TestBatchNorm(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	kerntest.EachLevel(t, func(t *testing.T) {
		const n, ch, sp = 2, 5, 37
		x, scale, shift := kerntest.Noise(rng, n*ch*sp, 0), kerntest.Noise(rng, ch, 0), kerntest.Noise(rng, ch, 0)
		y, check := kerntest.Guarded(len(x))
		BatchNorm(nil, y, x, scale, shift, n, ch, sp, 2)
		check(t)
		for i := range x {
			c := i / sp % ch
			require.InDelta(t, x[i]*scale[c]+shift[c], y[i], 1e-6)
		}
	})
}

func TestRowsDoNotAllocate(t *testing.T) {
	x, y, g := make([]float32, 40000), make([]float32, 40000), make([]float32, 100)
	run := func() {
		Softmax(nil, y, x, 400, 100, 2)
		LayerNorm(nil, y, x, g, g, 400, 100, 1e-5, nil, nil, 2)
		RMSNorm(nil, y, x, g, 400, 100, 1e-5, 2)
	}
	run()
	require.Zero(t, testing.AllocsPerRun(20, run))
}

func BenchmarkRows(b *testing.B) {
	const rows, cols = 128, 768
	x, y, g := machine.AlignedFloats(b.Context(), rows*cols), machine.AlignedFloats(b.Context(), rows*cols), machine.AlignedFloats(b.Context(), cols)
	rng := rand.New(rand.NewPCG(1, 1))
	copy(x, kerntest.Noise(rng, rows*cols, 0))
	fs := []struct {
		name string
		f    func()
	}{
		{"Softmax", func() { Softmax(nil, y, x, rows, cols, 1) }},
		{"Softmax of 49", func() { Softmax(nil, y, x, rows*cols/49, 49, 1) }},
		{"LayerNorm of 24", func() { LayerNorm(nil, y, x, g, g, rows*cols/24, 24, 1e-5, nil, nil, 1) }},
		{"RMSNorm of 64", func() { RMSNorm(nil, y, x, g, rows*cols/64, 64, 1e-5, 1) }},
		{"LogSoftmax", func() { LogSoftmax(nil, y, x, rows, cols, 1) }},
		{"LayerNorm", func() { LayerNorm(nil, y, x, g, g, rows, cols, 1e-5, nil, nil, 1) }},
		{"RMSNorm", func() { RMSNorm(nil, y, x, g, rows, cols, 1e-5, 1) }},
		{"BatchNorm", func() { BatchNorm(nil, y, x, g, g, 1, rows, cols, 1) }},
		{"Sum", func() { Sum(x) }},
		{"Dot", func() { Dot(x, y) }},
		{"DotRows of 16", func() { DotRows(y, x[:16], x, rows*cols/16, 16, 1) }},
		{"DotRows", func() { DotRows(y, x[:cols], x, rows, cols, 1) }},
		{"WideDots", func() { WideDots(y, x[:cols], x, rows, cols, 1) }},
		{"MaxOf", func() { MaxOf(x) }},
	}
	for _, l := range machine.Levels() {
		for _, f := range fs {
			b.Run(fmt.Sprintf("%s/%s", l, f.name), func(b *testing.B) {
				kerntest.AtLevel(b, l, func(b *testing.B) {
					sec := kerntest.BestOf(b, f.f)
					b.ReportMetric(rows*cols/sec/1e9, "Gelem/s")
				})
			})
		}
	}
}
