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

// blockedAlgorithms lists the algorithms for a convolution of blocked images.
func blockedAlgorithms(g *geometry) []ConvAlgorithm {
	switch {
	case g.depthwiseBlocks():
		return []ConvAlgorithm{ConvDepthwise}
	case g.s.Groups == 1 && g.slidesByOne():
		return []ConvAlgorithm{ConvDirect, ConvWinograd2, ConvWinograd4}
	}
	return []ConvAlgorithm{ConvDirect}
}

// blockedEnds says which of image and result are blocked.
var blockedEnds = [][2]bool{{true, true}, {true, false}, {false, true}}

// runBlocked runs a convolution with a blocked image, a blocked result, and both, by every
// algorithm, and compares with the definition. Padding channels must be zero, also for
// weights that are all alike.
func runBlocked(t *testing.T, s ConvSpec, off int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(s.InC), uint64(s.OutC+s.In[2]*1000)))
	free := geometryOf(t, s)
	s = free.Spec()
	x, w := kerntest.Noise(rng, s.Batch*s.InC*free.inN, off), kerntest.Noise(rng, free.weightLen(), off)
	a := ConvArgs{X: x, W: w, Bias: kerntest.Noise(rng, s.OutC, off), Residual: kerntest.Noise(rng, s.Batch*s.OutC*free.outN, off)}
	for _, src := range []gemm.Source{gemm.Dense(w), {Data: w[:1], Splat: true}} {
		var err error
		a.W, err = src.Elements(t.Context(), free.weightLen())
		require.NoError(t, err)
		want := conv64(free, a)
		for _, ends := range blockedEnds {
			s.InBlocked, s.OutBlocked = ends[0], ends[1]
			for _, algo := range blockedAlgorithms(free) {
				checkBlockedConv(t, s, algo, a, src, want)
			}
		}
	}
}

func checkBlockedConv(t *testing.T, s ConvSpec, algo ConvAlgorithm, a ConvArgs, src gemm.Source, want []float64) {
	c, p := packedConv(t, s, ConvPlan{Algorithm: algo}, src)
	run := a
	run.Packed = p
	if s.InBlocked {
		run.X = blocked(a.X, s.Batch, s.InC, c.inN)
	}
	if s.OutBlocked {
		run.Residual = blocked(a.Residual, s.Batch, s.OutC, c.outN)
	}
	y, check := kerntest.Guarded(s.Batch * c.outImage())
	run.Y = y
	if s.Epilogue.Residual && s.In[2]%2 == 0 { // the residual may be the result
		copy(y, run.Residual)
		run.Residual = y
	}
	ws := make([]byte, c.Workspace(2))
	for i := range ws {
		ws[i] = 0xff
	}
	require.NoError(t, c.Run(run, ws, 2))
	check(t)
	if s.OutBlocked {
		y = plainOf(t, y, s.Batch, s.OutC, c.outN)
	}
	tol := 1e-6 * math.Sqrt(float64(c.icg*c.taps)+1) * 4
	for i := range want {
		if d := math.Abs(want[i] - float64(y[i])); !(d <= tol*max(1, math.Abs(want[i]))) {
			require.InDelta(t, want[i], y[i], tol, "element %d of %+v (%s)", i, s, algo)
		}
	}
}

// blockedEpilogues add to those of plain images activations that do not map zero to zero.
var blockedEpilogues = append([]simd.Epilogue{
	{Bias: simd.BiasPerRow, Act: simd.Sigmoid},
	{Residual: true, Act: simd.Clip, P0: 0.25, P1: 1},
}, convEpilogues...)

