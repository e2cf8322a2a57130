package convolve

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu/kern/kerntest"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
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
			if k.ByPixels() {
				assert.LessOrEqual(t, k.TaskBytes(), 4*(3*pixelFloats+c.channels*16*kernel[0]*kernel[1])+1024)
				return
			}
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

// TestWeightsByPixels: tasks of any number of threads compute all weights, and the same.
func TestWeightsByPixels(t *testing.T) {
	one := [2]int{1, 1}
	kerntest.EachLevel(t, func(t *testing.T) {
		for i, s := range []WeightsSpec{
			{Images: 2, Groups: 1, Channels: 3, Filters: 16, In: [2]int{9, 20}, Out: [2]int{9, 20}, Kernel: [2]int{3, 3}, Stride: one, Dilation: one, Begin: one},
			{Images: 1, Groups: 2, Channels: 20, Filters: 33, In: [2]int{30, 40}, Out: [2]int{15, 20}, Kernel: [2]int{2, 4}, Stride: [2]int{2, 2}, Dilation: one, Begin: [2]int{0, 1}},
			{Images: 3, Groups: 1, Channels: 16, Filters: 8, In: [2]int{12, 17}, Out: [2]int{8, 11}, Kernel: [2]int{3, 3}, Stride: one, Dilation: [2]int{2, 3}},
		} {
			rng := rand.New(rand.NewPCG(uint64(i), 4))
			x := kerntest.Noise(rng, s.Images*s.Groups*s.Channels*s.In[0]*s.In[1], 0)
			d := kerntest.Noise(rng, s.Images*s.Groups*s.Filters*s.Out[0]*s.Out[1], 0)
			var first []float32
			for threads := 1; threads <= 5; threads++ {
				k, err := NewWeights(s, threads)
				require.NoError(t, err)
				require.Equal(t, machine.Active() != machine.LevelGeneric, k.ByPixels())
				y, check := kerntest.Guarded(s.Groups * s.Filters * s.Channels * s.Kernel[0] * s.Kernel[1])
				for task := range k.Tasks() {
					require.NoError(t, k.Task(nil, task, x, d, y, poisoned(k.TaskBytes())))
				}
				check(t)
				if first == nil {
					first = y
				}
				require.Equal(t, first, y, "case %d, %d threads", i, threads)
			}
		}
	})
}
