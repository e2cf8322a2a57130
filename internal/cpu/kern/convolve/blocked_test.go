package convolve

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// blocked converts a plain tensor.
func blocked(x []float32, n, c, spatial int) []float32 {
	y := make([]float32, BlockedLen(n, c, spatial))
	ToBlocked(y, x, n, c, spatial, 2)
	return y
}

// plainOf converts a blocked tensor and checks that the padding channels are zero.
func plainOf(t *testing.T, y []float32, n, c, spatial int) []float32 {
	t.Helper()
	x := make([]float32, n*c*spatial)
	FromBlocked(x, y, n, c, spatial, 2)
	b := Block()
	blocks := machine.CeilDiv(c, b)
	for i, v := range y[:BlockedLen(n, c, spatial)] {
		if ch := i/(b*spatial)%blocks*b + i%b; ch >= c && v != 0 {
			require.Zero(t, v, "padding channel %d", ch)
		}
	}
	return x
}

func TestBlockedLayout(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	kerntest.EachLevel(t, func(t *testing.T) {
		for c := 1; c <= 40; c++ {
			for _, sp := range []int{1, 2, 7, 16, 33, 49} {
				x := kerntest.Noise(rng, 2*c*sp, 1)
				y := blocked(x, 2, c, sp)
				b := Block()
				for i, v := range x {
					n, ch, p := i/sp/c, i/sp%c, i%sp
					at := ((n*machine.CeilDiv(c, b)+ch/b)*sp+p)*b + ch%b
					if y[at] != v {
						require.Equal(t, v, y[at], "c %d spatial %d element %d", c, sp, i)
					}
				}
				require.Equal(t, x, plainOf(t, y, 2, c, sp))
			}
		}
	})
}

func BenchmarkBlockedLayout(b *testing.B) {
	const c, sp = 64, 56 * 56
	for _, l := range machine.Levels() {
		kerntest.AtLevel(b, l, func(b *testing.B) {
			x, y := machine.AlignedFloats(b.Context(), c*sp), machine.AlignedFloats(b.Context(), BlockedLen(1, c, sp))
			b.Run(l.String()+"/to", func(b *testing.B) {
				b.ReportMetric(8*c*sp/kerntest.BestOf(b, func() { ToBlocked(y, x, 1, c, sp, 1) })/1e9, "GB/s")
			})
			b.Run(l.String()+"/from", func(b *testing.B) {
				b.ReportMetric(8*c*sp/kerntest.BestOf(b, func() { FromBlocked(x, y, 1, c, sp, 1) })/1e9, "GB/s")
			})
		})
	}
}
