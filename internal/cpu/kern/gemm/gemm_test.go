package gemm

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

// at64 reads element (i, j) of a stored matrix, transposed if asked.
func at64(x []float32, ld, i, j int, trans bool) float64 {
	if trans {
		i, j = j, i
	}
	return float64(x[i*ld+j])
}

// gemm64 is the product in float64, one unbatched matrix.
func gemm64(s GemmSpec, a GemmArgs, c0 []float32) []float64 {
	out := make([]float64, s.M*s.N)
	act := make([]float32, 1)
	for i := range s.M {
		for j := range s.N {
			sum := 0.0
			for k := range s.K {
				sum += at64(a.A, s.LDA, i, k, s.TransA) * at64(a.B, s.LDB, k, j, s.TransB)
			}
			v := float64(s.Alpha)*sum + float64(s.Beta)*float64(c0[i*s.LDC+j])
			switch s.Epilogue.Bias {
			case simd.BiasPerRow:
				v += float64(a.Bias[i])
			case simd.BiasPerCol:
				v += float64(a.Bias[j])
			}
			if s.Epilogue.Residual {
				v += float64(a.Residual[i*s.LDR+j])
			}
			act[0] = float32(v)
			simd.UnaryGeneric(s.Epilogue.Act, act, act, s.Epilogue.P0, s.Epilogue.P1)
			if s.Epilogue.Act != simd.Identity {
				v = float64(act[0])
			}
			out[i*s.N+j] = v
		}
	}
	return out
}

// runGemm runs one product and compares it with the float64 sum.
func runGemm(t *testing.T, s GemmSpec, off int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(s.M), uint64(s.N*1000+s.K)))
	g, err := NewGemm(s)
	require.NoError(t, err)
	s = g.Spec()
	a := GemmArgs{
		A: kerntest.Noise(rng, g.needA, off), B: kerntest.Noise(rng, g.needB, off),
		Bias: kerntest.Noise(rng, max(s.M, s.N), off), Residual: kerntest.Noise(rng, g.needR, off),
	}
	c, check := kerntest.Guarded(g.needC)
	copy(c, kerntest.Noise(rng, g.needC, 0))
	c0 := append([]float32(nil), c...)
	a.C = c
	want := gemm64(s, a, c0)
	run := a
	if s.ConstA {
		run.PackedA, err = g.PackA(t.Context(), Dense(a.A))
		require.NoError(t, err)
		run.A = nil
	}
	if s.ConstB {
		run.PackedB, err = g.PackB(t.Context(), Dense(a.B))
		require.NoError(t, err)
		run.B = nil
	}
	if s.Epilogue.Residual && s.LDC == s.LDR && s.N%2 == 0 { // the residual may be the result
		copy(c0, a.Residual)
		copy(c, a.Residual)
		want = gemm64(s, a, c0)
		run.Residual = c
	}
	ws := make([]byte, g.Workspace(2))
	for i := range ws {
		ws[i] = 0xff // NaN wherever something unwritten is read
	}
	require.NoError(t, g.Run(run, ws, 2))
	check(t)
	if s.M == 1 {
		there := slices.Clone(c)
		copy(c, c0)
		run.Backwards = true
		require.NoError(t, g.Run(run, ws, 1))
		require.Equal(t, there, c, "backwards")
	}
	tol := 1e-6 * math.Sqrt(float64(s.K)+1) * 4
	for i := range s.M {
		for j := range s.N {
			require.InDelta(t, want[i*s.N+j], c[i*s.LDC+j], tol, "row %d column %d", i, j)
		}
	}
	for i := range s.M - 1 { // gaps between rows stay as they were
		for j := s.N; j < s.LDC; j++ {
			require.Equal(t, c0[i*s.LDC+j], c[i*s.LDC+j], "gap after row %d", i)
		}
	}
}

func TestGemmShapes(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for m := 1; m <= 33; m++ {
			runGemm(t, GemmSpec{M: m, N: 37, K: 19, Alpha: 1}, m%3)
		}
		for n := 1; n <= 67; n++ {
			runGemm(t, GemmSpec{M: 5, N: n, K: 8, Alpha: 1}, n%3)
			runGemm(t, GemmSpec{M: 31, N: n, K: 5, Alpha: 1}, n%3)
		}
		for k := 0; k <= 67; k++ {
			runGemm(t, GemmSpec{M: 15, N: 33, K: k, Alpha: 1, TransB: k%2 == 0, TransA: k%3 == 0}, k%3)
		}
	})
}

