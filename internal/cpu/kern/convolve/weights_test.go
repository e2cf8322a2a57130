package convolve

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWeightsWorkspace: patches of a task are within their bound for images of any form, and grow with neither side of one.
func TestWeightsWorkspace(t *testing.T) {
	one := [2]int{1, 1}
	for _, c := range []struct {
		name                       string
		channels, height, width, k int
	}{
		{"small", 3, 9, 11, 3},
		{"wide", 16, 1, 16384, 9},
		{"wider", 16, 1, 1 << 20, 9},
		{"low", 16, 4, 8192, 3},
		{"high", 16, 8192, 4, 3},
		{"large kernel", 1, 40, 9000, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			kernel := [2]int{min(c.k, c.height), c.k}
			in := [2]int{c.height + kernel[0] - 1, c.width + kernel[1] - 1}
			k, err := NewWeights(WeightsSpec{Images: 1, Groups: 1, Channels: c.channels, Filters: 16, In: in, Out: [2]int{c.height, c.width}, Kernel: kernel, Stride: one, Dilation: one}, 1)
			require.NoError(t, err)
			assert.LessOrEqual(t, k.cols, weightPatches)
			most := 0
			for _, g := range k.products {
				most = max(most, g.Workspace(1))
			}
			assert.LessOrEqual(t, k.TaskBytes(), 4*k.cols+most+256)
			assert.LessOrEqual(t, most, 4<<20)
			covered := 0
			for i := range k.rows.P * k.columns.P {
				b := k.block(i)
				covered += b.lines * b.columns
			}
			assert.Equal(t, c.height*c.width, covered)
		})
	}
}
