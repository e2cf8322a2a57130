package convolve_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/convolve"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// TestLargeWindow: a window whose taps differ at nearly every place of the output is refused before they are listed.
func TestLargeWindow(t *testing.T) {
	_, err := convolve.NewPool(convolve.PoolSpec{Kind: convolve.PoolAverage, Batch: 1, Channels: 1, In: [2]int{1000, 1000},
		Kernel: [2]int{1999, 1999}, Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, PadBegin: [2]int{999, 999}, PadEnd: [2]int{999, 999}})
	var refused *machine.SpecError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "Kernel", refused.Field)
}

// TestLargeDepthwiseWindow: so is that of a depthwise convolution, which is then computed in another way.
func TestLargeDepthwiseWindow(t *testing.T) {
	s := convolve.ConvSpec{Batch: 1, InC: 2, OutC: 2, Groups: 2, ConstW: true, In: [3]int{1, 300, 300}, Kernel: [3]int{1, 599, 599},
		PadBegin: [3]int{0, 299, 299}, PadEnd: [3]int{0, 299, 299}}
	plan, err := convolve.PlanConv(s, convolve.ConvPolicy{})
	require.NoError(t, err)
	assert.NotEqual(t, convolve.ConvDepthwise, plan.Algorithm)
	plan.Algorithm = convolve.ConvDepthwise
	assert.Zero(t, convolve.TapBytes(s, plan), "none are listed")
	_, err = convolve.NewConv(s, plan)
	var refused *machine.SpecError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "Kernel", refused.Field)
	s.InBlocked, s.OutBlocked = true, true
	_, err = convolve.PlanConv(s, convolve.ConvPolicy{})
	require.ErrorAs(t, err, &refused)
}

// TestMemoryOfAverages: preparing means of a window as high as the image takes what is asked for, although hardly two of them have one count.
func TestMemoryOfAverages(t *testing.T) {
	for name, s := range map[string]convolve.PoolSpec{
		"image":   {Kind: convolve.PoolAverage, In: [2]int{5000, 8}, Kernel: [2]int{4999, 5}, PadBegin: [2]int{2499, 2}, PadEnd: [2]int{2499, 2}},
		"padding": {Kind: convolve.PoolAveragePad, In: [2]int{5000, 8}, Kernel: [2]int{4999, 5}, PadBegin: [2]int{2499, 2}, PadEnd: [2]int{2499, 2}, Ceil: true},
	} {
		t.Run(name, func(t *testing.T) {
			s.Batch, s.Channels = 1, 1
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := convolve.NewPool(s)
			require.NoError(t, err)
			runtime.ReadMemStats(&after)
			assert.LessOrEqual(t, int64(after.TotalAlloc-before.TotalAlloc), s.TapBytes()+s.TapBytes()/4+64<<10)
		})
	}
}
