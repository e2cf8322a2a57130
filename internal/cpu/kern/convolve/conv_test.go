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

// conv64 is the convolution in float64, straight from its definition.
func conv64(c *geometry, a ConvArgs) []float64 {
	s := c.Spec()
	out := make([]float64, s.Batch*s.OutC*c.outN)
	act := make([]float32, 1)
	for i := range out {
		x, y, z := i%c.out[2], i/c.out[2]%c.out[1], i/c.out[2]/c.out[1]%c.out[0]
		oc, n := i/c.outN%s.OutC, i/c.outN/s.OutC
		sum := 0.0
		for ic := range c.icg {
			in := a.X[(n*s.InC+oc/c.ocg*c.icg+ic)*c.inN:]
			for t := range c.taps {
				iz := z*s.Stride[0] + t/s.Kernel[2]/s.Kernel[1]*s.Dilation[0] - s.PadBegin[0]
				iy := y*s.Stride[1] + t/s.Kernel[2]%s.Kernel[1]*s.Dilation[1] - s.PadBegin[1]
				ix := x*s.Stride[2] + t%s.Kernel[2]*s.Dilation[2] - s.PadBegin[2]
				if iz >= 0 && iz < s.In[0] && iy >= 0 && iy < s.In[1] && ix >= 0 && ix < s.In[2] {
					sum += float64(in[(iz*s.In[1]+iy)*s.In[2]+ix]) * float64(a.W[(oc*c.icg+ic)*c.taps+t])
				}
			}
		}
		if s.Epilogue.Bias != simd.NoBias {
			sum += float64(a.Bias[oc])
		}
		if s.Epilogue.Residual {
			sum += float64(a.Residual[i])
		}
		if s.Epilogue.Act != simd.Identity {
			act[0] = float32(sum)
			simd.UnaryGeneric(s.Epilogue.Act, act, act, s.Epilogue.P0, s.Epilogue.P1)
			sum = float64(act[0])
		}
		if s.Shuffle {
			out[(i/(c.outN*s.OutC)*s.OutC+oc%c.ocg*s.Groups+oc/c.ocg)*c.outN+i%c.outN] = sum
			continue
		}
		out[i] = sum
	}
	return out
}

// geometryOf is the geometry of a specification that is valid.
func geometryOf(t testing.TB, s ConvSpec) *geometry {
	g, err := newGeometry(s)
	require.NoError(t, err, "%+v", s)
	return g
}

// fitting lists the algorithms that can compute a convolution.
func fitting(g *geometry) []ConvAlgorithm {
	out := []ConvAlgorithm{ConvPatches}
	if g.isPointwise() {
		out = append(out, ConvPointwise)
	}
	if g.isDepthwise() && !g.s.Shuffle || g.multiplies() {
		out = append(out, ConvDepthwise)
	}
	if g.directFits() {
		out = append(out, ConvDirect)
		if g.s.Groups == 1 && g.slidesByOne() && !g.s.Shuffle {
			out = append(out, ConvWinograd2, ConvWinograd4)
		}
	}
	constant := *g
	constant.s.ConstW = true
	if _, ok := constant.planPlanes(ConvPolicy{Winograd: Winograd4}); ok {
		out = append(out, ConvPlanes)
	}
	return out
}

// chosen is the algorithm for weights that are constant, of those that package convolve
// computes.
func chosen(t testing.TB, s ConvSpec, most Winograd) ConvPlan {
	s.Epilogue.Residual = true // nothing is left to the caller
	s.ConstW = true
	p, err := PlanConv(s, ConvPolicy{Winograd: most})
	require.NoError(t, err)
	return p
}

// packedConv prepares a convolution whose weights are packed.
func packedConv(t testing.TB, s ConvSpec, p ConvPlan, w gemm.Source) (*Conv, *gemm.Packed) {
	s.ConstW = true
	c, err := NewConv(s, p)
	require.NoError(t, err, "%+v", s)
	packed, err := c.PackW(t.Context(), w)
	require.NoError(t, err)
	return c, packed
}

