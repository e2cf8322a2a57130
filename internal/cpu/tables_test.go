package cpu

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// heldNodes are nodes whose kernels hold much beside their operands, or weights in layouts that take many times as much as the
// weights do.
var heldNodes = []struct{ name, what, graph string }{
	{"indices of Pad", "tables of indices", `in %x: uint8[1,1] const %p: int64[4] = [0, 0, 0, 33554431] %y = Pad(%x, %p) out %y`},
	{"indices of Resize", "tables of indices", `in %x: uint8[1,1,1,1] const %s: int64[4] = [1, 1, 1, 33554432] %y = Resize(%x, _, _, %s) out %y`},
	{"taps of Resize", "taps and weights of Resize", `in %x: float32[1,1,1,4] const %s: int64[4] = [1, 1, 1, 8388608] %y = Resize(%x, _, _, %s) [mode="cubic"] out %y`},
	{"taps of a reducing Resize", "taps and weights of Resize", `in %x: float32[1,1,1,8388608] const %s: int64[4] = [1, 1, 1, 1024] %y = Resize(%x, _, _, %s) [mode="linear", antialias=1] out %y`},
	{"taps of pooling", tapLists, `in %x: float32[1,1,1,1400] %y = MaxPool(%x) [kernel_shape=[1,1400], pads=[0,1399,0,1399]] out %y`},
	{"factors of averages", tapLists, `in %x: float32[1,1,200000,1] %y = AveragePool(%x) [kernel_shape=[200000,1], pads=[199999,0,199999,0]] out %y`},
	{"taps of a depthwise convolution", tapLists, `in %x: float32[1,2,1,1400] const %w: float32[2,1,1,1400] = splat 0.5 %y = Conv(%x, %w) [group=2, pads=[0,1399,0,1399]] out %y`},
	{"taps of a depthwise convolution of bytes", tapLists, `in %x: uint8[1,64,1,258] const %w: int8[64,1,1,258] = splat 3 %y = ConvInteger(%x, %w) [group=64, dilations=[1,2], pads=[0,514,0,514]] out %y`},
	{"few columns of bytes", "packed weights", `in %x: uint8[64,1048576] const %w: int8[1048576,1] = splat 3 %y = MatMulInteger(%x, %w) out %y`},
	{"infinities, written out", "packed weights", `in %x: float32[64,4096] const %w: float32[4096,8192] = splat inf %y = MatMul(%x, %w) out %y`},
}

// preparedWithin prepares the last node of a graph within a budget.
func preparedWithin(t *testing.T, text string, b ndarray.Budget) (backend.Prepared, error) {
	g, err := ssa.ParseGraph(`graph "g" {` + text + `}`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	return New().Prepare(b.In(context.Background()), g.Nodes[len(g.Nodes)-1], 1)
}

// TestKernelsAskForWhatTheyHold: packed weights, indices and taps are asked of the budget before they are made, and what a kernel
// holds is known to who keeps it.
func TestKernelsAskForWhatTheyHold(t *testing.T) {
	for _, c := range heldNodes {
		t.Run(c.name, func(t *testing.T) {
			p, err := preparedWithin(t, c.graph, 0)
			require.NoError(t, err)
			held := p.Held + p.Tables
			for _, k := range p.Packs {
				held += k.Bytes
			}
			t.Logf("%v %d bytes", p.Choice, held)
			var full *ops.MemoryError
			require.Positive(t, held)
			_, err = preparedWithin(t, c.graph, ndarray.Budget(held-1))
			require.ErrorAs(t, err, &full)
			assert.Equal(t, c.what, full.What)
		})
	}
}
