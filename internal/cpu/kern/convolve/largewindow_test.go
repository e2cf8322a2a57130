package convolve_test

import (
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