// runConv runs one convolution by every algorithm that fits, with packed weights and
// with weights given at run time, and compares with the definition. Weights that are
// all alike give the same bytes as one element as they do written out.
func runConv(t *testing.T, s ConvSpec, off int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(s.InC), uint64(s.OutC+s.In[2]*1000)))
	free := geometryOf(t, s)
	s = free.Spec()
	a := ConvArgs{
		X: kerntest.Noise(rng, s.Batch*s.InC*free.inN, off), W: kerntest.Noise(rng, free.weightLen(), off),
		Bias: kerntest.Noise(rng, s.OutC, off), Residual: kerntest.Noise(rng, s.Batch*s.OutC*free.outN, off),
	}
	want := conv64(free, a)
	for _, algo := range fitting(free) {
		checkConv(t, s, algo, a, want)
		same := gemm.Source{Data: []float32{a.Bias[0]}, Splat: true}
		c, one := packedConv(t, s, ConvPlan{Algorithm: algo}, same)
		all, err := same.Elements(t.Context(), free.weightLen())
		require.NoError(t, err)
		_, full := packedConv(t, s, ConvPlan{Algorithm: algo}, gemm.Dense(all))
		assert.LessOrEqual(t, one.Bytes(), full.Bytes()+4*(gemm.GemmBlockK*free.t.Mr+machine.SlackFloats))
		ws := make([]byte, c.Workspace(2))
		y := [2][]float32{make([]float32, len(want)), make([]float32, len(want))}
		for i, p := range []*gemm.Packed{one, full} {
			run := a
			run.Packed, run.Y = p, y[i]
			require.NoError(t, c.Run(run, ws, 2))
		}
		require.Equal(t, y[1], y[0], "%+v (%s)", s, algo)
	}
}

// checkConv compares an algorithm with the definition.
func checkConv(t *testing.T, s ConvSpec, algo ConvAlgorithm, a ConvArgs, want []float64) {
	c, p := packedConv(t, s, ConvPlan{Algorithm: algo}, gemm.Dense(a.W))
	a.Packed = p
	tol := 1e-6 * math.Sqrt(float64(c.icg*c.taps)+1) * 4
	convs := []*Conv{c}
	if free, err := NewConv(s, ConvPlan{Algorithm: algo}); algo != ConvPlanes {
		require.NoError(t, err)
		convs = append(convs, free)
	} else {
		require.Error(t, err, "the algorithm takes packed weights only")
	}
	for _, c := range convs {
		y, check := kerntest.Guarded(len(want))
		a.Y = y
		ws := make([]byte, c.Workspace(2))
		for i := range ws {
			ws[i] = 0xff
		}
		run := a
		if s.Epilogue.Residual && s.In[2]%2 == 0 { // the residual may be the result
			copy(y, a.Residual)
			run.Residual = y
		}
		require.NoError(t, c.Run(run, ws, 2))
		check(t)
		for i := range want {
			if d := math.Abs(want[i] - float64(y[i])); !(d <= tol) {
				require.InDelta(t, want[i], y[i], tol, "element %d of %+v (%s)", i, s, algo)
			}
		}
	}
}

// conv2 is a 2-D specification with equal padding.
func conv2(batch, inC, outC, groups, h, w, k, stride, pad int) ConvSpec {
	return ConvSpec{
		Batch: batch, InC: inC, OutC: outC, Groups: groups,
		In: [3]int{1, h, w}, Kernel: [3]int{1, k, k}, Stride: [3]int{1, stride, stride},
		PadBegin: [3]int{0, pad, pad}, PadEnd: [3]int{0, pad, pad},
	}
}

// convEpilogues are epilogues that all algorithms are tested with.
var convEpilogues = []simd.Epilogue{
	{},
	{Bias: simd.BiasPerRow, Act: simd.Relu},
	{Bias: simd.BiasPerRow, Residual: true, Act: simd.Clip, P0: -0.25, P1: 1},
	{Residual: true, Act: simd.LeakyRelu, P0: 0.1},
	{Bias: simd.BiasPerRow, Act: simd.Silu, P0: 1},
}

