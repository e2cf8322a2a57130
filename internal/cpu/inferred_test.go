package cpu

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestInferenceRefuses: what prepare functions do not check again.
func TestInferenceRefuses(t *testing.T) {
	attrs := func(a ...ssa.Attr) []ssa.Attr { return a }
	axis := attrs(ssa.IntAttr("axis", 4))
	for _, k := range []struct {
		op    string
		in    [][]int
		attrs []ssa.Attr
	}{
		{"Transpose", [][]int{{2, 3}}, attrs(ssa.IntsAttr("perm", 0))},
		{"Transpose", [][]int{{2, 3}}, attrs(ssa.IntsAttr("perm", 0, 2))},
		{"DepthToSpace", [][]int{{1, 4, 2}}, attrs(ssa.IntAttr("blocksize", 2))},
		{"DepthToSpace", [][]int{{1, 4, 2, 2}}, attrs(ssa.IntAttr("blocksize", 0))},
		{"DepthToSpace", [][]int{{1, 4, 2, 2}}, attrs(ssa.IntAttr("blocksize", 2), ssa.StringAttr("mode", "RCD"))},
		{"SpaceToDepth", [][]int{{1, 4, 2}}, attrs(ssa.IntAttr("blocksize", 2))},
		{"Concat", [][]int{{2, 3}, {2, 3}}, axis},
		{"Concat", [][]int{{2, 3}, {2}}, attrs(ssa.IntAttr("axis", 0))},
		{"Concat", [][]int{{2, 3}, {2, 4}}, attrs(ssa.IntAttr("axis", 0))},
		{"Split", [][]int{{2, 3}}, append(axis, ssa.IntAttr("num_outputs", 1))},
		{"Gather", [][]int{{2, 3}, {2}}, axis},
		{"OneHot", [][]int{{2, 3}, {}, {2}}, axis},
		{"ArgMax", [][]int{{2, 3}}, axis},
		{"TopK", [][]int{{2, 3}, {1}}, axis},
		{"GridSample", [][]int{{1, 1, 2, 2}, {1, 2, 2, 2}}, attrs(ssa.StringAttr("padding_mode", "wrap"))},
		{"Resize", [][]int{{1, 2}, {0}, {2}}, attrs(ssa.StringAttr("nearest_mode", "down"))},
		{"Pad", [][]int{{1, 2}, {4}}, attrs(ssa.StringAttr("mode", "mirror"))},
		{"TensorScatter", [][]int{{1, 2, 3}, {1, 2, 3}}, attrs(ssa.StringAttr("mode", "ring"))},
	} {
		g := ssa.NewGraph("g")
		var in []*ssa.Value
		for i, s := range k.in {
			dt := ndarray.Float32
			if i == 1 && k.op != "Concat" && k.op != "GridSample" && k.op != "TensorScatter" {
				dt = ndarray.Int64
			}
			in = append(in, g.AddParam("", ssa.StaticTensor(dt, s...)))
		}
		outs := 1
		if k.op == "TopK" {
			outs = 2
		}
		assert.Error(t, ops.Infer(g.NewNode(k.op, in, outs, k.attrs...)), "%s %v %v", k.op, k.in, k.attrs)
	}
}
