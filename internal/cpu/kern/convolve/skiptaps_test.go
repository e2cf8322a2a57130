package convolve

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
)

// dilated is a convolution with taps so far from each other.
func dilated(s ConvSpec, rows, cols int) ConvSpec {
	s.Dilation = [3]int{1, rows, cols}
	return s
}

// TestConvSkipsTaps: products with padding are left out where they are many, and results are those of the definition.
func TestConvSkipsTaps(t *testing.T) {
	specs := []struct {
		s     ConvSpec
		skips bool
	}{
		{dilated(conv2(1, 70, 40, 1, 10, 11, 3, 1, 7), 7, 7), true},
		{dilated(conv2(2, 160, 20, 1, 6, 16, 3, 1, 5), 5, 5), true}, // several chains
		{dilated(conv2(1, 128, 36, 2, 9, 12, 3, 1, 6), 6, 6), true},
		{dilated(conv2(1, 64, 17, 1, 13, 21, 3, 2, 9), 9, 9), true},
		{dilated(conv2(1, 64, 16, 1, 7, 40, 2, 1, 6), 11, 12), true},
		{dilated(conv2(1, 64, 16, 1, 10, 10, 3, 1, 2), 2, 2), false}, // three products in four are with pixels
		{dilated(conv2(1, 63, 16, 1, 10, 10, 3, 1, 7), 7, 7), false}, // sums over few channels
		{dilated(conv2(1, 64, 16, 1, 10, 3, 3, 1, 2), 2, 2), false},  // of few pixels
	}
	kerntest.EachLevel(t, func(t *testing.T) {
		for i, c := range specs {
			c.s.Epilogue = blockedEpilogues[i%len(blockedEpilogues)]
			g := geometryOf(t, c.s)
			assert.Equal(t, c.skips, newDirectConv(g).byTaps, "%+v", c.s)
			runConv(t, c.s, i%3)
			if g.s.Groups == 1 || g.icg%g.t.Block() == 0 && g.ocg%g.t.Block() == 0 {
				runBlocked(t, c.s, i%3)
			}
		}
	})
}

// TestTapLayouts: two convolutions may share packed weights exactly where these lie alike. For a blocked image whose last block is not full they
// lie otherwise than for a plain one.
func TestTapLayouts(t *testing.T) {
	kerntest.EachLevel(t, func(t *testing.T) {
		for channels, shared := range map[int]bool{64: true, 70: false} {
			s := dilated(conv2(1, channels, 40, 1, 10, 11, 3, 1, 7), 7, 7)
			w := make([]float32, geometryOf(t, s).weightLen())
			for i := range w {
				w[i] = float32(i)
			}
			plain, p := packedConv(t, s, ConvPlan{Algorithm: ConvDirect}, gemm.Dense(w))
			s.InBlocked = true
			blocked, q := packedConv(t, s, ConvPlan{Algorithm: ConvDirect}, gemm.Dense(w))
			assert.Equal(t, shared, slices.Equal(p.Data, q.Data), "%d channels", channels)
			assert.Equal(t, shared, plain.WeightLayout() == blocked.WeightLayout(), "%d channels", channels)
		}
	})
}
