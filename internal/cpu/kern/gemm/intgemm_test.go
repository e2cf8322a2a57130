package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

func runIntGemm(t *testing.T, s IntGemmSpec, formA, formB int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(s.M), uint64(s.N*1000+s.K)))
	g, err := NewIntGemm(s)
	require.NoError(t, err)
	s = g.s
	a := IntGemmArgs{A: kerntest.RandomBytes(rng, g.needA), B: kerntest.RandomBytes(rng, g.needB), C: make([]int32, g.needC+64)}
	a.ZA, a.ZB = kerntest.IntZeros(rng, formA, s.M, s.ASigned), kerntest.IntZeros(rng, formB, s.N, s.BSigned)
	b := a.B
	if s.ConstB {
		a.PackedB, err = g.PackB(t.Context(), b)
		require.NoError(t, err)
		a.B = nil
	}
	ws := make([]byte, g.Workspace(2))
	for i := range ws {
		ws[i] = 0xff
	}
	for i := range a.C {
		a.C[i] = 12345
	}
	require.NoError(t, g.Run(a, ws, 2))
	for n := range s.Batch {
		for i := range s.M {
			for j := range s.N {
				want := int32(0)
				for k := range s.K {
					at := n*s.StrideB + k*s.LDB + j
					if s.TransB {
						at = n*s.StrideB + j*s.LDB + k
					}
					want += (kerntest.AsInt(a.A[n*s.StrideA+i*s.LDA+k], s.ASigned) - ZeroOf(a.ZA, i)) * (kerntest.AsInt(b[at], s.BSigned) - ZeroOf(a.ZB, j))
				}
				if got := a.C[n*s.StrideC+i*s.LDC+j]; got != want {
					require.Equal(t, want, got, "%+v forms %d %d: row %d column %d", s, formA, formB, i, j)
				}
			}
		}
	}
	for _, v := range a.C[g.needC:] {
		require.EqualValues(t, 12345, v, "wrote after the result")
	}
}

func TestIntGemm(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for v := range 16 {
			s := IntGemmSpec{ASigned: v&1 != 0, BSigned: v&2 != 0, TransB: v&4 != 0, ConstB: v&8 != 0}
			for n := 1; n <= 67; n += 1 + v%3 {
				s.M, s.N, s.K = 1+n%19, n, 1+n%23
				runIntGemm(t, s, n%3, (n/3)%3)
			}
			s.M, s.N, s.K = 37, 70, 131
			for f := range 9 {
				runIntGemm(t, s, f%3, f/3)
			}
			s.M, s.N, s.K = 3, 40, 2100 // several blocks of K
			runIntGemm(t, s, 1, 1)
			s.M, s.N, s.K = 150, 300, 9 // several tiles
			runIntGemm(t, s, 1, 2)
		}
		runIntGemm(t, IntGemmSpec{M: 5, N: 9, K: 0}, 1, 1)
		runIntGemm(t, IntGemmSpec{M: 5, N: 33, K: 12, LDA: 17, LDB: 40, LDC: 50, Batch: 3, StrideA: 100, StrideB: 500, StrideC: 300, BSigned: true}, 1, 1)
		runIntGemm(t, IntGemmSpec{M: 5, N: 33, K: 12, Batch: 2, StrideA: 60, StrideC: 165, ASigned: true}, 2, 2)
	})
}

// Columns are held in whole panels of whole words: four bytes to a word, or two where they are widened.
func TestIntGemmPackedSize(t *testing.T) {
	perWord := map[machine.Level]int{machine.LevelGeneric: 2, machine.LevelAVX2: 4, machine.LevelAVX512: 4}
	kerntest.EachLevel(t, func(t *testing.T) {
		for _, transposed := range []bool{false, true} {
			g, err := NewIntGemm(IntGemmSpec{M: 3, N: 96, K: 128, TransB: transposed, ConstB: true})
			require.NoError(t, err)
			p, err := g.PackB(t.Context(), make([]byte, 96*128))
			require.NoError(t, err)
			require.Equal(t, 4*96+4*96*128/perWord[g.t.Level], p.Bytes())
		}
	})
}

func TestIntGemmErrors(t *testing.T) {
	var spec *machine.SpecError
	var size *machine.SizeError
	_, err := NewIntGemm(IntGemmSpec{M: -1})
	assert.ErrorAs(t, err, &spec)
	g, err := NewIntGemm(IntGemmSpec{M: 4, N: 4, K: 4})
	require.NoError(t, err)
	x, c, ws := make([]byte, 16), make([]int32, 16), make([]byte, g.Workspace(1))
	assert.NoError(t, g.Run(IntGemmArgs{A: x, B: x, C: c}, ws, 1))
	assert.ErrorAs(t, g.Run(IntGemmArgs{A: x[1:], B: x, C: c}, ws, 1), &size)
	assert.ErrorAs(t, g.Run(IntGemmArgs{A: x, B: x, C: c, ZB: c[:3]}, ws, 1), &size)
	assert.ErrorAs(t, g.Run(IntGemmArgs{A: x, B: x, C: c}, ws[1:], 1), &size)
}

func BenchmarkIntGemm(b *testing.B) {
	for _, l := range machine.Levels() {
		for _, s := range []IntGemmSpec{
			{M: 128, N: 768, K: 768, ConstB: true, BSigned: true},
			{M: 128, N: 768, K: 3072, ConstB: true},
			{M: 1, N: 4096, K: 4096, ConstB: true, BSigned: true},
			{M: 128, N: 128, K: 64, TransB: true, Batch: 12, StrideA: 8192, StrideB: 8192, StrideC: 16384, ASigned: true, BSigned: true},
		} {
			b.Run(fmt.Sprintf("%s/%dx%dx%d", l, s.M, s.N, s.K), func(b *testing.B) {
				kerntest.AtLevel(b, l, func(b *testing.B) {
					g, err := NewIntGemm(s)
					require.NoError(b, err)
					a := IntGemmArgs{A: make([]byte, g.needA), B: make([]byte, g.needB), C: make([]int32, g.needC), ZA: []int32{128}}
					if s.ConstB {
						a.PackedB, _ = g.PackB(b.Context(), a.B)
					}
					ws := make([]byte, g.Workspace(1))
					sec := kerntest.BestOf(b, func() { _ = g.Run(a, ws, 1) })
					b.ReportMetric(2*float64(g.s.Batch*s.M*s.N*s.K)/sec/1e9, "GOP/s")
				})
			})
		}
	}
}
