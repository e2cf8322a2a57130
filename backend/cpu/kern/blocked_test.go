package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// blocked converts a plain tensor; plain converts back and checks that the
// padding channels are zero.
func blocked(x []float32, n, c, spatial int) []float32 {
	y := make([]float32, BlockedLen(n, c, spatial))
	ToBlocked(y, x, n, c, spatial, 2)
	return y
}

func plainOf(t *testing.T, y []float32, n, c, spatial int) []float32 {
	t.Helper()
	x := make([]float32, n*c*spatial)
	FromBlocked(x, y, n, c, spatial, 2)
	b := Block()
	blocks := ceilDiv(c, b)
	for i, v := range y[:BlockedLen(n, c, spatial)] {
		if ch := i/(b*spatial)%blocks*b + i%b; ch >= c && v != 0 {
			require.Zero(t, v, "padding channel %d", ch)
		}
	}
	return x
}

func TestBlockedLayout(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	eachLevel(t, func(t *testing.T) {
		for c := 1; c <= 40; c++ {
			for _, sp := range []int{1, 2, 7, 16, 33, 49} {
				x := noise(rng, 2*c*sp, 1)
				y := blocked(x, 2, c, sp)
				b := Block()
				for i, v := range x {
					n, ch, p := i/sp/c, i/sp%c, i%sp
					at := ((n*ceilDiv(c, b)+ch/b)*sp+p)*b + ch%b
					if y[at] != v {
						require.Equal(t, v, y[at], "c %d spatial %d element %d", c, sp, i)
					}
				}
				require.Equal(t, x, plainOf(t, y, 2, c, sp))
				for i := range y {
					y[i] = 1
				}
				ClearPadding(y, 2, c, sp)
				plainOf(t, y, 2, c, sp)
			}
		}
	})
}

// packedBlocked prepares a blocked convolution and its weights.
func packedBlocked(t testing.TB, s BlockedSpec, w []float32) (*BlockedConv, *Packed) {
	p, err := NewBlockedConv(s)
	require.NoError(t, err, "%+v", s)
	packed, err := p.PackW(t.Context(), dense(w))
	require.NoError(t, err)
	return p, packed
}

// checkBlocked runs a blocked convolution and compares with the definition.
func checkBlocked(t *testing.T, s BlockedSpec, tol float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(s.InC), uint64(s.OutC+s.In[2]*1000)))
	geo := geometryOf(t, s.ConvSpec)
	cs := geo.Spec()
	a := ConvArgs{
		X: noise(rng, cs.Batch*cs.InC*geo.inN, 1), W: noise(rng, geo.sourceLen(), 1),
		Bias: noise(rng, cs.OutC, 1), Residual: noise(rng, cs.Batch*cs.OutC*geo.outN, 1),
	}
	want := conv64(geo, a)
	p, packed := packedBlocked(t, s, a.W)
	run := a
	run.Packed = packed
	if !s.PlainInput {
		run.X = blocked(a.X, cs.Batch, cs.InC, geo.inN)
	}
	residual := blocked(a.Residual, cs.Batch, cs.OutC, geo.outN)
	for _, threads := range []int{1, 4} {
		y, check := guarded(BlockedLen(cs.Batch, cs.OutC, geo.outN))
		for i := range y {
			y[i] = 777
		}
		run.Y, run.Residual = y, residual
		if cs.Epilogue.Residual && threads > 1 { // the residual may be the result
			copy(y, residual)
			run.Residual = y
		}
		ws := make([]byte, p.Workspace(threads))
		for i := range ws {
			ws[i] = 0xff
		}
		require.NoError(t, p.Run(run, ws, threads))
		check(t)
		got := plainOf(t, y, cs.Batch, cs.OutC, geo.outN)
		for i := range want {
			if d := math.Abs(want[i] - float64(got[i])); !(d <= tol) {
				require.InDelta(t, want[i], got[i], tol, "element %d of %+v (%s)", i, s, p.Algorithm())
			}
		}
	}
}

// blockedEpilogues are the epilogues the blocked kernels are tested with.
var blockedEpilogues = []Epilogue{
	{},
	{Bias: BiasPerRow, Act: Relu},
	{Bias: BiasPerRow, Residual: true, Act: Clip, P0: 0.1, P1: 1},
	{Residual: true, Act: LeakyRelu, P0: 0.1},
	{Bias: BiasPerRow, Act: Sigmoid},
}

