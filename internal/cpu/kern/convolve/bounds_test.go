package convolve

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
)

// TestErrorBounds compares every algorithm with float64 on inputs that are hard to sum, against
// the bounds that the package states.
func TestErrorBounds(t *testing.T) {
	const u = 1.0 / (1 << 24)
	specs := []ConvSpec{conv2(1, 16, 16, 1, 14, 17, 3, 1, 1), conv2(1, 70, 20, 1, 9, 12, 3, 1, 1), conv2(1, 6, 6, 6, 9, 12, 3, 2, 1), conv2(1, 40, 24, 1, 7, 9, 1, 1, 0)}
	kerntest.EachLevel(t, func(t *testing.T) {
		for name, fill := range kerntest.HardInputs {
			for i, s := range specs {
				geo := geometryOf(t, s)
				s = geo.Spec()
				rng := rand.New(rand.NewPCG(uint64(i), 3))
				a := ConvArgs{X: make([]float32, s.InC*geo.inN), W: make([]float32, geo.weightLen())}
				fill(rng, a.X, a.W)
				want, sums, peaks := conv64(geo, a), magnitudes64(geo, a), peakSums(geo, a)
				for _, algo := range fitting(geo) {
					c, packed := packedConv(t, s, ConvPlan{Algorithm: algo}, gemm.Dense(a.W))
					y := make([]float32, len(want))
					require.NoError(t, c.Run(ConvArgs{X: a.X, Y: y, Packed: packed}, make([]byte, c.Workspace(1)), 1))
					most := 0.0
					for i, w := range want {
						bound := float64(geo.icg*geo.taps+2) * u * sums[i]
						switch algo {
						case ConvWinograd2:
							bound = float64(geo.icg+12) * u * 64 * peaks[i]
						case ConvWinograd4:
							bound = float64(geo.icg+20) * u * 751 * peaks[i]
						}
						most = max(most, math.Abs(float64(y[i])-w)/(bound+math.SmallestNonzeroFloat32))
					}
					assert.LessOrEqual(t, most, 1.0, "%s, case %d, %s", name, i, algo)
					t.Logf("%s, case %d, %s: %.2g of the bound", name, i, algo, most)
				}
			}
		}
	})
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
