package convolve

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// volume is a convolution 3×3×3 of a volume, with a padding and a stride of its depth.
func volume(pad, stride int) ConvSpec {
	return ConvSpec{Batch: 1, InC: 16, OutC: 16, In: [3]int{4, 13, 15}, Kernel: [3]int{3, 3, 3}, Stride: [3]int{stride, 1, 1}, PadBegin: [3]int{pad, 1, 1}, PadEnd: [3]int{pad, 1, 1}}
}

// frames is a convolution of a second of sound.
func frames(outC, kernel, stride int) ConvSpec {
	return ConvSpec{Batch: 1, InC: 1, OutC: outC, In: [3]int{1, 1, 16000}, Kernel: [3]int{1, 1, kernel}, Stride: [3]int{1, 1, stride}}
}

// TestPlanConv: which algorithm computes which convolution. Plain Go computes as products what vector code computes directly
// or by Winograd's algorithm.
func TestPlanConv(t *testing.T) {
	defer func(l machine.Level) { require.NoError(t, machine.Use(l)) }(machine.Active())
	fast := ConvPolicy{Winograd: Winograd4}
	cases := []struct {
		s    ConvSpec
		o    ConvPolicy
		free bool // weights are not constant
		want ConvAlgorithm
	}{
		{conv2(1, 64, 64, 1, 56, 56, 3, 1, 1), fast, false, ConvWinograd4},
		{conv2(1, 64, 64, 1, 56, 56, 3, 1, 1), ConvPolicy{Winograd: Winograd2}, false, ConvWinograd2},
		{conv2(1, 64, 64, 1, 56, 56, 3, 1, 1), ConvPolicy{Winograd: Winograd4, Memory: true}, false, ConvDirect},
		{conv2(1, 64, 64, 1, 56, 56, 3, 1, 1), ConvPolicy{}, false, ConvDirect},
		{conv2(1, 64, 64, 1, 56, 56, 3, 1, 1), fast, true, ConvWinograd4},
		{conv2(2, 16, 16, 1, 16, 16, 3, 1, 1), fast, true, ConvWinograd4},
		{conv2(1, 64, 64, 1, 56, 56, 3, 2, 1), fast, true, ConvDirect},
		{conv2(1, 64, 64, 1, 10, 10, 3, 1, 1), fast, true, ConvPatches}, // each weight is used a hundred times
		{conv2(1, 256, 256, 1, 14, 14, 3, 1, 1), fast, false, ConvWinograd4},
		{conv2(1, 128, 128, 1, 10, 10, 3, 1, 1), fast, false, ConvWinograd2},
		{conv2(1, 128, 128, 1, 12, 12, 3, 1, 1), fast, false, ConvWinograd4},
		{conv2(1, 32, 32, 1, 32, 32, 3, 1, 1), fast, false, ConvWinograd2},
		{conv2(1, 33, 32, 1, 32, 32, 3, 1, 1), fast, false, ConvWinograd4},
		{conv2(1, 32, 32, 1, 36, 36, 3, 1, 1), fast, false, ConvWinograd4},
		{conv2(1, 512, 512, 1, 7, 7, 3, 1, 1), fast, false, ConvWinograd2},
		{conv2(1, 512, 512, 1, 3, 3, 3, 1, 1), fast, false, ConvPixelRows},
		{conv2(1, 512, 512, 1, 3, 3, 3, 1, 0), fast, false, ConvRows},
		{conv2(1, 8, 512, 1, 3, 3, 3, 1, 1), fast, false, ConvRows},
		{conv2(1, 3, 64, 1, 56, 56, 3, 1, 1), fast, false, ConvDirect},
		{conv2(1, 64, 64, 1, 56, 56, 3, 2, 1), fast, false, ConvDirect},
		{conv2(1, 64, 64, 1, 5, 5, 1, 1, 0), fast, true, ConvPointwise},
		{conv2(1, 64, 64, 2, 56, 56, 3, 1, 1), fast, false, ConvDirect},
		{conv2(1, 64, 64, 64, 56, 56, 3, 1, 1), fast, true, ConvDepthwise},
		{conv2(1, 3, 64, 1, 64, 64, 4, 4, 0), fast, false, ConvDirect},
		{ConvSpec{Batch: 1, InC: 3, OutC: 64, In: [3]int{8, 64, 64}, Kernel: [3]int{4, 4, 4}, Stride: [3]int{4, 4, 4}}, fast, false, ConvRows},
		{conv2(1, 16, 32, 1, 128, 128, 1, 1, 0), fast, false, ConvPointwise},
		{conv2(1, 256, 64, 1, 56, 56, 1, 1, 0), fast, false, ConvDirect},
		{conv2(1, 256, 64, 1, 56, 56, 1, 2, 0), fast, false, ConvDirect},
		{conv2(1, 24, 1, 1, 20, 20, 3, 1, 1), fast, false, ConvSum},
		{conv2(1, 64, 64, 1, 8, 8, 3, 64, 1024), fast, false, ConvPatches}, // the padded image has four million pixels
		{volume(1, 1), fast, false, ConvPlanes},
		{volume(1, 1), ConvPolicy{Winograd: Winograd4, Memory: true}, false, ConvPatches},
		{volume(1<<20, 1<<20), fast, false, ConvPatches}, // no memory for so many planes of zeros
		{ConvSpec{Batch: 1, InC: 1, OutC: 2, In: [3]int{1, 1, 400}, Kernel: [3]int{1, 1, 33}}, fast, true, ConvFilter},
		{frames(64, 80, 4), fast, false, ConvDirect},
		{frames(402, 400, 160), fast, false, ConvRows},
	}
	vectorOnly := []ConvAlgorithm{ConvDirect, ConvWinograd2, ConvWinograd4, ConvPlanes}
	for _, level := range machine.Levels() {
		require.NoError(t, machine.Use(level))
		for _, c := range cases {
			c.s.ConstW = !c.free
			p, err := PlanConv(c.s, c.o)
			require.NoError(t, err)
			if level == machine.LevelGeneric && slices.Contains(vectorOnly, c.want) {
				assert.NotContains(t, vectorOnly, p.Algorithm, "%+v", c.s)
			} else {
				assert.Equal(t, c.want.String(), p.Algorithm.String(), "%s: %+v", level, c.s)
			}
			assert.NotEmpty(t, p.Reason)
		}
	}
}