func TestConvShapes(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for w := 1; w <= 36; w++ {
			runConv(t, conv2(1, 5, 7, 1, 1+w%5, w, 3, 1, 1), w%3)
			runConv(t, conv2(1, 3, 4, 1, 3+w%4, w+6, 7, 2, 3), w%3)
			runConv(t, conv2(2, 4, 6, 2, 6, w+4, 5, 3, 2), w%3)
			runConv(t, conv2(1, 9, 17, 1, 3, w, 1, 1, 0), w%3)
			runConv(t, conv2(2, 6, 15, 3, 3, w, 1, 2, 0), w%3)
			runConv(t, conv2(2, 9, 18, 9, 1+w%6, w+3, 5, 1+w%2, 2), w%3) // two outputs to each input channel
		}
		runConv(t, conv2(1, 37, 111, 37, 23, 25, 7, 2, 3), 0)
		runConv(t, conv2(1, 70, 40, 1, 7, 7, 3, 1, 1), 0)  // several blocks of K
		runConv(t, conv2(1, 300, 33, 1, 5, 7, 1, 1, 0), 1) // the same, pointwise
		runConv(t, conv2(1, 4, 8, 1, 40, 40, 3, 1, 1), 0)  // several tiles
		runConv(t, conv2(1, 24, 300, 1, 6, 6, 3, 1, 1), 0) // channels cut into tiles
		runConv(t, conv2(3, 8, 8, 4, 9, 9, 3, 1, 1), 0)    // groups
	})
}

func TestConvDepthwise(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for w := 1; w <= 67; w++ {
			runConv(t, conv2(1, 3, 3, 3, 5, w, 3, 1, 1), w%3)
			runConv(t, conv2(2, 2, 2, 2, 6, w, 3, 2, 1), w%3)
			runConv(t, conv2(1, 2, 2, 2, 7, w+4, 5, 1, 2), w%3)
			runConv(t, conv2(1, 2, 2, 2, 9, w+4, 5, 2, 2), w%3)
			runConv(t, conv2(1, 2, 2, 2, 9, w+4, 4, 3, 1), w%3)
			s := conv2(1, 20, 20, 20, 5, w, 3, 1, 1)
			s.Epilogue = convEpilogues[w%len(convEpilogues)]
			runConv(t, s, w%3)
		}
		runConv(t, conv2(1, 9, 9, 9, 100, 130, 3, 1, 1), 0) // strips
		runConv(t, conv2(1, 40, 40, 40, 7, 7, 3, 1, 1), 0)
		s := conv2(1, 3, 3, 3, 20, 21, 3, 2, 0)
		s.Dilation, s.PadBegin, s.PadEnd = [3]int{1, 2, 3}, [3]int{0, 3, 0}, [3]int{0, 0, 5}
		runConv(t, s, 1)
		s.Epilogue = simd.Epilogue{Bias: simd.BiasPerRow, Residual: true, Act: simd.Clip, P0: 0, P1: 0.5}
		runConv(t, s, 1)
		s.Epilogue = simd.Epilogue{Bias: simd.BiasPerRow, Act: simd.HardSwish}
		runConv(t, s, 1)
	})
}

func TestConvVariants(t *testing.T) {
	wide := conv2(1, 6, 10, 2, 12, 19, 3, 1, 0)
	wide.Dilation, wide.PadBegin, wide.PadEnd = [3]int{1, 3, 2}, [3]int{0, 1, 4}, [3]int{0, 5, 0}
	crop := conv2(1, 3, 5, 1, 12, 19, 3, 2, -2)
	threeD := ConvSpec{
		Batch: 2, InC: 3, OutC: 5, In: [3]int{4, 5, 6}, Kernel: [3]int{3, 2, 3},
		Stride: [3]int{1, 2, 1}, PadBegin: [3]int{1, 0, 2}, PadEnd: [3]int{0, 1, 1},
	}
	slides := threeD
	slides.InC, slides.OutC, slides.In, slides.Kernel = 18, 34, [3]int{5, 13, 14}, [3]int{3, 3, 3}
	slides.Stride, slides.PadBegin, slides.PadEnd = [3]int{2, 1, 1}, [3]int{1, 1, 1}, [3]int{1, 1, 1}
	deep := slides
	deep.Kernel, deep.PadBegin, deep.PadEnd = [3]int{3, 1, 1}, [3]int{1, 0, 0}, [3]int{1, 0, 0}
	oneD := ConvSpec{Batch: 2, InC: 7, OutC: 20, In: [3]int{1, 1, 50}, Kernel: [3]int{1, 1, 9}, PadBegin: [3]int{0, 0, 8}}
	far := conv2(1, 2, 3, 1, 3, 3, 3, 1, 9) // whole vectors of padding
	kerntest.EachLevel(t, func(t *testing.T) {
		for _, s := range []ConvSpec{wide, crop, threeD, slides, deep, oneD, far, conv2(1, 12, 33, 1, 9, 11, 1, 1, 0), conv2(1, 40, 10, 1, 6, 8, 3, 1, 1)} {
			for _, e := range convEpilogues {
				s.Epilogue = e
				runConv(t, s, 1)
			}
		}
	})
}

