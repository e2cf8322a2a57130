package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// nbitsOf makes columns of few bits.
func nbitsOf(tb testing.TB, rng *rand.Rand, s NBitsSpec) *NBits {
	b, err := NewNBits(s)
	require.NoError(tb, err)
	p, err := b.Pack(tb.Context(), kerntest.RandomBytes(rng, s.N*b.Blocks()*s.Block*s.Bits/8))
	require.NoError(tb, err)
	b, err = b.With(tb.Context(), p, kerntest.Noise(rng, s.N*b.Blocks(), 0), []float32{8})
	require.NoError(tb, err)
	return b
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
					w := nbitsOf(b, rng, NBitsSpec{c.n, c.k, c.bits, 32})
					g, err := NewGemm(GemmSpec{M: c.m, N: c.n, K: c.k, Alpha: 1, NBitsB: true})
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