// TestGemmOneRow has panels of whole and of less width, one and several tasks, and blocks of K.
func TestGemmOneRow(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for i, e := range []simd.Epilogue{{}, {Bias: simd.BiasPerCol, Act: simd.Relu}, {Bias: simd.BiasPerRow, Residual: true}, {Bias: simd.BiasPerCol, Residual: true, Act: simd.Clip, P0: -1, P1: 1}} {
			for _, n := range []int{1, 16, 17, 33, 64, 95, 300} {
				for _, k := range []int{1, 6, 300} {
					for _, s := range []GemmSpec{{ConstB: true, Shared: true}, {TransB: true, ConstB: true}, {Beta: 0.5}, {LDB: n + 3}} {
						s.M, s.N, s.K, s.Alpha, s.Epilogue = 1, n, k, 1-0.5*float32(i%2), e
						runGemm(t, s, i)
					}
				}
			}
		}
	})
}

func TestGemmDots(t *testing.T) {
	epilogues := []simd.Epilogue{
		{}, {Bias: simd.BiasPerRow, Act: simd.Relu}, {Bias: simd.BiasPerCol, Residual: true, Act: simd.Sigmoid}, {Residual: true, Act: simd.Clip, P0: -1, P1: 1},
	}
	kerntest.EachLevel(t, func(t *testing.T) {
		for m := 1; m <= 5; m++ {
			for i, k := range []int{31, 32, 47, 200, 3000} {
				s := GemmSpec{M: m, N: 67, K: k, TransB: true, Alpha: 1, Epilogue: epilogues[(m+i)%4]}
				runGemm(t, s, m%3)
				s.Alpha, s.Beta, s.LDA, s.LDB, s.LDC, s.LDR = 0.5, -0.25, k+1, k+2, 70, 71
				runGemm(t, s, m%3)
			}
		}
		runGemm(t, GemmSpec{M: 1, N: 2000, K: 300, TransB: true, Alpha: 1}, 0) // several tasks
	})
}

func TestGemmVariants(t *testing.T) {
	shapes := [][3]int{{1, 100, 300}, {3, 65, 513}, {40, 70, 30}, {150, 270, 5}}
	epilogues := []simd.Epilogue{
		{},
		{Bias: simd.BiasPerRow, Act: simd.Relu},
		{Bias: simd.BiasPerCol, Residual: true, Act: simd.Clip, P0: -0.5, P1: 0.75},
		{Bias: simd.BiasPerCol, Act: simd.LeakyRelu, P0: 0.1},
		{Residual: true, Act: simd.Sigmoid},
	}
	kerntest.EachLevel(t, func(t *testing.T) {
		for v := range 64 {
			for i, sh := range shapes[v%2*2:][:2] {
				s := GemmSpec{
					M: sh[0], N: sh[1], K: sh[2], Alpha: 1,
					TransA: v&1 != 0, TransB: v&2 != 0, ConstA: v&4 != 0, ConstB: v&8 != 0,
					Epilogue: epilogues[(v+i)%len(epilogues)],
				}
				if v&16 != 0 {
					s.Alpha, s.Beta = -0.75, 0.5
				}
				if v&32 != 0 {
					s.LDA, s.LDB, s.LDC, s.LDR = 700, 701, 702, 703
				}
				runGemm(t, s, v%3)
			}
		}
	})
}

func TestGemmBatch(t *testing.T) {
	// Heads side by side in a row: [2][M][3 heads][K] × [2][3][N][K] → [2][M][3][N].
	const b, h, m, n, k = 2, 3, 9, 21, 10
	kerntest.EachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		s := GemmSpec{
			M: m, N: n, K: k, Alpha: 0.5, TransB: true, LDA: h * k, LDC: h * n,
			Batch: []BatchDim{{b, m * h * k, h * n * k, m * h * n, 0}, {h, k, n * k, n, 0}},
		}
		g, err := NewGemm(s)
		require.NoError(t, err)
		a := GemmArgs{A: kerntest.Noise(rng, b*m*h*k, 0), B: kerntest.Noise(rng, b*h*n*k, 0), C: make([]float32, b*m*h*n)}
		ws := make([]byte, g.Workspace(2))
		require.NoError(t, g.Run(a, ws, 2))
		for x := range b {
			for y := range h {
				one := a
				one.A = a.A[x*m*h*k+y*k:]
				one.B = a.B[(x*h+y)*n*k:]
				want := gemm64(g.Spec(), one, a.C)
				for i := range m {
					for j := range n {
						require.InDelta(t, want[i*n+j], a.C[((x*m+i)*h+y)*n+j], 1e-5)
					}
				}
			}
		}
	})
}