// TestConvShuffle: groups whose channels are written in turns.
func TestConvShuffle(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for i, s := range []ConvSpec{
			conv2(2, 12, 136, 4, 7, 7, 1, 1, 0), conv2(1, 68, 68, 2, 14, 14, 1, 1, 0), conv2(1, 6, 33, 3, 32, 32, 1, 1, 0),
			conv2(1, 6, 66, 2, 9, 11, 3, 1, 1), conv2(2, 8, 8, 8, 5, 19, 3, 2, 1), conv2(1, 600, 8, 2, 5, 5, 1, 1, 0),
		} {
			s.Shuffle, s.Epilogue = true, simd.Epilogue{Bias: simd.BiasPerRow, Act: []simd.UnaryOp{simd.Relu, simd.Identity, simd.HardSwish}[i%3]}
			runConv(t, s, i%3)
		}
		s := conv2(1, 8, 8, 2, 5, 5, 1, 1, 0)
		s.Shuffle, s.Epilogue.Residual = true, true
		_, err := NewConv(s, ConvPlan{Algorithm: ConvDirect})
		require.Error(t, err)
	})
}

func TestConvWinograd(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for w := 1; w <= 20; w++ {
			for i := range 2 {
				s := conv2(1+w%2, 20, 33+2*i, 1, 1+w%9, w, 3, 1, 1)
				s.Epilogue = convEpilogues[(w+i)%len(convEpilogues)]
				runConv(t, s, 1)
			}
		}
		s := conv2(1, 16, 16, 1, 9, 12, 3, 1, 0)
		s.PadBegin, s.PadEnd = [3]int{0, 2, 0}, [3]int{0, 0, 3}
		runConv(t, s, 1)
		s = conv2(1, 32, 48, 1, 40, 44, 3, 1, 1) // several chunks
		s.Epilogue = simd.Epilogue{Bias: simd.BiasPerRow, Residual: true, Act: simd.Relu}
		runConv(t, s, 1)
	})
}

// TestWinogradFilters holds packed weights against G·g·Gᵀ from its definition, at float32's precision.
func TestWinogradFilters(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	kerntest.EachLevel(t, func(t *testing.T) {
		for m, algo := range map[int]ConvAlgorithm{2: ConvWinograd2, 4: ConvWinograd4} {
			spec := conv2(1, 35, 53, 1, 16, 16, 3, 1, 1)
			w := make([]float32, 53*35*9)
			for i := range w {
				w[i] = float32(rng.NormFloat64())
			}
			p, packed := packedConv(t, spec, ConvPlan{Algorithm: algo}, gemm.Dense(w))
			wino, g := p.algo.(*winograd), filterMatrix(m)
			for oc := range 53 {
				for ic := range 35 {
					v := filterTransform(g, w[(oc*35+ic)*9:][:9])
					for pos, want := range v {
						pair, lane := oc/(2*wino.b), oc%(2*wino.b)
						width := wino.b * min(2, wino.outBlocks-2*pair)
						got := packed.Data[wino.weightAt(pos, pair, false)+ic*width+lane]
						require.InDelta(t, want, got, 1e-7*math.Abs(want)+1e-12, "F(%d,3), filter %d of channel %d, position %d", m, oc, ic, pos)
					}
				}
			}
		}
	})
}

