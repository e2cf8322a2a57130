package convolve

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// TestOutliers: a NaN, an infinite or a huge input reaches the outputs whose windows contain
// it and no others, by every algorithm, with and without a residual that is the result.
func TestOutliers(t *testing.T) {
	inf := float32(math.Inf(1))
	values := map[string][]float32{
		"nan": {float32(math.NaN())}, "inf": {inf}, "-inf": {-inf}, "both": {inf, -inf}, "huge": {3e38}, "huge twice": {3e38, -2e36},
		"1e30": {1e30, 1e30}, "1e20": {-1e20}, "1e10": {1e10}, "1e6": {1e6, -1e6, 1e6}, "denormal": {1e-40}, "mixed": {inf, 1e6, 3e38, 1e20},
	}
	specs := []ConvSpec{
		conv2(1, 16, 32, 1, 17, 19, 3, 1, 1), conv2(2, 20, 33, 1, 12, 13, 3, 1, 0), conv2(1, 16, 40, 1, 40, 44, 3, 1, 1),
		conv2(1, 8, 12, 2, 9, 21, 3, 2, 1), conv2(1, 6, 6, 6, 9, 21, 3, 1, 1), conv2(1, 5, 33, 1, 9, 11, 1, 1, 0),
	}
	specs[1].PadBegin, specs[1].PadEnd = [3]int{0, 2, 0}, [3]int{0, 0, 3}
	kerntest.EachLevel(t, func(t *testing.T) {
		for name, v := range values {
			for i, s := range specs {
				s.Epilogue = []simd.Epilogue{{}, {Bias: simd.BiasPerRow, Residual: true}, {Bias: simd.BiasPerRow, Residual: true, Act: simd.Relu}}[i%3]
				rng := rand.New(rand.NewPCG(uint64(i), 7))
				checkOutliers(t, fmt.Sprintf("%s %d", name, i), rng, s, v)
			}
		}
	})
}

// checkOutliers compares all algorithms with the definition where inputs at random places
// have the given values.
func checkOutliers(t *testing.T, name string, rng *rand.Rand, s ConvSpec, values []float32) {
	geo := geometryOf(t, s)
	s = geo.Spec()
	a := ConvArgs{X: kerntest.Noise(rng, s.Batch*s.InC*geo.inN, 1), W: kerntest.Noise(rng, geo.weightLen(), 1),
		Bias: kerntest.Noise(rng, s.OutC, 0), Residual: kerntest.Noise(rng, s.Batch*s.OutC*geo.outN, 0)}
	for i := range a.W {
		if rng.IntN(5) == 0 {
			a.W[i] = 0
		}
	}
	for _, v := range values {
		a.X[rng.IntN(len(a.X))] = v
	}
	want, size := conv64(geo, a), magnitudes(geo, a)
	for _, algo := range fitting(geo) {
		c, packed := packedConv(t, s, ConvPlan{Algorithm: algo}, gemm.Dense(a.W))
		for threads := 1; threads <= 3; threads++ {
			run := a
			run.Packed, run.Y = packed, append([]float32(nil), a.Residual...)
			if threads == 2 && algo != ConvPlanes { // weights of the run
				free := s
				free.ConstW = false
				var err error
				c, err = NewConv(free, ConvPlan{Algorithm: algo})
				require.NoError(t, err)
			}
			run.Residual = run.Y
			ws := make([]byte, c.Workspace(threads))
			for i := range ws {
				ws[i] = 0xff
			}
			require.NoError(t, c.Run(run, ws, threads))
			wrong := 0
			for i, w := range want {
				if !closeOrSame(float64(run.Y[i]), w, 3e-5*size[i]) {
					if wrong++; wrong < 4 {
						t.Logf("%s %s, %d threads: output %d is %g instead of %g (size %g)", name, algo, threads, i, run.Y[i], w, size[i])
					}
				}
			}
			assert.Zero(t, wrong, "%s %s", name, algo)
		}
	}
}

// closeOrSame compares a float32 result with its definition; a result beyond the range of
// float32 may be infinite.
func closeOrSame(got, want, tol float64) bool {
	if math.IsNaN(want) || math.IsNaN(got) {
		return math.IsNaN(want) && math.IsNaN(got)
	}
	if math.Abs(want) > math.MaxFloat32/2 || math.IsInf(got, 0) {
		return math.Abs(got) > math.MaxFloat32/4 && math.Abs(want) > math.MaxFloat32/4 && math.Signbit(got) == math.Signbit(want)
	}
	return math.Abs(got-want) <= tol
}

// magnitudes are the outputs for the magnitudes of all operands, the largest weight of a
// filter in place of each of its taps.
func magnitudes(g *geometry, a ConvArgs) []float64 {
	abs := func(x []float32) []float32 {
		out := make([]float32, len(x))
		for i, v := range x {
			out[i] = float32(math.Abs(float64(v)))
		}
		return out
	}
	plain := *g
	plain.s.Epilogue.Act = simd.Identity
	a.X, a.W, a.Bias, a.Residual = abs(a.X), abs(a.W), abs(a.Bias), abs(a.Residual)
	out := conv64(&plain, a)
	for i, v := range out {
		if !(v >= 1) {
			out[i] = 1
		}
	}
	return out
}