func TestConvBlocked(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for w := 1; w <= 24; w++ {
			for _, s := range []ConvSpec{
				conv2(2, 5, 32, 1, 1+w%7, w, 3, 1, 1), conv2(1, 7, 48, 1, 5, w, 1, 1, 0), conv2(1, 32, 96, 2, 5, w, 1, 1, 0),
				conv2(2, 64, 32, 2, 7, w, 3, 2, 1), conv2(1, 3, 30, 1, 9, w, 5, 3, 2), conv2(1, 24, 20, 1, 3+w%9, w, 3, 1, 1),
				conv2(1, 20, 20, 20, 5, w, 3, 1, 1), conv2(2, 17, 17, 17, 6, w, 5, 2, 2), conv2(1, 9, 9, 9, 4, w, 1, 1, 0),
				conv2(1, 33, 17, 1, 6, w, 1, 2, 0), conv2(2, 40, 32, 1, 5, w, 1, 3, 1), conv2(1, 32, 64, 2, 7, w, 1, 1, 1),
				conv2(1, 20, 20, 20, 1+w%9, w, 7, 1, 3),
			} {
				s.Epilogue = blockedEpilogues[w%len(blockedEpilogues)]
				runBlocked(t, s, w%3)
			}
		}
		s := conv2(1, 17, 20, 1, 12, 19, 3, 1, 0)
		s.Dilation, s.PadBegin, s.PadEnd = [3]int{1, 3, 2}, [3]int{0, 1, 4}, [3]int{0, 5, 0}
		for _, e := range blockedEpilogues {
			for _, s := range []ConvSpec{s, conv2(1, 600, 20, 1, 5, 9, 1, 1, 0), conv2(1, 2*272, 2*32, 2, 4, 6, 2, 2, 0)} { // the others have several chains
				s.Epilogue = e
				runBlocked(t, s, 1)
			}
		}
		runBlocked(t, conv2(1, 9, 9, 9, 100, 130, 3, 1, 1), 0) // strips
		runBlocked(t, conv2(1, 32, 48, 1, 40, 44, 3, 1, 1), 0) // several chunks
		runBlocked(t, conv2(1, 2, 2, 2, 3, 3, 3, 1, 9), 0)     // windows of padding alone
		runBlocked(t, conv2(1, 520, 40, 1, 9, 21, 1, 1, 0), 1) // several tasks for the L2 cache
		runBlocked(t, conv2(2, 264, 24, 1, 9, 31, 3, 2, 1), 1)
	})
}

// TestConvBlockedOutliers compares tiles that are computed directly, whose residual does not lie
// in the result.
func TestConvBlockedOutliers(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 7))
		s := conv2(1, 20, 20, 1, 20, 24, 3, 1, 1)
		s.Epilogue = simd.Epilogue{Bias: simd.BiasPerRow, Residual: true, Act: simd.Relu}
		g := geometryOf(t, s)
		a := ConvArgs{X: kerntest.Noise(rng, 20*g.inN, 0), W: kerntest.Noise(rng, g.weightLen(), 0), Bias: kerntest.Noise(rng, 20, 0), Residual: kerntest.Noise(rng, 20*g.outN, 0)}
		a.X[5*g.inN+100], a.X[19*g.inN+7] = 1e7, float32(math.Inf(1))
		want := conv64(g, a)
		s.InBlocked, s.OutBlocked = true, true
		c, p := packedConv(t, s, ConvPlan{Algorithm: ConvWinograd4}, gemm.Dense(a.W))
		y := make([]float32, c.outImage())
		run := ConvArgs{Packed: p, Bias: a.Bias, X: blocked(a.X, 1, 20, g.inN), Residual: blocked(a.Residual, 1, 20, g.outN), Y: y}
		require.NoError(t, c.Run(run, make([]byte, c.Workspace(1)), 1))
		for i, v := range plainOf(t, y, 1, 20, g.outN) {
			if math.IsInf(want[i], 0) || math.IsNaN(want[i]) {
				require.False(t, math.Abs(float64(v)) < math.MaxFloat32, "element %d", i)
				continue
			}
			require.InDelta(t, want[i], v, 1e-4*max(1, math.Abs(want[i])), "element %d", i)
		}
	})
}