// filterMatrix is G of F(m,3): rows (1, p, p²)/Π(p−q) for the points, and (0, 0, 1).
func filterMatrix(m int) (g [][3]float64) {
	for i, p := range simd.WinoPoints(m) {
		d := 1.0
		for j, q := range simd.WinoPoints(m) {
			if i != j {
				d *= p - q
			}
		}
		g = append(g, [3]float64{1 / d, p / d, p * p / d})
	}
	return append(g, [3]float64{0, 0, 1})
}

// filterTransform is G·k·Gᵀ, row by row.
func filterTransform(g [][3]float64, k []float32) (v []float64) {
	for _, a := range g {
		for _, b := range g {
			sum := 0.0
			for y := range 3 {
				for x := range 3 {
					sum += a[y] * float64(k[3*y+x]) * b[x]
				}
			}
			v = append(v, sum)
		}
	}
	return v
}

// TestWinogradError measures the rounding of the algorithms on data like that
// of a network: inputs not negative, weights scaled to keep the variance.
func TestWinogradError(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	kerntest.EachLevel(t, func(t *testing.T) {
		spec := conv2(1, 64, 32, 1, 16, 16, 3, 1, 1)
		geo := geometryOf(t, spec)
		a := ConvArgs{X: make([]float32, 64*256), W: make([]float32, geo.weightLen())}
		for i := range a.X {
			a.X[i] = float32(math.Max(0, rng.NormFloat64()))
		}
		for i := range a.W {
			a.W[i] = float32(rng.NormFloat64() / 24)
		}
		want := conv64(geo, a)
		for algo, limit := range map[ConvAlgorithm]float64{ConvPatches: 2.5e-7, ConvWinograd2: 2.5e-7, ConvWinograd4: 7e-7} {
			p, packed := packedConv(t, spec, ConvPlan{Algorithm: algo}, gemm.Dense(a.W))
			run := ConvArgs{X: a.X, Y: make([]float32, len(want)), Packed: packed}
			require.NoError(t, p.Run(run, make([]byte, p.Workspace(1)), 1))
			e, n := 0.0, 0.0
			for i, v := range want {
				e += (v - float64(run.Y[i])) * (v - float64(run.Y[i]))
				n += v * v
			}
			t.Logf("%s: relative error %.2g", algo, math.Sqrt(e/n))
			assert.Less(t, math.Sqrt(e/n), limit)
		}
	})
}

func TestConvDirect(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for w := 1; w <= 30; w++ {
			for _, s := range []ConvSpec{
				conv2(2, 5, 32, 1, 1+w%7, w, 3, 1, 1), conv2(1, 7, 48, 1, 5, w, 1, 1, 0), conv2(1, 6, 62, 2, 5, w, 1, 1, 0),
				conv2(2, 6, 32, 2, 7, w, 3, 2, 1), conv2(1, 3, 30, 1, 9, w, 5, 3, 2), conv2(1, 4, 40, 1, 40, w, 3, 1, 1),
			} {
				s.Epilogue = convEpilogues[w%len(convEpilogues)]
				runConv(t, s, w%3)
			}
		}
		s := conv2(1, 17, 20, 1, 12, 19, 3, 1, 0)
		s.Dilation, s.PadBegin, s.PadEnd = [3]int{1, 3, 2}, [3]int{0, 1, 4}, [3]int{0, 5, 0}
		runConv(t, s, 1)
	})
}

