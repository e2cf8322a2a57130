package ops_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestAttributeValuesRefused checks that inference refuses the attribute values that
// kernels do not look for any more.
func TestAttributeValuesRefused(t *testing.T) {
	one := ssa.IntAttr("blocksize", 1)
	for _, c := range []struct {
		op    string
		attrs attrs
	}{
		{"BitShift", attrs{ssa.StringAttr("direction", "UP")}},
		{"Mod", attrs{ssa.IntAttr("fmod", 2)}},
		{"Gelu", attrs{ssa.StringAttr("approximate", "erf")}},
		{"Pad", attrs{ssa.StringAttr("mode", "mirror")}},
		{"ScatterND", attrs{ssa.StringAttr("reduction", "mean")}},
		{"ScatterElements", attrs{ssa.StringAttr("reduction", "mean")}},
		{"DepthToSpace", attrs{ssa.IntAttr("blocksize", 0)}},
		{"SpaceToDepth", attrs{ssa.IntAttr("blocksize", 1<<15+1)}},
		{"DepthToSpace", attrs{one, ssa.StringAttr("mode", "RCD")}},
		{"ReverseSequence", attrs{ssa.IntAttr("batch_axis", 2)}},
		{"ReverseSequence", attrs{ssa.IntAttr("time_axis", -1)}},
		{"Col2Im", attrs{ssa.IntsAttr("strides", 1, 0)}},
		{"Col2Im", attrs{ssa.IntsAttr("dilations", 0)}},
		{"Col2Im", attrs{ssa.IntsAttr("pads", -1)}},
		{"MaxRoiPool", attrs{ssa.IntsAttr("pooled_shape", 0, 1)}},
		{"RoiAlign", attrs{ssa.IntAttr("output_height", 0)}},
		{"RoiAlign", attrs{ssa.IntAttr("output_width", -1)}},
		{"Resize", attrs{ssa.StringAttr("nearest_mode", "round")}},
		{"Resize", attrs{ssa.StringAttr("coordinate_transformation_mode", "center")}},
		{"Range", attrs{ssa.IntAttr("stash_type", 10)}},
		{"Multinomial", attrs{ssa.IntAttr("sample_size", -1)}},
	} {
		o := ops.Lookup("", c.op)
		g := ssa.NewGraph(c.op)
		operands := make([]*ssa.Value, o.MinIn)
		for i := range operands {
			operands[i] = g.AddConst("x", ssa.Int64s(1))
		}
		n := g.NewNode(c.op, operands, max(o.MinOut, 1), c.attrs...)
		var refused *ops.AttrError
		assert.ErrorAsf(t, ops.Infer(n), &refused, "%s %v", c.op, c.attrs)
	}
}