// TestWeightsRefused: weights that padding or transforms would spread are left to the
// reference kernel.
func TestWeightsRefused(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(-1), 1e20} {
		s := conv2(1, 32, 32, 1, 20, 20, 3, 1, 1)
		s.ConstW = true
		g := geometryOf(t, s)
		for _, algo := range fitting(g) {
			w := make([]float32, g.weightLen())
			w[77] = float32(v)
			c, err := NewConv(s, ConvPlan{Algorithm: algo})
			require.NoError(t, err)
			_, err = c.PackW(t.Context(), gemm.Dense(w))
			var refused *machine.SpecError
			if finite := v == 1e20; finite && algo != ConvWinograd2 && algo != ConvWinograd4 {
				require.NoError(t, err)
			} else {
				require.ErrorAs(t, err, &refused)
			}
		}
	}
}

// TestRunWeights: weights of a run that no transform takes reach the results that they are weights of, and no others.
func TestRunWeights(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for _, v := range []float64{math.NaN(), math.Inf(-1), 1e20} {
			s := conv2(3, 20, 36, 1, 20, 18, 3, 1, 0)
			g := geometryOf(t, s)
			for _, algo := range fitting(g) {
				if algo == ConvPlanes {
					continue
				}
				rng := rand.New(rand.NewPCG(3, 8))
				a := ConvArgs{X: kerntest.Noise(rng, s.Batch*s.InC*g.inN, 0), W: kerntest.Noise(rng, g.weightLen(), 0), Y: make([]float32, s.Batch*s.OutC*g.outN)}
				const filter = 21
				a.W[(filter*s.InC+5)*9+4] = float32(v)
				c, err := NewConv(s, ConvPlan{Algorithm: algo})
				require.NoError(t, err)
				require.NoError(t, c.Run(a, poisoned(c.Workspace(2)), 2))
				want, size := conv64(g, a), magnitudes(g, a)
				for i, w := range want {
					require.True(t, closeOrSame(float64(a.Y[i]), w, 1e-5*size[i]), "%s %g: result %d is %g, not %g", algo, v, i, a.Y[i], w)
				}
			}
		}
	})
}

func TestExceeds(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for _, n := range []int{1, 7, 16, 511, 512, 513, 2000} {
			testExceeds(t, n, weightCeiling)
			testExceeds(t, n, math.MaxFloat32)
		}
		assert.False(t, exceeds(simd.Active(), nil, 0))
	})
}

func testExceeds(t *testing.T, n int, limit float32) {
	x, inf := make([]float32, n), float32(math.Inf(1))
	for i := range x {
		x[i] = limit * float32(1-2*(i%2)) // their sum is above the limit
	}
	assert.False(t, exceeds(simd.Active(), x, limit), "%d elements at %g", n, limit)
	for _, v := range []float32{inf, -inf, float32(math.NaN()), math.Nextafter32(limit, inf), -math.Nextafter32(limit, inf)} {
		for _, at := range []int{0, n / 2, n - 1} {
			y := make([]float32, n)
			y[at] = v
			assert.True(t, exceeds(simd.Active(), y, limit), "%g at %d of %d, limit %g", v, at, n, limit)
		}
	}
}

// TestChunkSums: the chunks of every number of threads are all tiles, as many for each thread or all
// threads in each, and their segments are all segments.
func TestChunkSums(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for _, s := range []ConvSpec{
			conv2(1, 128, 32, 1, 56, 56, 3, 1, 1), conv2(3, 16, 16, 1, 30, 31, 3, 1, 0), conv2(1, 512, 512, 1, 7, 7, 3, 1, 1), conv2(5, 32, 20, 1, 14, 9, 3, 1, 1),
		} {
			for _, m := range []int{2, 4} {
				p := newWinograd(geometryOf(t, s), m)
				for threads := 1; threads <= 9; threads++ {
					checkChunkSums(t, p, threads)
				}
			}
		}
	})
}

func checkChunkSums(t *testing.T, p *winograd, threads int) {
	l := p.layout(threads)
	assert.True(t, l.shares || l.chunks.P*p.s.Batch%threads == 0 || l.chunks.P*p.s.Batch >= 2*threads, "%d chunks for %d threads", l.chunks.P, threads)
	sums, _ := p.hardSizes()
	w := winoRun{x: make([]float32, p.inLen()), sums: make([]float32, sums)}
	for i := range w.x {
		w.x[i] = 1
	}
	next := 0
	for chunk := range l.chunks.P {
		first, count := l.chunks.Part(chunk)
		require.Equal(t, next, first)
		next += count
		p.sumBlock(&w, 0, first, next)
	}
	require.Equal(t, p.tiles, next)
	total := float32(0)
	for _, x := range w.sums[:p.direct.segments] {
		require.NotZero(t, x)
		total += x
	}
	assert.Equal(t, float32(p.inN*p.b), total)
}