func TestGroupRows(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for w := 1; w <= 60; w += 1 + w/8 {
			for i, s := range []ConvSpec{
				conv2(2, 24, 24, 3, 1+w%9, w, 3, 1, 1), conv2(1, 24, 24, 3, 2+w%9, w, 3, 2, 1), conv2(1, 8, 8, 2, 7, w, 3, 1, 1),
				conv2(1, 12, 24, 2, 6, w, 5, 2, 2), conv2(1, 6, 48, 2, 30, w, 2, 2, 1), conv2(1, 16, 16, 2, 3+w, w, 3, 1, 1),
			} {
				s.Epilogue = convEpilogues[(w+i)%len(convEpilogues)]
				s.Epilogue.Residual = false
				runConv(t, s, w%3)
			}
		}
		s := conv2(1, 10, 16, 2, 12, 19, 3, 2, 0)
		s.Dilation, s.PadBegin, s.PadEnd = [3]int{1, 3, 2}, [3]int{0, 1, 4}, [3]int{0, 5, 0}
		runConv(t, s, 1)
		s.Stride, s.PadBegin = [3]int{1, 1, 2}, [3]int{0, 0, 30} // a column of padding alone
		runConv(t, s, 1)
		s.Kernel = [3]int{1, 16, 16} // too many taps
		s.PadBegin[1], s.PadEnd[1] = 20, 30
		runConv(t, s, 1)
	})
}

func TestGroupChannels(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for _, tt := range []struct {
			s            ConvSpec
			avx2, avx512 int
		}{
			{conv2(1, 64, 64, 8, 28, 28, 3, 1, 1), 0, 8}, {conv2(1, 64, 64, 16, 28, 28, 3, 2, 1), 4, 4}, {conv2(1, 48, 48, 2, 28, 28, 3, 1, 1), 0, 8},
			{conv2(1, 64, 64, 4, 28, 28, 3, 1, 1), 0, 0}, {conv2(1, 64, 64, 8, 28, 28, 3, 3, 1), 0, 0}, {conv2(1, 64, 64, 8, 28, 28, 1, 1, 0), 0, 0},
		} {
			g := geometryOf(t, tt.s)
			want := map[machine.Level]int{machine.LevelAVX2: tt.avx2, machine.LevelAVX512: tt.avx512}[g.t.Level]
			assert.Equal(t, want, g.groupChannels(), "%+v", tt.s)
		}
	})
}

func TestConvThreadsAgree(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		for i, s := range []ConvSpec{
			conv2(1, 40, 70, 1, 30, 30, 3, 1, 1), conv2(1, 40, 64, 1, 30, 30, 3, 1, 1), conv2(1, 40, 40, 40, 30, 30, 3, 1, 1), conv2(1, 40, 64, 1, 30, 30, 3, 1, 1),
			conv2(1, 40, 40, 5, 30, 30, 3, 1, 1),
		} {
			s.Epilogue.Act = simd.Tanh
			c, p := packedConv(t, s, chosen(t, s, []Winograd{WinogradOff, WinogradOff, WinogradOff, Winograd4, WinogradOff}[i]), gemm.Dense(kerntest.Noise(rng, s.OutC*s.InC/s.Groups*9, 0)))
			a := ConvArgs{X: kerntest.Noise(rng, s.InC*c.inN, 0), Packed: p}
			var first []float32
			for _, threads := range []int{1, 2, 5} {
				a.Y = make([]float32, s.OutC*c.outN)
				require.NoError(t, c.Run(a, make([]byte, c.Workspace(threads)), threads))
				if first == nil {
					first = a.Y
				}
				require.Equal(t, first, a.Y, "%d threads", threads)
			}
		}
	})
}