func TestConvBlockedThreadsAgree(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		for i, s := range []ConvSpec{conv2(1, 40, 70, 1, 30, 30, 3, 1, 1), conv2(1, 40, 40, 40, 30, 30, 3, 1, 1), conv2(1, 40, 64, 1, 30, 30, 3, 1, 1)} {
			s.InBlocked, s.OutBlocked = true, true
			s.Epilogue.Act = simd.Tanh
			c, p := packedConv(t, s, chosen(t, s, []Winograd{WinogradOff, WinogradOff, Winograd4}[i]), gemm.Dense(kerntest.Noise(rng, s.OutC*s.InC/s.Groups*9, 0)))
			a := ConvArgs{X: blocked(kerntest.Noise(rng, s.InC*c.inN, 0), 1, s.InC, c.inN), Packed: p}
			var first []float32
			for _, threads := range []int{1, 2, 5} {
				a.Y = make([]float32, c.outImage())
				ws := make([]byte, c.Workspace(threads))
				require.NoError(t, c.Run(a, ws, threads))
				if first == nil {
					first = a.Y
				}
				require.Equal(t, first, a.Y, "%d threads", threads)
				assert.Zero(t, testing.AllocsPerRun(5, func() { _ = c.Run(a, ws, threads) }))
			}
		}
	})
}

func TestConvBlockedRefuses(t *testing.T) {
	for name, change := range map[string]func(s *ConvSpec){
		"cropping":        func(s *ConvSpec) { s.PadBegin[1] = -1 },
		"volumes":         func(s *ConvSpec) { s.In[0], s.Kernel[0] = 3, 2 },
		"parts of blocks": func(s *ConvSpec) { s.Groups = 2 },
		"nothing":         func(s *ConvSpec) { s.Batch = 0 },
	} {
		s := conv2(1, 4, 4, 1, 8, 8, 3, 1, 1)
		s.InBlocked, s.OutBlocked = true, true
		change(&s)
		var spec *machine.SpecError
		_, err := NewConv(s, ConvPlan{Algorithm: ConvDirect})
		assert.ErrorAs(t, err, &spec, name)
	}
}

// BenchmarkConvBlocked compares convolutions of plain and of blocked images.
func BenchmarkConvBlocked(b *testing.B) {
	l := machine.Active()
	peak := simd.Peak(l)
	var specs []ConvSpec
	for _, c := range resnet50 {
		specs = append(specs, c.s)
	}
	specs = append(specs, conv2(1, 16, 32, 1, 128, 128, 1, 1, 0), conv2(1, 24, 144, 1, 56, 56, 1, 1, 0), conv2(1, 144, 24, 1, 56, 56, 1, 1, 0),
		conv2(1, 32, 32, 32, 112, 112, 3, 1, 1), conv2(1, 120, 120, 120, 28, 28, 5, 1, 2), conv2(1, 576, 576, 576, 14, 14, 3, 1, 1),
		conv2(1, 3, 32, 1, 224, 224, 3, 2, 1), conv2(1, 96, 32, 1, 28, 28, 3, 1, 1), conv2(1, 16, 16, 1, 160, 160, 3, 1, 1))
	for _, s := range specs {
		for _, ends := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
			s.InBlocked, s.OutBlocked = ends[0], ends[1]
			b.Run(fmt.Sprintf("%s/in=%t/out=%t", convName(s), ends[0], ends[1]), func(b *testing.B) {
				benchBlocked(b, s, peak)
			})
		}
	}
}

func benchBlocked(b *testing.B, s ConvSpec, peak float64) {
	rng := rand.New(rand.NewPCG(1, 1))
	s.Epilogue = simd.Epilogue{Bias: simd.BiasPerRow, Act: simd.Relu}
	g := geometryOf(b, s)
	c, p := packedConv(b, s, chosen(b, s, Winograd4), gemm.Dense(kerntest.Noise(rng, g.weightLen(), 0)))
	a := ConvArgs{X: kerntest.Noise(rng, c.inImage(), 0), Y: machine.AlignedFloats(b.Context(), c.outImage()), Bias: kerntest.Noise(rng, s.OutC, 0), Packed: p}
	ws := make([]byte, c.Workspace(1))
	kerntest.ReportFLOPs(b, c.FLOPs(), kerntest.BestOf(b, func() { _ = c.Run(a, ws, 1) }), peak)
}
