package convolve

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
)

// TestLongRow: a task of the direct convolution whose rows take long ends within a row, not only behind its last.
func TestLongRow(t *testing.T) {
	const channels, side = 16, 512 // takes long in blocks of four channels, too
	s := ConvSpec{Batch: 1, Groups: 1, InC: channels, OutC: channels, In: [3]int{1, side, side}, Kernel: [3]int{1, side, side},
		Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1}}
	c, packed := packedConv(t, s, ConvPlan{Algorithm: ConvDirect}, gemm.Source{Data: []float32{1}, Splat: true})
	d := c.algo.(*directConv)
	ended := make(chan struct{})
	close(ended)
	for done, want := range map[<-chan struct{}]float32{nil: channels * side * side, ended: 0} {
		y := make([]float32, channels)
		r := &convRun{c: c, w: packed.PackedView, per: d.perWorker(), ws: make([]byte, d.perWorker()),
			args: ConvArgs{X: slices.Repeat([]float32{1}, channels*side*side), Packed: packed, Y: y, Done: done}}
		r.in = r.args.X
		d.task(r, 0, 0)
		assert.Equal(t, want, y[0], "%v", done)
	}
}