func TestGemmSpecials(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	kerntest.EachLevel(t, func(t *testing.T) {
		g, err := NewGemm(GemmSpec{M: 20, N: 40, K: 3, Alpha: 1, Epilogue: simd.Epilogue{Act: simd.Relu}})
		require.NoError(t, err)
		a := GemmArgs{A: make([]float32, 60), B: make([]float32, 120), C: make([]float32, 800)}
		for i := range a.B {
			a.B[i] = 1
		}
		a.A[3*3], a.A[5*3+1], a.A[7*3+2] = nan, inf, -inf
		require.NoError(t, g.Run(a, make([]byte, g.Workspace(1)), 1))
		for j := range 40 {
			assert.True(t, a.C[3*40+j] != a.C[3*40+j], "NaN passes through Relu")
			assert.Equal(t, inf, a.C[5*40+j])
			assert.EqualValues(t, 0, a.C[7*40+j])
			assert.EqualValues(t, 0, a.C[j])
		}
	})
}

func TestGemmThreadsAgree(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		g, err := NewGemm(GemmSpec{M: 300, N: 700, K: 520, Alpha: 1, Epilogue: simd.Epilogue{Act: simd.Tanh}})
		require.NoError(t, err)
		a := GemmArgs{A: kerntest.Noise(rng, g.needA, 0), B: kerntest.Noise(rng, g.needB, 0)}
		var first []float32
		for _, threads := range []int{1, 2, 5} {
			a.C = make([]float32, g.needC)
			require.NoError(t, g.Run(a, make([]byte, g.Workspace(threads)), threads))
			if first == nil {
				first = a.C
			}
			require.Equal(t, first, a.C, "%d threads", threads)
		}
	})
}

func TestGemmErrors(t *testing.T) {
	var spec *machine.SpecError
	var size *machine.SizeError
	for _, s := range []GemmSpec{
		{M: -1, N: 1, K: 1},
		{M: math.MaxInt >> 8, N: math.MaxInt >> 8, K: math.MaxInt >> 8},
		{M: math.MaxInt, N: 1, K: 1},
		{M: 4, N: 4, K: 4, LDA: 3},
		{M: 4, N: 4, K: 4, Batch: make([]BatchDim, 5)},
		{M: 4, N: 4, K: 4, Batch: []BatchDim{{N: 2, A: -1}}},
		{M: 4, N: 4, K: 4, Epilogue: simd.Epilogue{Act: 200}},
	} {
		_, err := NewGemm(s)
		require.ErrorAs(t, err, &spec, "%+v", s)
	}
	g, err := NewGemm(GemmSpec{M: 4, N: 4, K: 4, Alpha: 1})
	require.NoError(t, err)
	x := make([]float32, 16)
	ws := make([]byte, g.Workspace(1))
	require.NoError(t, g.Run(GemmArgs{A: x, B: x, C: make([]float32, 16)}, ws, 1))
	require.ErrorAs(t, g.Run(GemmArgs{A: x[:15], B: x, C: x}, ws, 1), &size)
	require.ErrorAs(t, g.Run(GemmArgs{A: x, B: x, C: x}, ws[:10], 1), &size)
	g, err = NewGemm(GemmSpec{M: 4, N: 4, K: 4, Alpha: 1, ConstB: true})
	require.NoError(t, err)
	require.ErrorAs(t, g.Run(GemmArgs{A: x, C: x}, ws, 1), &spec)
	g, err = NewGemm(GemmSpec{M: 0, N: 4, K: 4, Alpha: 1})
	require.NoError(t, err)
	require.NoError(t, g.Run(GemmArgs{}, nil, 1))
}

