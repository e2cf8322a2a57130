package onnxexport

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestDisputed has pools for which onnx infers another length than runs, and what is declared of the outputs behind them.
func TestDisputed(t *testing.T) {
	for _, c := range []struct{ name, graph, inferred, declared string }{
		{"a window wholly behind the input", `in %x: float32[1,1,5] %p = MaxPool(%x) [kernel_shape=[2], strides=[2], pads=[1, 1], ceil_mode=1] %y = Relu(%p) out %y`, "float32[1,1,3]", "? ? ?"},
		{"without padding", `in %x: float32[1,1,6] %p = AveragePool(%x) [kernel_shape=[1], strides=[2], ceil_mode=1] %y = Relu(%p) out %y`, "float32[1,1,3]", "? ? ?"},
		{"symbols stay", `in %x: float32[N,1,5] %y = LpPool(%x) [kernel_shape=[2], strides=[2], pads=[1, 1], ceil_mode=1] out %y`, "float32[N,1,3]", "N ? ?"},
		{"in a branch", `in %x: float32[1,1,5] in %c: bool[] %z = If(%c | %x) { then_branch: graph "t" { in %p: float32[1,1,5]
			%a = MaxPool(%p) [kernel_shape=[2], strides=[2], pads=[1, 1], ceil_mode=1] out %a } else_branch: graph "e" { in %p: float32[1,1,5] const %k: float32[1,1,3] = splat 1 %b = Neg(%k) out %b } } %y = Relu(%z) out %y`, "float32[1,1,3]", "? ? ?"},
		{"all windows begin inside", `in %x: float32[1,1,4] %y = MaxPool(%x) [kernel_shape=[2], strides=[2], pads=[1, 1], ceil_mode=1] out %y`, "float32[1,1,3]", "1 1 3"},
		{"sizes round down", `in %x: float32[1,1,5] %y = MaxPool(%x) [kernel_shape=[2], strides=[2], pads=[1, 1]] out %y`, "float32[1,1,3]", "1 1 3"},
		{"a window larger than the padded input", `in %x: float32[1,1,1] %y = MaxPool(%x) [kernel_shape=[3], strides=[3], pads=[0, 2], dilations=[2]] out %y`, "float32[1,1,1]", "1 1 1"},
		{"much larger", `in %x: float32[1,1,1] %y = MaxPool(%x) [kernel_shape=[5], strides=[3], dilations=[1]] out %y`, "float32[1,1,0]", "1 1 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := ssa.ParseGraph(`graph "g" { ` + c.graph + ` }`)
			require.NoError(t, err)
			require.NoError(t, ops.InferGraph(g))
			assert.Equal(t, c.inferred, g.Results[0].Type.String())
			m, err := Model(&ssa.Module{Graph: g}, Options{})
			require.NoError(t, err)
			var dims []string
			for _, d := range m.Graph.Outputs[0].Type.Tensor.Shape.Dims {
				switch d.Kind {
				case onnxwire.DimValue:
					dims = append(dims, fmt.Sprint(d.Value))
				case onnxwire.DimParam:
					dims = append(dims, d.Param)
				default:
					dims = append(dims, "?")
				}
			}
			assert.Equal(t, c.declared, strings.Join(dims, " "))
		})
	}
}