func TestConvErrors(t *testing.T) {
	var spec *machine.SpecError
	var size *machine.SizeError
	bad := []func(s *ConvSpec){
		func(s *ConvSpec) { s.Groups = 3 },
		func(s *ConvSpec) { s.Kernel[1] = 0 },
		func(s *ConvSpec) { s.Kernel[2] = 12 },
		func(s *ConvSpec) { s.In[1] = math.MaxInt / 2 },
		func(s *ConvSpec) { s.In = [3]int{math.MaxInt >> 20, math.MaxInt >> 20, math.MaxInt >> 20} },
		func(s *ConvSpec) { s.Dilation[1], s.Kernel[1] = math.MaxInt/2, math.MaxInt/2 },
		func(s *ConvSpec) { s.Epilogue.Bias = simd.BiasPerCol },
		func(s *ConvSpec) { s.Epilogue.Act = 99 },
		func(s *ConvSpec) { s.Batch = -1 },
	}
	for i, change := range bad {
		s := conv2(1, 4, 4, 1, 8, 8, 3, 1, 1)
		change(&s)
		_, err := NewConv(s, ConvPlan{})
		assert.ErrorAs(t, err, &spec, "case %d", i)
	}
	s := conv2(1, 4, 4, 1, 8, 8, 3, 1, 1)
	c, p := packedConv(t, s, ConvPlan{}, gemm.Dense(make([]float32, 144)))
	_, err := c.PackW(t.Context(), gemm.Dense(make([]float32, 10)))
	require.ErrorAs(t, err, &size)
	_, err = NewConv(s, ConvPlan{Algorithm: ConvRows})
	require.ErrorAs(t, err, &spec)
	x := make([]float32, 256)
	ws := make([]byte, c.Workspace(1))
	require.ErrorAs(t, c.Run(ConvArgs{X: x[1:], Y: x, Packed: p}, ws, 1), &size)
	require.ErrorAs(t, c.Run(ConvArgs{X: x, Y: x[1:], Packed: p}, ws, 1), &size)
	require.ErrorAs(t, c.Run(ConvArgs{X: x, Y: x, Packed: p}, ws[1:], 1), &size)
	require.ErrorAs(t, c.Run(ConvArgs{X: x, Y: x}, ws, 1), &spec)
}

func TestConvRunDoesNotAllocate(t *testing.T) {
	for i, s := range []ConvSpec{conv2(1, 20, 20, 1, 30, 30, 3, 1, 1), conv2(1, 20, 20, 20, 30, 30, 3, 1, 1), conv2(1, 20, 20, 1, 30, 30, 3, 1, 1)} {
		c, p := packedConv(t, s, chosen(t, s, []Winograd{WinogradOff, WinogradOff, Winograd4}[i]), gemm.Dense(make([]float32, 3600)))
		a := ConvArgs{Packed: p, X: make([]float32, 18000), Y: make([]float32, 18000)}
		ws := make([]byte, c.Workspace(2))
		require.NoError(t, c.Run(a, ws, 2))
		assert.Zero(t, testing.AllocsPerRun(20, func() { _ = c.Run(a, ws, 2) }))
	}
}

// resnet50 lists the distinct convolutions of ResNet-50 with their counts.
var resnet50 = []struct {
	count int
	s     ConvSpec
}{
	{1, conv2(1, 3, 64, 1, 224, 224, 7, 2, 3)},
	{1, conv2(1, 64, 64, 1, 56, 56, 1, 1, 0)},
	{3, conv2(1, 64, 64, 1, 56, 56, 3, 1, 1)},
	{4, conv2(1, 64, 256, 1, 56, 56, 1, 1, 0)},
	{2, conv2(1, 256, 64, 1, 56, 56, 1, 1, 0)},
	{1, conv2(1, 256, 128, 1, 56, 56, 1, 1, 0)},
	{1, conv2(1, 128, 128, 1, 56, 56, 3, 2, 1)},
	{3, conv2(1, 128, 128, 1, 28, 28, 3, 1, 1)},
	{4, conv2(1, 128, 512, 1, 28, 28, 1, 1, 0)},
	{1, conv2(1, 256, 512, 1, 56, 56, 1, 2, 0)},
	{3, conv2(1, 512, 128, 1, 28, 28, 1, 1, 0)},
	{1, conv2(1, 512, 256, 1, 28, 28, 1, 1, 0)},
	{1, conv2(1, 256, 256, 1, 28, 28, 3, 2, 1)},
	{5, conv2(1, 256, 256, 1, 14, 14, 3, 1, 1)},
	{6, conv2(1, 256, 1024, 1, 14, 14, 1, 1, 0)},
	{1, conv2(1, 512, 1024, 1, 28, 28, 1, 2, 0)},
	{5, conv2(1, 1024, 256, 1, 14, 14, 1, 1, 0)},
	{1, conv2(1, 1024, 512, 1, 14, 14, 1, 1, 0)},
	{1, conv2(1, 512, 512, 1, 14, 14, 3, 2, 1)},
	{2, conv2(1, 512, 512, 1, 7, 7, 3, 1, 1)},
	{3, conv2(1, 512, 2048, 1, 7, 7, 1, 1, 0)},
	{1, conv2(1, 1024, 2048, 1, 14, 14, 1, 2, 0)},
	{2, conv2(1, 2048, 512, 1, 7, 7, 1, 1, 0)},
}