// TestLongFrames: windows are copied where they are few, also where the number of their elements is beyond 32 bits.
func TestLongFrames(t *testing.T) {
	for positions, want := range map[int]bool{1 << 8: true, 1<<8 + 1: false, 1 << 20: false} {
		g := geometryOf(t, ConvSpec{Batch: 1, InC: 2, OutC: 8, In: [3]int{1, 1, positions + 2047}, Kernel: [3]int{1, 1, 2048}})
		assert.Equal(t, want, g.overFrames(), "%d positions", positions)
	}
}

// TestEstimateOfImages: what images take is in proportion to their number, also where 32 bits do not hold the multiply-adds.
func TestEstimateOfImages(t *testing.T) {
	one, ok := EstimateConv(conv2(1, 64, 64, 1, 56, 56, 3, 2, 1), ConvPolicy{})
	require.True(t, ok)
	many, ok := EstimateConv(conv2(90, 64, 64, 1, 56, 56, 3, 2, 1), ConvPolicy{})
	require.True(t, ok)
	require.InEpsilon(t, 90*one, many, 0.01)
}

// TestWidePadding: blocked images are refused where their padding would be most of what is laid out.
func TestWidePadding(t *testing.T) {
	for _, c := range []struct {
		pad, stride int
		fits        bool
	}{{1, 1, true}, {30, 1, true}, {20, 8, true}, {40, 16, false}, {1024, 64, false}, {1 << 17, 1 << 13, false}} {
		s := conv2(1, 64, 64, 1, 8, 8, 3, c.stride, c.pad)
		s.InBlocked, s.OutBlocked, s.ConstW = true, true, true
		_, err := PlanConv(s, ConvPolicy{})
		assert.Equal(t, c.fits, err == nil, "padding %d, stride %d: %v", c.pad, c.stride, err)
	}
}
