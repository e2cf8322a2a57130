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
)

// TestErrorBounds compares every algorithm, of plain and of channel-blocked images, with float64 on inputs that are hard to sum,
// against the bounds that the package states.
func TestErrorBounds(t *testing.T) {
	specs := []ConvSpec{conv2(1, 16, 16, 1, 14, 17, 3, 1, 1), conv2(1, 70, 20, 1, 9, 12, 3, 1, 1), conv2(1, 6, 6, 6, 9, 12, 3, 2, 1),
		conv2(1, 20, 20, 20, 9, 12, 3, 1, 1), conv2(1, 40, 24, 1, 7, 9, 1, 1, 0), conv2(1, 32, 96, 2, 5, 8, 3, 2, 1),
		conv2(1, 1200, 24, 1, 7, 9, 1, 1, 0), conv2(1, 300, 20, 1, 8, 8, 2, 2, 0), conv2(1, 18, 36, 18, 9, 12, 3, 2, 1)}
	kerntest.EachLevel(t, func(t *testing.T) {
		for name, fill := range kerntest.HardInputs {
			for i, s := range specs {
				geo := geometryOf(t, s)
				s = geo.Spec()
				rng := rand.New(rand.NewPCG(uint64(i), 3))
				a := ConvArgs{X: make([]float32, s.InC*geo.inN), W: make([]float32, geo.weightLen())}
				fill(rng, a.X, a.W)
				h := hardCase{geo: geo, a: a, want: conv64(geo, a), sums: magnitudes64(geo, a), peaks: peakSums(geo, a)}
				for _, algo := range fitting(geo) {
					h.check(t, fmt.Sprintf("%s, case %d, %s", name, i, algo), s, algo)
				}
				for _, ends := range blockedEnds {
					if geo.multiplies() {
						continue // plain images alone
					}
					s.InBlocked, s.OutBlocked = ends[0], ends[1]
					for _, algo := range blockedAlgorithms(geo) {
						h.check(t, fmt.Sprintf("%s, case %d, %s, blocked %v", name, i, algo, ends), s, algo)
					}
				}
			}
		}
	})
}

// hardCase is a convolution of plain images that is hard to sum, with what its error bounds depend on.
type hardCase struct {
	geo               *geometry
	a                 ConvArgs
	want, sums, peaks []float64 // results in float64, sums of magnitudes, sums of the largest
}

// bound is the stated error bound of an algorithm for output i.
func (h *hardCase) bound(algo ConvAlgorithm, i int) float64 {
	const u = 1.0 / (1 << 24)
	chained := min(h.geo.icg, 32) + h.geo.icg/32
	switch algo {
	case ConvWinograd2:
		return float64(chained+12) * u * 64 * h.peaks[i]
	case ConvWinograd4:
		return float64(chained+20) * u * 598 * h.peaks[i]
	}
	terms := h.geo.icg * h.geo.taps
	if algo == ConvDirect {
		return float64(min(terms, 128+16*h.geo.taps)+terms/128+3) * u * h.sums[i]
	}
	return float64(terms+2) * u * h.sums[i]
}

// check runs the convolution by an algorithm, its images laid out as s says, and compares each output with its bound.
func (h *hardCase) check(t *testing.T, name string, s ConvSpec, algo ConvAlgorithm) {
	t.Helper()
	c, packed := packedConv(t, s, ConvPlan{Algorithm: algo}, gemm.Dense(h.a.W))
	run := ConvArgs{X: h.a.X, Y: make([]float32, s.Batch*c.outImage()), Packed: packed}
	if s.InBlocked {
		run.X = blocked(h.a.X, s.Batch, s.InC, c.inN)
	}
	require.NoError(t, c.Run(run, make([]byte, c.Workspace(1)), 1))
	y := run.Y
	if s.OutBlocked {
		y = plainOf(t, y, s.Batch, s.OutC, c.outN)
	}
	most := 0.0
	for i, w := range h.want {
		most = max(most, math.Abs(float64(y[i])-w)/(h.bound(algo, i)+math.SmallestNonzeroFloat32))
	}
	assert.LessOrEqual(t, most, 1.0, name)
	t.Logf("%s: %.2g of the bound", name, most)
}

// magnitudes64 is the convolution of magnitudes.
func magnitudes64(g *geometry, a ConvArgs) []float64 {
	return conv64(g, ConvArgs{X: kerntest.Abs(a.X), W: kerntest.Abs(a.W)})
}

// peakSums are, for each output, the sums over the channels of the largest weight times the
// largest input near the output: within five pixels, which contains every tile it lies in.
func peakSums(g *geometry, a ConvArgs) []float64 {
	out := make([]float64, g.s.OutC*g.outN)
	for i := range out {
		oc, y, x := i/g.outN, i/g.out[2]%g.out[1], i%g.out[2]
		for ic := range g.icg {
			from := oc / g.ocg * g.icg
			w := kerntest.Abs(a.W[(oc*g.icg+ic)*g.taps:][:g.taps])
			plane := a.X[(from+ic)*g.inN:][:g.inN]
			peak := 0.0
			for iy := max(0, y*g.s.Stride[1]-5); iy < min(g.s.In[1], y*g.s.Stride[1]+6); iy++ {
				for ix := max(0, x*g.s.Stride[2]-5); ix < min(g.s.In[2], x*g.s.Stride[2]+6); ix++ {
					peak = max(peak, math.Abs(float64(plane[iy*g.s.In[2]+ix])))
				}
			}
			top := float32(0)
			for _, v := range w {
				top = max(top, v)
			}
			out[i] += peak * float64(top)
		}
	}
	return out
}

// TestPoolErrorBounds compares averages with float64 likewise.
func TestPoolErrorBounds(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for name, fill := range kerntest.HardInputs {
			for i, s := range []PoolSpec{
				{In: [2]int{17, 19}, Kernel: [2]int{3, 3}, Stride: [2]int{2, 2}, PadBegin: [2]int{1, 1}, PadEnd: [2]int{1, 1}},
				{In: [2]int{56, 57}, Kernel: [2]int{56, 57}}, {In: [2]int{1, 900}, Kernel: [2]int{1, 77}, Stride: [2]int{1, 5}},
			} {
				for _, kind := range []PoolKind{PoolAverage, PoolAveragePad} {
					s.Kind, s.Batch, s.Channels = kind, 1, 2
					p, err := NewPool(s)
					require.NoError(t, err)
					in, out := s.In[0]*s.In[1], p.Out()
					x, y := make([]float32, 2*in), make([]float32, 2*out[0]*out[1])
					fill(rand.New(rand.NewPCG(uint64(i), 7)), x, make([]float32, len(x)))
					require.NoError(t, p.Run(nil, x, y, make([]byte, p.Workspace(1)), 1))
					magnitudes := kerntest.Abs(x)
					for o, got := range y {
						at, row, col := o/(out[0]*out[1])*in, o/out[1]%out[0], o%out[1]
						bound := float64(s.Kernel[0]*s.Kernel[1]+2) * 0x1p-24 * pool64(p, magnitudes[at:][:in], row, col)
						assert.InDelta(t, pool64(p, x[at:][:in], row, col), got, bound, "%s, case %d, kind %d, output %d", name, i, kind, o)
					}
				}
			}
		}
	})
}