func convName(s ConvSpec) string {
	return fmt.Sprintf("%dx%d %dx%d k%d s%d g%d", s.InC, s.OutC, s.In[1], s.In[2], s.Kernel[2], s.Stride[2], s.Groups)
}

// benchConv measures one convolution and returns the seconds of a run.
func benchConv(b *testing.B, s ConvSpec, most Winograd, peak float64) float64 {
	rng := rand.New(rand.NewPCG(1, 1))
	s.Epilogue = simd.Epilogue{Bias: simd.BiasPerRow, Act: simd.Relu}
	g := geometryOf(b, s)
	c, p := packedConv(b, s, chosen(b, s, most), gemm.Dense(kerntest.Noise(rng, g.weightLen(), 0)))
	a := ConvArgs{X: kerntest.Noise(rng, s.InC*g.inN, 0), Y: machine.AlignedFloats(b.Context(), s.OutC*g.outN), Bias: kerntest.Noise(rng, s.OutC, 0), Packed: p}
	ws := make([]byte, c.Workspace(1))
	sec := kerntest.BestOf(b, func() { _ = c.Run(a, ws, 1) })
	kerntest.ReportFLOPs(b, c.FLOPs(), sec, peak)
	return sec
}

func BenchmarkConvResNet50(b *testing.B) {
	for _, l := range machine.Levels() {
		if l == machine.LevelGeneric {
			continue
		}
		peak := simd.Peak(l)
		total, flops := 0.0, 0
		for _, c := range resnet50 {
			b.Run(fmt.Sprintf("%s/%s", l, convName(c.s)), func(b *testing.B) {
				kerntest.AtLevel(b, l, func(b *testing.B) {
					sec := benchConv(b, c.s, WinogradOff, peak)
					total += sec * float64(c.count)
					flops += geometryOf(b, c.s).FLOPs() * c.count
				})
			})
		}
		b.Logf("%s: all convolutions of ResNet-50 %.1f ms, %.1f GFLOP/s, %.0f%% of peak", l, total*1e3, float64(flops)/total/1e9, 100*float64(flops)/total/peak)
	}
}

func BenchmarkConvWinograd(b *testing.B) {
	for _, l := range machine.Levels() {
		peak := simd.Peak(l)
		for _, c := range resnet50 {
			if l == machine.LevelGeneric || c.s.Kernel[2] != 3 || c.s.Stride[2] != 1 {
				continue
			}
			for kind := Winograd2; kind <= Winograd4; kind++ {
				b.Run(fmt.Sprintf("%s/F%d/%s", l, 2*kind, convName(c.s)), func(b *testing.B) {
					kerntest.AtLevel(b, l, func(b *testing.B) { benchConv(b, c.s, kind, peak) })
				})
			}
		}
	}
}

func BenchmarkConvDepthwise(b *testing.B) {
	for _, l := range machine.Levels() {
		peak := simd.Peak(l)
		for _, s := range []ConvSpec{
			conv2(1, 32, 32, 32, 112, 112, 3, 1, 1), conv2(1, 64, 64, 64, 112, 112, 3, 2, 1),
			conv2(1, 256, 256, 256, 28, 28, 3, 1, 1), conv2(1, 512, 512, 512, 14, 14, 3, 1, 1),
			conv2(1, 1024, 1024, 1024, 7, 7, 3, 1, 1), conv2(1, 240, 240, 240, 28, 28, 5, 2, 2),
			conv2(1, 120, 120, 120, 28, 28, 5, 1, 2),
		} {
			b.Run(fmt.Sprintf("%s/%s", l, convName(s)), func(b *testing.B) {
				kerntest.AtLevel(b, l, func(b *testing.B) { benchConv(b, s, WinogradOff, peak) })
			})
		}
	}
}

func init() { LinkGivenWeights() }
