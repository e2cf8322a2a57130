package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestKeys: nodes that differ in what a kernel depends on have different keys; attributes that a key can not tell apart are
// refused.
func TestKeys(t *testing.T) {
	x, axes := ndarray.Must(ndarray.Float32, 2, 3), ndarray.Of([]int64{1}, 1)
	seen := map[string]string{}
	for name, c := range map[string]struct {
		op    string
		attrs []ssa.Attr
		in    []*ndarray.Array
	}{
		"an operator":           {"Abs", nil, []*ndarray.Array{x}},
		"another":               {"Neg", nil, []*ndarray.Array{x}},
		"another shape":         {"Abs", nil, []*ndarray.Array{x.Reshaped(3, 2)}},
		"another rank":          {"Abs", nil, []*ndarray.Array{x.Reshaped(6)}},
		"another type":          {"Abs", nil, []*ndarray.Array{ndarray.Must(ndarray.Int32, 2, 3)}},
		"an attribute":          {"Abs", []ssa.Attr{ssa.IntAttr("a", 1)}, []*ndarray.Array{x}},
		"a float":               {"Abs", []ssa.Attr{ssa.FloatAttr("a", 1)}, []*ndarray.Array{x}},
		"a float of 0":          {"Abs", []ssa.Attr{ssa.FloatAttr("a", 0)}, []*ndarray.Array{x}},
		"an integer of 0":       {"Abs", []ssa.Attr{ssa.IntAttr("a", 0)}, []*ndarray.Array{x}},
		"integers":              {"Abs", []ssa.Attr{ssa.IntsAttr("a", 1, 2)}, []*ndarray.Array{x}},
		"a text with a space":   {"Abs", []ssa.Attr{ssa.StringAttr("a", "b c=0")}, []*ndarray.Array{x}},
		"two operands":          {"Abs", nil, []*ndarray.Array{x, x}},
		"axes":                  {"ReduceSum", nil, []*ndarray.Array{x, axes}},
		"other axes":            {"ReduceSum", nil, []*ndarray.Array{x, ndarray.Of([]int64{0}, 1)}},
		"axes and an attribute": {"ReduceSum", withoutAxes, []*ndarray.Array{x, axes}},
	} {
		key, err := keyOf(c.op, c.attrs, c.in)
		require.NoError(t, err, name)
		assert.Empty(t, seen[string(key)], name)
		seen[string(key)] = name
	}
	for _, a := range []ssa.Attr{{Name: "a", Kind: ssa.AttrFloats, Floats: []float32{1}}, {Name: "a", Kind: ssa.AttrOther, Other: 1}} {
		err := newKernels().run(x, "Abs", []ssa.Attr{a}, x)
		assert.ErrorIs(t, err, ops.ErrUnsupported)
		assert.ErrorContains(t, err, "attribute a of Abs")
	}
}
