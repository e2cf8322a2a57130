package oracle

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// TestWorkersWithTasks: a kernel asks workspace for no more workers than it has tasks.
func TestWorkersWithTasks(t *testing.T) {
	axis := func(v int64) ssa.Attr { return ssa.IntAttr("axis", v) }
	for _, k := range []opCase{
		{name: "rows", op: "TopK", in: []arg{f32s(64), ints(3).c()}, attrs: []ssa.Attr{axis(0)}, outs: 2},
		{name: "columns", op: "ArgMax", in: []arg{f32s(8, 64)}, attrs: []ssa.Attr{axis(0)}},
		{name: "columns", op: "Softmax", in: []arg{f32s(8, 64)}, attrs: []ssa.Attr{axis(0)}},
		{name: "one row", op: "ReduceLogSumExp", in: []arg{f32s(1, 64), ints(1).c()}},
		{name: "one image", op: "GridSample", in: []arg{f32s(1, 2, 8, 8), f32s(1, 4, 4, 2)}},
		{name: "one image", op: "Resize", in: []arg{f32s(1, 1, 8, 8), {absent: true}, {absent: true}, ints(1, 1, 5, 5).c()}, attrs: []ssa.Attr{ssa.StringAttr("mode", "cubic")}},
		{name: "one region", op: "RoiAlign", in: []arg{f32s(1, 4, 8, 8), f32s(1, 4), indices(ndarray.Int64, 1, 1)}, attrs: []ssa.Attr{ssa.IntAttr("output_height", 4), ssa.IntAttr("output_width", 4)}},
	} {
		t.Run(k.op+" "+k.name, func(t *testing.T) {
			b := k.build(t, 1)
			one, err := cpu.New().Prepare(t.Context(), b.node, 1)
			require.NoError(t, err)
			require.NotNil(t, one.Kernel)
			many, err := cpu.New().Prepare(t.Context(), b.node, 16)
			require.NoError(t, err)
			assert.Equal(t, one.Scratch, many.Scratch)
			assert.Positive(t, one.Scratch)
		})
	}
}