func TestGemmRunDoesNotAllocate(t *testing.T) {
	g, err := NewGemm(GemmSpec{M: 70, N: 300, K: 40, Alpha: 1, Epilogue: simd.Epilogue{Bias: simd.BiasPerCol, Act: simd.Silu, P0: 1}})
	require.NoError(t, err)
	a := GemmArgs{A: make([]float32, 2800), B: make([]float32, 12000), C: make([]float32, 21000), Bias: make([]float32, 300)}
	ws := make([]byte, g.Workspace(2))
	require.NoError(t, g.Run(a, ws, 2))
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = g.Run(a, ws, 2) }))
}

func BenchmarkGemm(b *testing.B) {
	cases := []struct {
		name   string
		s      GemmSpec
		memory bool // bound by reading B
	}{
		{"square 512", GemmSpec{M: 512, N: 512, K: 512}, false},
		{"square 1024 dynamic", GemmSpec{M: 1024, N: 1024, K: 1024}, false},
		{"bert 128x768x3072 constant B", GemmSpec{M: 128, N: 3072, K: 768, ConstB: true}, false},
		{"bert 128x3072x768 constant B", GemmSpec{M: 128, N: 768, K: 3072, ConstB: true}, false},
		{"attention 12x128x128x64", GemmSpec{M: 128, N: 128, K: 64, TransB: true, Batch: []BatchDim{{12, 8192, 8192, 16384, 0}}}, false},
		{"conv1x1 64x3136x256", GemmSpec{M: 64, N: 3136, K: 256, ConstA: true}, false},
		{"attention 64x49x16x49", GemmSpec{M: 49, N: 16, K: 49, Batch: []BatchDim{{64, 49 * 49, 49 * 16, 49 * 16, 0}}}, false},
		{"attention 64x49x8x49", GemmSpec{M: 49, N: 8, K: 49, Batch: []BatchDim{{64, 49 * 49, 49 * 8, 49 * 8, 0}}}, false},
		{"1024x192x64 constant B", GemmSpec{M: 1024, N: 64, K: 192, ConstB: true}, false},
		{"197x96x384 constant B", GemmSpec{M: 197, N: 384, K: 96, ConstB: true}, false},
		{"small 16x16x16", GemmSpec{M: 16, N: 16, K: 16}, false},
		{"gemv 1x1024x1024 constant B", GemmSpec{M: 1, N: 1024, K: 1024, ConstB: true}, true},
		{"gemv 1x4096x4096 constant B", GemmSpec{M: 1, N: 4096, K: 4096, ConstB: true}, true},
		{"gemv 1x4096x4096 KN", GemmSpec{M: 1, N: 4096, K: 4096}, true},
		{"gemv 1x4096x4096 NK", GemmSpec{M: 1, N: 4096, K: 4096, TransB: true}, true},
		{"gemm 4x4096x4096 constant B", GemmSpec{M: 4, N: 4096, K: 4096, ConstB: true}, true},
		{"gemm 8x4096x4096 constant B", GemmSpec{M: 8, N: 4096, K: 4096, ConstB: true}, true},
	}
	for _, l := range machine.Levels() {
		peak := simd.Peak(l)
		for _, c := range cases {
			b.Run(fmt.Sprintf("%s/%s", l, c.name), func(b *testing.B) {
				benchGemm(b, l, c.s, peak, c.memory)
			})
		}
	}
}

func benchGemm(b *testing.B, l machine.Level, s GemmSpec, peak float64, memory bool) {
	was := machine.Active()
	defer func() { _ = machine.Use(was) }()
	require.NoError(b, machine.Use(l))
	s.Alpha = 1
	rng := rand.New(rand.NewPCG(1, 1))
	g, err := NewGemm(s)
	require.NoError(b, err)
	a := GemmArgs{A: kerntest.Noise(rng, g.needA, 0), B: kerntest.Noise(rng, g.needB, 0), C: machine.AlignedFloats(b.Context(), g.needC)}
	if s.ConstA {
		a.PackedA, _ = g.PackA(b.Context(), Dense(a.A))
	}
	if s.ConstB {
		a.PackedB, _ = g.PackB(b.Context(), Dense(a.B))
	}
	ws := make([]byte, g.Workspace(1))
	sec := kerntest.BestOf(b, func() { _ = g.Run(a, ws, 1) })
	b.ReportMetric(float64(g.FLOPs())/sec/1e9, "GFLOP/s")
	b.ReportMetric(100*float64(g.FLOPs())/sec/peak, "%peak")
	if memory {
		b.ReportMetric(float64(s.N*s.K*4)/sec/1e9, "GB/s")
	}
}