func TestBlockedConv(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for w := 1; w <= 36; w++ {
			e := blockedEpilogues[w%len(blockedEpilogues)]
			for _, c := range []ConvSpec{
				conv2(1, 20, 40, 1, 1+w%5, w, 3, 1, 1), conv2(2, 16, 16, 1, 3, w, 1, 1, 0),
				conv2(1, 5, 33, 1, 7, w+4, 5, 2, 2), conv2(1, 33, 7, 1, 6, w, 1, 2, 0),
			} {
				c.Epilogue = e
				checkBlocked(t, BlockedSpec{ConvSpec: c}, 1e-4)
			}
			c := conv2(1, 3, 37, 1, 9, w+6, 7, 2, 3)
			c.Epilogue = e
			checkBlocked(t, BlockedSpec{ConvSpec: c, PlainInput: true}, 1e-4)
		}
		for _, e := range blockedEpilogues {
			grouped := conv2(2, 32, 64, 2, 6, 9, 3, 1, 1)
			grouped.Epilogue = e
			checkBlocked(t, BlockedSpec{ConvSpec: grouped}, 1e-4)
			wide := conv2(1, 17, 20, 1, 12, 19, 3, 1, 0)
			wide.Dilation, wide.PadBegin, wide.PadEnd = [3]int{1, 3, 2}, [3]int{0, 1, 4}, [3]int{0, 5, 0}
			wide.Epilogue = e
			checkBlocked(t, BlockedSpec{ConvSpec: wide}, 1e-4)
		}
		checkBlocked(t, BlockedSpec{ConvSpec: conv2(1, 64, 96, 1, 20, 30, 3, 1, 1)}, 1e-4) // several tasks
	})
}

func TestBlockedDepthwise(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for w := 1; w <= 36; w++ {
			e := blockedEpilogues[w%len(blockedEpilogues)]
			for _, c := range []ConvSpec{
				conv2(1, 20, 20, 20, 5, w, 3, 1, 1), conv2(2, 9, 9, 9, 6, w, 3, 2, 1), conv2(1, 16, 16, 16, 7, w, 5, 2, 2),
				conv2(1, 5, 5, 5, 4, w+3, 4, 1, 0), conv2(1, 3, 3, 3, 2, w, 3, 1, 4),
			} {
				c.Epilogue = e
				checkBlocked(t, BlockedSpec{ConvSpec: c}, 1e-5)
			}
		}
		c := conv2(1, 3, 3, 3, 20, 21, 3, 2, 0)
		c.Dilation, c.PadBegin, c.PadEnd = [3]int{1, 2, 3}, [3]int{0, 3, 0}, [3]int{0, 0, 5}
		checkBlocked(t, BlockedSpec{ConvSpec: c}, 1e-5)
		checkBlocked(t, BlockedSpec{ConvSpec: conv2(1, 40, 40, 40, 60, 70, 3, 1, 1)}, 1e-5)
	})
}

func TestBlockedWinograd(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for _, kind := range []Winograd{Winograd2, Winograd4} {
			for w := 1; w <= 20; w++ {
				c := conv2(1+w%2, 20, 35, 1, 1+w%9, w, 3, 1, 1)
				c.Epilogue = blockedEpilogues[w%len(blockedEpilogues)]
				checkBlocked(t, BlockedSpec{ConvSpec: c, Winograd: kind}, 2e-4)
			}
			c := conv2(1, 16, 16, 1, 9, 12, 3, 1, 0)
			c.PadBegin, c.PadEnd = [3]int{0, 2, 0}, [3]int{0, 0, 3}
			checkBlocked(t, BlockedSpec{ConvSpec: c, Winograd: kind}, 2e-4)
			c = conv2(1, 32, 48, 1, 40, 44, 3, 1, 1) // several chunks
			c.Epilogue = Epilogue{Bias: BiasPerRow, Residual: true, Act: Relu}
			checkBlocked(t, BlockedSpec{ConvSpec: c, Winograd: kind}, 2e-4)
		}
	})
}

// TestWinogradError measures the rounding of the algorithms on data like that
// of a network: inputs not negative, weights scaled to keep the variance.
func TestWinogradError(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	eachLevel(t, func(t *testing.T) {
		spec := conv2(1, 64, 32, 1, 16, 16, 3, 1, 1)
		geo := geometryOf(t, spec)
		a := ConvArgs{X: make([]float32, 64*256), W: make([]float32, geo.sourceLen())}
		for i := range a.X {
			a.X[i] = float32(math.Max(0, rng.NormFloat64()))
		}
		for i := range a.W {
			a.W[i] = float32(rng.NormFloat64() / 24)
		}
		want := conv64(geo, a)
		run := ConvArgs{X: blocked(a.X, 1, 64, 256), Y: make([]float32, BlockedLen(1, 32, 256))}
		for kind, limit := range []float64{5e-7, 5e-7, 1.2e-6} {
			p, packed := packedBlocked(t, BlockedSpec{ConvSpec: spec, Winograd: Winograd(kind)}, a.W)
			run.Packed = packed
			require.NoError(t, p.Run(run, make([]byte, p.Workspace(1)), 1))
			got := plainOf(t, run.Y, 1, 32, 256)
			e, n := 0.0, 0.0
			for i, v := range want {
				e += (v - float64(got[i])) * (v - float64(got[i]))
				n += v * v
			}
			t.Logf("%s %d: relative error %.2g", p.Algorithm(), kind, math.Sqrt(e/n))
			assert.Less(t, math.Sqrt(e/n), limit)
		}
	})
}

func TestBlockedThreadsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	eachLevel(t, func(t *testing.T) {
		for _, s := range []BlockedSpec{
			{ConvSpec: conv2(1, 48, 64, 1, 30, 30, 3, 1, 1)}, {ConvSpec: conv2(1, 48, 64, 1, 30, 30, 3, 1, 1), Winograd: Winograd4},
			{ConvSpec: conv2(1, 48, 48, 48, 60, 60, 3, 1, 1)}, {ConvSpec: conv2(1, 48, 64, 1, 30, 30, 1, 1, 0)},
		} {
			geo := geometryOf(t, s.ConvSpec)
			p, packed := packedBlocked(t, s, noise(rng, geo.sourceLen(), 0))
			a := ConvArgs{Packed: packed, X: blocked(noise(rng, s.InC*geo.inN, 0), 1, s.InC, geo.inN)}
			var first []float32
			for _, threads := range []int{1, 2, 7} {
				a.Y = make([]float32, BlockedLen(1, s.OutC, geo.outN))
				require.NoError(t, p.Run(a, make([]byte, p.Workspace(threads)), threads))
				if first == nil {
					first = a.Y
				}
				require.Equal(t, first, a.Y, "%d threads", threads)
			}
			ws := make([]byte, p.Workspace(2))
			require.NoError(t, p.Run(a, ws, 2))
			assert.Zero(t, testing.AllocsPerRun(5, func() { _ = p.Run(a, ws, 2) }), p.Algorithm())
		}
	})
}

func TestBlockedPool(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	eachLevel(t, func(t *testing.T) {
		for kind := PoolMax; kind <= PoolAveragePad; kind++ {
			for w := 3; w <= 30; w++ {
				for _, s := range []PoolSpec{
					{Kind: kind, Batch: 2, Channels: 5, In: [2]int{5, w}, Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, PadBegin: [2]int{1, 1}, PadEnd: [2]int{1, 1}, Ceil: w%2 == 0},
					{Kind: kind, Batch: 1, Channels: 32, In: [2]int{7, w}, Kernel: [2]int{3, 2}, Stride: [2]int{1, 3}, Dilation: [2]int{2, 2}, PadEnd: [2]int{2, 1}},
				} {
					p, err := NewBlockedPool(s)
					require.NoError(t, err)
					in, out := s.In[0]*s.In[1], p.Out()
					x := noise(rng, s.Batch*s.Channels*in, 0)
					y, check := guarded(BlockedLen(s.Batch, s.Channels, out[0]*out[1]))
					require.NoError(t, p.Run(blocked(x, s.Batch, s.Channels, in), y, 2))
					check(t)
					for i, v := range plainOf(t, y, s.Batch, s.Channels, out[0]*out[1]) {
						want := pool64(p.p, x[i/out[1]/out[0]*in:][:in], i/out[1]%out[0], i%out[1])
						if d := math.Abs(want - float64(v)); !(d < 1e-5) {
							require.InDelta(t, want, v, 1e-5, "%+v", s)
						}
					}
				}
			}
		}
	})
}

func TestBlockedPoolMaxNaN(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for at := range 4 {
			p, err := NewBlockedPool(PoolSpec{Batch: 1, Channels: 1, In: [2]int{2, 2}, Kernel: [2]int{2, 2}})
			require.NoError(t, err)
			x := []float32{1, 2, 3, 4}
			x[at] = float32(math.NaN())
			y := make([]float32, Block())
			require.NoError(t, p.Run(blocked(x, 1, 1, 4), y, 1))
			assert.True(t, y[0] != y[0], "NaN at %d", at)
		}
	})
}

func TestBlockedScaleAndMean(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	eachLevel(t, func(t *testing.T) {
		for _, c := range []int{1, 7, 16, 35} {
			for _, sp := range []int{1, 9, 50} {
				x := noise(rng, 2*c*sp, 0)
				scale, shift := noise(rng, 2*c, 0), noise(rng, 2*c, 0)
				y := make([]float32, BlockedLen(2, c, sp))
				for _, perImage := range []bool{false, true} {
					BlockedScale(y, blocked(x, 2, c, sp), scale, shift, 2, c, sp, perImage, 2)
					for i, v := range plainOf(t, y, 2, c, sp) {
						k := i / sp % c
						if perImage {
							k = i / sp
						}
						require.InDelta(t, x[i]*scale[k]+shift[k], v, 1e-6)
					}
				}
				mean := make([]float32, 2*c)
				BlockedGlobalAverage(mean, blocked(x, 2, c, sp), 2, c, sp, 2)
				for k := range mean {
					sum := 0.0
					for _, v := range x[k*sp:][:sp] {
						sum += float64(v)
					}
					require.InDelta(t, sum/float64(sp), mean[k], 1e-6)
				}
			}
		}
	})
}

