package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

func TestLRN(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	kerntest.EachLevel(t, func(t *testing.T) {
		for _, s := range []LRNSpec{
			{1, 7, 37, 5, 1e-1, 0.75, 1}, {2, 5, 600, 4, 2, 0.75, 0.5}, {1, 3, 20, 9, 0.5, 0.6, 2}, {1, 1, 1, 1, 1, 1, 1},
		} {
			x := kerntest.Noise(rng, s.Batch*s.Channels*s.Spatial, 1)
			y, check := kerntest.Guarded(len(x))
			require.NoError(t, LRN(nil, s, y, x, make([]byte, s.Workspace(2)), 2))
			check(t)
			for i := range x {
				p, c, n := i%s.Spatial, i/s.Spatial%s.Channels, i/s.Spatial/s.Channels
				sum := 0.0
				for k := max(0, c-(s.Size-1)/2); k <= min(s.Channels-1, c+s.Size/2); k++ {
					v := float64(x[(n*s.Channels+k)*s.Spatial+p])
					sum += v * v
				}
				want := float64(x[i]) * math.Pow(float64(s.Bias)+float64(s.Alpha)/float64(s.Size)*sum, -float64(s.Beta))
				require.InDelta(t, want, y[i], 2e-6)
			}
		}
	})
}

func BenchmarkLRN(b *testing.B) {
	for _, l := range machine.Levels() {
		b.Run(l.String(), func(b *testing.B) {
			kerntest.AtLevel(b, l, func(b *testing.B) {
				s := LRNSpec{1, 192, 56 * 56, 5, 1e-4, 0.75, 1}
				x, y := make([]float32, 192*56*56), make([]float32, 192*56*56)
				ws := make([]byte, s.Workspace(1))
				sec := kerntest.BestOf(b, func() { _ = LRN(nil, s, y, x, ws, 1) })
				b.ReportMetric(float64(8*len(x))/sec/1e9, "GB/s")
			})
		})
	}
}
