package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// nbitsOf makes columns of few bits, and the same as numbers [n][k].
func nbitsOf(tb testing.TB, rng *rand.Rand, s NBitsSpec, zeros []float32) (*NBits, []float64) {
	b, err := NewNBits(s)
	require.NoError(tb, err)
	return nbitsFrom(tb, rng, b, zeros)
}

// nbitsFrom fills columns with noise.
func nbitsFrom(tb testing.TB, rng *rand.Rand, b *NBits, zeros []float32) (*NBits, []float64) {
	s, blocks := b.s, b.Blocks()
	src, scales := kerntest.RandomBytes(rng, s.N*blocks*s.Block*s.Bits/8), kerntest.Noise(rng, s.N*blocks, 0)
	p, err := b.Pack(tb.Context(), src)
	require.NoError(tb, err)
	b, err = b.With(tb.Context(), p, scales, zeros)
	require.NoError(tb, err)
	numbers := make([]float64, s.N*s.K)
	for i := range numbers {
		n, k := i/s.K, i%s.K
		bit := (n*blocks*s.Block + k) * s.Bits
		block := n*blocks + k/s.Block
		q := src[bit/8] >> (bit % 8) & byte(1<<s.Bits-1)
		numbers[i] = (float64(q) - float64(zeros[block%len(zeros)])) * float64(scales[block])
	}
	return b, numbers
}

// TestNBitsWithinBound compares products with the formula in float64: (K + 3)·2⁻²⁴ of the sum of magnitudes is what K + 3 roundings come to.
func TestNBitsWithinBound(t *testing.T) {
	const n = 71
	for _, bits := range []int{2, 4, 8} {
		for _, s := range []struct{ k, block int }{{64, 16}, {96, 32}, {300, 32}, {512, 128}, {20, 64}, {257, 32}} {
			for _, m := range []int{1, 2, 3, 4, 7, 8, 16, 17} {
				for _, kind := range []string{"one", "whole", "fractions"} {
					t.Run(fmt.Sprintf("%d bits, %d×%d by %d, zeros %s", bits, m, s.k, s.block, kind), func(t *testing.T) {
						kerntest.EachLevel(t, func(t *testing.T) { nbitsWithinBound(t, m, NBitsSpec{n, s.k, bits, s.block}, kind) })
					})
				}
			}
		}
	}
}

func nbitsWithinBound(t *testing.T, m int, s NBitsSpec, kind string) {
	rng := rand.New(rand.NewPCG(uint64(s.K), uint64(m)))
	b, numbers := nbitsOf(t, rng, s, zerosOf(rng, kind, s.N*machine.CeilDiv(s.K, s.Block)))
	require.Equal(t, kind != "fractions", b.WholeBits() > 0)
	a, bias := kerntest.Noise(rng, m*s.K, 0), kerntest.Noise(rng, s.N, 0)
	spec := GemmSpec{M: m, N: s.N, K: s.K, Alpha: 1, NBitsB: true, WholeBits: b.WholeBits()}
	spec.Epilogue.Bias = simd.BiasPerCol
	g, err := NewGemm(spec)
	require.NoError(t, err)
	c, again := make([]float32, m*s.N), make([]float32, m*s.N)
	require.NoError(t, g.Run(GemmArgs{A: a, C: c, Bias: bias, NBitsB: b}, make([]byte, g.Workspace(1)), 1))
	require.NoError(t, g.Run(GemmArgs{A: a, C: again, Bias: bias, NBitsB: b}, make([]byte, g.Workspace(3)), 3))
	require.Equal(t, c, again)
	for i, v := range c {
		sum := float64(bias[i%s.N])
		size := math.Abs(sum)
		for k, w := range numbers[i%s.N*s.K:][:s.K] {
			product := w * float64(a[i/s.N*s.K+k])
			sum, size = sum+product, size+math.Abs(product)
		}
		require.InDelta(t, sum, v, float64(s.K+3)/(1<<24)*size, "element %d", i)
	}
}

// zerosOf are zero points: one of all, bytes, whole numbers or any.
func zerosOf(rng *rand.Rand, kind string, n int) []float32 {
	if kind == "one" {
		return []float32{8}
	}
	zeros := kerntest.Noise(rng, n, 0)
	if kind == "bytes" {
		for i := range zeros {
			zeros[i] = float32(rng.IntN(256))
		}
	}
	if kind == "whole" {
		for i := range zeros {
			zeros[i] = float32(rng.IntN(300) - 20)
		}
	}
	return zeros
}

func TestNBitsRefuses(t *testing.T) {
	var spec *machine.SpecError
	for _, s := range []NBitsSpec{{4, 32, 3, 16}, {4, 32, 4, 8}, {4, 32, 4, 24}, {0, 32, 4, 16}, {math.MaxInt >> 1, math.MaxInt >> 1, 4, 16}} {
		_, err := NewNBits(s)
		require.ErrorAs(t, err, &spec, "%+v", s)
	}
	b, err := NewNBits(NBitsSpec{4, 32, 4, 16})
	require.NoError(t, err)
	_, err = b.With(t.Context(), nil, make([]float32, 8), []float32{8})
	require.ErrorAs(t, err, &spec)
	g, err := NewGemm(GemmSpec{M: 2, N: 4, K: 32, NBitsB: true})
	require.NoError(t, err)
	require.ErrorAs(t, g.Run(GemmArgs{A: make([]float32, 64), C: make([]float32, 8)}, make([]byte, g.Workspace(1)), 1), &spec)
}

func BenchmarkNBits(b *testing.B) {
	for _, l := range machine.Levels() {
		for _, c := range []struct{ m, n, k, bits int }{{1, 4096, 4096, 4}, {1, 4096, 4096, 8}, {16, 1024, 1024, 4}, {128, 768, 768, 4}} {
			b.Run(fmt.Sprintf("%s/%dx%dx%d of %d bits", l, c.m, c.n, c.k, c.bits), func(b *testing.B) {
				kerntest.AtLevel(b, l, func(b *testing.B) {
					rng := rand.New(rand.NewPCG(1, 1))
					w, _ := nbitsOf(b, rng, NBitsSpec{c.n, c.k, c.bits, 32}, []float32{8})
					g, err := NewGemm(GemmSpec{M: c.m, N: c.n, K: c.k, Alpha: 1, NBitsB: true, WholeBits: c.bits})
					require.NoError(b, err)
					a := GemmArgs{A: kerntest.Noise(rng, c.m*c.k, 0), C: make([]float32, c.m*c.n), NBitsB: w}
					ws := make([]byte, g.Workspace(1))
					sec := kerntest.BestOf(b, func() { _ = g.Run(a, ws, 1) })
					b.ReportMetric(float64(g.FLOPs())/sec/1e9, "GFLOP/s")
				})
			})
		}
	}
}
