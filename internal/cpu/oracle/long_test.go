package oracle

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestLongCopies moves so many elements that the kernel does it in steps.
func TestLongCopies(t *testing.T) {
	const n = 9<<20 + 3
	g := ssa.NewGraph("copies")
	x := ndarray.Must(ndarray.Int8, n)
	for i := range x.Data {
		x.Data[i] = byte(i * 7 >> 3)
	}
	in := g.AddParam("x", x2type(x))
	for name, want := range map[string][]byte{"Identity": x.Data, "Concat": append(append([]byte(nil), x.Data...), x.Data...)} {
		operands, values := []*ssa.Value{in}, []ndarray.Value{x}
		var attrs []ssa.Attr
		if name == "Concat" {
			operands, values, attrs = []*ssa.Value{in, in}, []ndarray.Value{x, x}, []ssa.Attr{ssa.IntAttr("axis", 0)}
		}
		node := g.NewNode(name, operands, 1, attrs...)
		require.NoError(t, ops.Infer(node))
		p, err := cpu.New().Prepare(t.Context(), node, 2)
		require.NoError(t, err)
		y := ndarray.Must(ndarray.Int8, len(want))
		require.NoError(t, p.Kernel.Run(&ops.Call{Ctx: t.Context(), Node: node, In: values, Out: []ndarray.Value{y}, Threads: 2}))
		require.True(t, string(want) == string(y.Data), name)
	}
}