func TestBlockedErrors(t *testing.T) {
	var spec *SpecError
	bad := []func(s *BlockedSpec){
		func(s *BlockedSpec) { s.Groups = 2 },
		func(s *BlockedSpec) { s.PadBegin[1] = -1 },
		func(s *BlockedSpec) { s.In[0] = 4 },
		func(s *BlockedSpec) { s.Batch = 0 },
	}
	for i, change := range bad {
		s := BlockedSpec{ConvSpec: conv2(1, 6, 6, 1, 8, 8, 3, 1, 1)}
		change(&s)
		_, err := NewBlockedConv(s)
		assert.ErrorAs(t, err, &spec, "case %d", i)
	}
}

// benchBlocked measures one convolution and returns the seconds of a run.
func benchBlocked(b *testing.B, s BlockedSpec, peak float64) float64 {
	rng := rand.New(rand.NewPCG(1, 1))
	s.Epilogue = Epilogue{Bias: BiasPerRow, Act: Relu}
	geo := geometryOf(b, s.ConvSpec)
	p, packed := packedBlocked(b, s, noise(rng, geo.sourceLen(), 0))
	a := ConvArgs{Packed: packed, X: noise(rng, p.inLen(), 0), Y: alignedFloats(p.outLen()), Bias: noise(rng, s.OutC, 0)}
	ws := make([]byte, p.Workspace(1))
	sec := bestOf(b, func() { _ = p.Run(a, ws, 1) })
	reportFLOPs(b, p.FLOPs(), sec, peak)
	return sec
}

func BenchmarkBlockedResNet50(b *testing.B) {
	for _, l := range Levels() {
		if l == LevelGeneric {
			continue
		}
		peak := Peak(l)
		for kind := WinogradOff; kind <= Winograd4; kind++ {
			total := 0.0
			for _, c := range resnet50 {
				if kind != WinogradOff && (c.s.Kernel[2] != 3 || c.s.Stride[2] != 1) {
					continue
				}
				b.Run(fmt.Sprintf("%s/winograd%d/%s", l, 2*kind, convName(c.s)), func(b *testing.B) {
					atLevel(b, l, func(b *testing.B) {
						s := BlockedSpec{ConvSpec: c.s, Winograd: kind, PlainInput: c.s.InC == 3}
						total += float64(c.count) * benchBlocked(b, s, peak)
					})
				})
			}
			b.Logf("%s winograd %d: %.1f ms", l, 2*kind, total*1e3)
		}
	}
}

func BenchmarkBlockedDepthwise(b *testing.B) {
	for _, l := range Levels() {
		peak := Peak(l)
		for _, s := range []ConvSpec{
			conv2(1, 32, 32, 32, 112, 112, 3, 1, 1), conv2(1, 64, 64, 64, 112, 112, 3, 2, 1),
			conv2(1, 256, 256, 256, 28, 28, 3, 1, 1), conv2(1, 1024, 1024, 1024, 7, 7, 3, 1, 1),
			conv2(1, 240, 240, 240, 28, 28, 5, 2, 2), conv2(1, 120, 120, 120, 28, 28, 5, 1, 2),
		} {
			b.Run(fmt.Sprintf("%s/%s", l, convName(s)), func(b *testing.B) {
				atLevel(b, l, func(b *testing.B) { benchBlocked(b, BlockedSpec{ConvSpec: s}, peak) })
			})
		}
	}
}

func BenchmarkBlockedLayout(b *testing.B) {
	const c, sp = 64, 56 * 56
	for _, l := range Levels() {
		atLevel(b, l, func(b *testing.B) {
			x, y := alignedFloats(c*sp), alignedFloats(BlockedLen(1, c, sp))
			b.Run(l.String()+"/to", func(b *testing.B) {
				b.ReportMetric(8*c*sp/bestOf(b, func() { ToBlocked(y, x, 1, c, sp, 1) })/1e9, "GB/s")
			})
			b.Run(l.String()+"/from", func(b *testing.B) {
				b.ReportMetric(8*c*sp/bestOf(b, func() { FromBlocked(x, y, 1, c, sp, 1) })/1e9, "GB/s")
			})
		})
	}
}
