package nn

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// windows are convolutions of every kind: one to three dimensions, strides, dilations, padding on either side, groups, a line longer than a block.
var windows = []struct {
	x, w  []int
	attrs string
}{
	{[]int{1, 3, 9}, []int{5, 3, 3}, ``},
	{[]int{2, 3, 700}, []int{7, 3, 5}, `[pads=[2, 1], strides=[3]]`},
	{[]int{1, 4, 11, 13}, []int{6, 4, 3, 3}, `[pads=[1, 1, 1, 1]]`},
	{[]int{2, 4, 11, 13}, []int{8, 2, 3, 2}, `[group=2, pads=[0, 1, 2, 3], strides=[2, 3], dilations=[2, 1]]`},
	{[]int{1, 70, 5, 5}, []int{9, 70, 2, 2}, `[pads=[5, 5, 5, 5], dilations=[3, 3]]`},
	{[]int{1, 3, 4, 5, 6}, []int{4, 3, 2, 3, 1}, `[auto_pad="SAME_UPPER", strides=[1, 2, 1]]`},
	{[]int{1, 5, 1, 1}, []int{4, 5, 3, 3}, `[pads=[1, 1, 1, 1]]`},
	{[]int{0, 5, 3, 3}, []int{4, 5, 3, 3}, ``},
}

func convShape(t testing.TB, x, w []int, attrs string) ConvShape {
	g, err := ssa.ParseGraph(`graph "g" { in %x: float64[A] in %w: float64[B] %y = Conv(%x, %w) ` + attrs + ` out %y }`)
	require.NoError(t, err)
	return ConvShapeOf(g.Nodes[0], x, w)
}

func drawn(rng *rand.Rand, shape []int) []float64 {
	all := make([]float64, kit.SizeOf(shape))
	for i := range all {
		all[i] = rng.NormFloat64()
	}
	return all
}

// TestConvolve64: products of copied inputs are the sums of plain loops, on one thread as on several.
func TestConvolve64(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range windows {
		for _, bias := range [][]float64{nil, drawn(rng, []int{c.w[0]})} {
			t.Run(fmt.Sprint(c.x, c.w, c.attrs, bias != nil), func(t *testing.T) {
				s := convShape(t, c.x, c.w, c.attrs)
				x, w := drawn(rng, c.x), drawn(rng, c.w)
				var got [2][]float64
				for i, threads := range []int{1, 3} {
					got[i] = drawn(rng, s.YShape())
					require.True(t, convolve64(&ops.Call{Ctx: context.Background(), Threads: threads}, &s, x, w, bias, got[i]))
				}
				assert.Equal(t, got[0], got[1])
				want := drawn(rng, s.YShape())
				Convolve(nil, &s, x, w, bias, want)
				assert.InDeltaSlice(t, want, got[0], 1e-12)
			})
		}
	}
	s := convShape(t, windows[2].x, windows[2].w, windows[2].attrs)
	w := drawn(rng, windows[2].w)
	w[3] = math.Inf(1)
	assert.False(t, convolve64(nil, &s, nil, w, nil, nil), "infinity times padding is no sum")
}

func BenchmarkConvolve64(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ x, w []int }{{[]int{1, 64, 56, 56}, []int{64, 64, 3, 3}}, {[]int{1, 512, 7, 7}, []int{512, 512, 1, 1}}} {
		s := convShape(b, c.x, c.w, fmt.Sprintf("[pads=[%d, %[1]d, %[1]d, %[1]d]]", c.w[2]/2))
		x, w, y := drawn(rng, c.x), drawn(rng, c.w), make([]float64, kit.SizeOf(s.YShape()))
		for _, threads := range []int{0, 1, 2} {
			b.Run(fmt.Sprint(c.w, threads), func(b *testing.B) {
				for b.Loop() {
					if threads == 0 {
						Convolve(nil, &s, x, w, nil, y)
					} else {
						convolve64(&ops.Call{Threads: threads}, &s, x, w, nil, y)
					}
				}
				b.ReportMetric(2*float64(len(y)*kit.SizeOf(c.w[1:]))*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
