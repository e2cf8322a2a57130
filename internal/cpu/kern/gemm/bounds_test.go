package gemm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// TestErrorBounds compares products with float64 on inputs that are hard to sum, against the
// bound that the package states.
func TestErrorBounds(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for name, fill := range kerntest.HardInputs {
			for _, size := range [][3]int{{1, 1, 5000}, {1, 33, 700}, {17, 40, 1000}, {40, 3, 257}, {5, 64, 1}} {
				s := GemmSpec{M: size[0], N: size[1], K: size[2], Alpha: 1}
				g, err := NewGemm(s)
				require.NoError(t, err)
				s = g.Spec()
				rng := rand.New(rand.NewPCG(uint64(s.M), uint64(s.K)))
				a := GemmArgs{A: make([]float32, s.M*s.K), B: make([]float32, s.K*s.N), C: make([]float32, s.M*s.N)}
				fill(rng, a.A, a.B)
				want := gemm64(s, a, a.C)
				sums := gemm64(s, GemmArgs{A: kerntest.Abs(a.A), B: kerntest.Abs(a.B)}, a.C)
				require.NoError(t, g.Run(a, make([]byte, g.Workspace(1)), 1))
				most := 0.0
				for i, w := range want {
					most = max(most, math.Abs(float64(a.C[i])-w)/(float64(s.K+2)/(1<<24)*sums[i]))
				}
				assert.LessOrEqual(t, most, 1.0, "%s %v", name, size)
				t.Logf("%s %v: %.2g of the bound", name, size, most)
			}
		}
	})
}

// TestChains: products too small to change a sum count once they are added up among themselves, so the error of 1 + n·2⁻²⁵ shows
// how long chains are: what follows 1 in its chain may be lost, and the sum of each other chain is rounded once.
func TestChains(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for _, c := range []struct{ m, k, chain int }{{1, 256, 32}, {4, 256, 64}, {4, 387, 128}, {20, 256, 128}, {40, 512, 16}, {20, 1000, 256}} {
			for _, constB := range []bool{false, true} {
				s := GemmSpec{M: c.m, N: 40, K: c.k, Alpha: 1, Chain: c.chain, ConstB: constB}
				g, err := NewGemm(s)
				require.NoError(t, err)
				a := GemmArgs{A: make([]float32, c.m*c.k), B: make([]float32, c.k*s.N), C: make([]float32, c.m*s.N)}
				fill(a.A, 1)
				fill(a.B, 1.0/(1<<25))
				fill(a.B[:s.N], 1)
				if constB {
					a.PackedB, err = g.PackB(t.Context(), Dense(a.B))
					require.NoError(t, err)
				}
				require.NoError(t, g.Run(a, make([]byte, g.Workspace(1)), 1))
				lost := c.chain + machine.CeilDiv(c.k, c.chain)
				for _, y := range a.C {
					require.InDelta(t, 1+float64(c.k-1)/(1<<25), y, float64(lost)/(1<<25), "%+v", c)
				}
			}
		}
	})
}
