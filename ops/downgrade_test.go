package ops_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestDowngrades takes nodes that old operator sets wrote to the newest form and back: the
// attributes, operands and results are those that were read.
func TestDowngrades(t *testing.T) {
	f, i := func(dims ...string) ssa.Type { return shaped(dims...) }, func(v ...int64) *ssa.Constant { return ssa.Int64s(v...) }
	ints := func(name string, v ...int64) ssa.Attr { return ssa.IntsAttr(name, v...) }
	one, str, real := ssa.IntAttr, ssa.StringAttr, ssa.FloatAttr
	for _, c := range []struct {
		op      string
		version int
		at      attrs
		in      []any // types of parameters, constants
		out     int
	}{
		{"ReduceMean", 13, attrs{ints("axes", -1)}, []any{f("N", "4")}, 1},
		{"ReduceMean", 6, attrs{ints("axes", 1), one("keepdims", 0)}, []any{f("N", "4")}, 1},
		{"ReduceSum", 11, attrs{ints("axes", 0)}, []any{f("3", "4")}, 1},
		{"ReduceMax", 13, nil, []any{f("3", "4")}, 1},
		{"Squeeze", 11, attrs{ints("axes", 1)}, []any{f("3", "1")}, 1},
		{"Unsqueeze", 12, attrs{ints("axes", 0)}, []any{f("3")}, 1},
		{"Split", 11, attrs{ints("split", 1, 2)}, []any{f("3")}, 2},
		{"Split", 13, nil, []any{f("4"), i(1, 3)}, 2},
		{"Split", 11, nil, []any{f("4")}, 2},
		{"Reshape", 4, attrs{ints("shape", 3, -1)}, []any{f("2", "3")}, 1},
		{"Softmax", 11, attrs{one("axis", 2)}, []any{f("2", "3", "4")}, 1},
		{"Softmax", 11, attrs{one("axis", 1)}, []any{f("2", "3", "4")}, 1},
		{"LogSoftmax", 6, attrs{one("axis", 1)}, []any{f("N", "3", "H")}, 1},
		{"Hardmax", 11, attrs{one("axis", 1)}, []any{f("2", "3", "1")}, 1},
		{"Clip", 6, attrs{real("min", 0), real("max", 6)}, []any{f("3")}, 1},
		{"Cast", 5, attrs{str("to", "INT64")}, []any{f("3")}, 1},
		{"Pad", 2, attrs{ints("pads", 0, 1, 2, 0), real("value", 7)}, []any{f("2", "3")}, 1},
		{"Pad", 1, attrs{ints("paddings", 0, 1, 2, 0)}, []any{f("2", "3")}, 1},
		{"Slice", 9, attrs{ints("starts", 1), ints("ends", 9), ints("axes", 1)}, []any{f("2", "3")}, 1},
		{"TopK", 9, attrs{one("k", 2)}, []any{f("2", "3")}, 2},
		{"TopK", 10, nil, []any{f("2", "3"), i(2)}, 2},
		{"Dropout", 10, attrs{real("ratio", 0.25)}, []any{f("2")}, 2},
		{"Dropout", 7, nil, []any{f("2")}, 1},
		{"Dropout", 6, attrs{one("is_test", 1)}, []any{f("2")}, 1},
		{"BatchNormalization", 9, nil, []any{f("2", "3", "4"), f("3"), f("3"), f("3"), f("3")}, 1},
		{"BatchNormalization", 9, nil, []any{f("2", "3", "4"), f("3"), f("3"), f("3"), f("3")}, 3},
		{"BatchNormalization", 6, attrs{one("is_test", 1)}, []any{f("2", "3", "4"), f("3"), f("3"), f("3"), f("3")}, 1},
		{"Upsample", 7, attrs{ssa.FloatsAttr("scales", 1, 2), str("mode", "nearest")}, []any{f("2", "3")}, 1},
		{"Upsample", 9, attrs{str("mode", "nearest")}, []any{f("2", "3"), f("2")}, 1},
		{"Upsample", 1, attrs{real("height_scale", 2), real("width_scale", 3), str("mode", "bilinear")}, []any{f("1", "1", "2", "3")}, 1},
		{"Resize", 10, attrs{str("mode", "linear")}, []any{f("2", "3"), f("2")}, 1},
		{"Scatter", 9, attrs{one("axis", 1)}, []any{f("1", "3"), ssa.Int64s(2).Reshaped(1, 1), f("1", "1")}, 1},
		{"GridSample", 16, attrs{str("mode", "bicubic")}, []any{f("1", "1", "2", "2"), f("1", "1", "1", "2")}, 1},
		{"RoiAlign", 10, nil, []any{f("1", "1", "2", "2"), f("1", "4"), i(0)}, 1},
		{"DFT", 17, attrs{one("axis", 1)}, []any{f("1", "8", "1")}, 1},
		{"LpPool", 1, attrs{real("p", 3), ints("kernel_shape", 2)}, []any{f("1", "1", "4")}, 1},
		{"GlobalLpPool", 1, attrs{real("p", 3)}, []any{f("1", "1", "4")}, 1},
		{"Concat", 3, attrs{one("axis", 1)}, []any{f("1", "2"), f("1", "1")}, 1},
		{"Add", 6, attrs{one("broadcast", 1), one("axis", 1)}, []any{f("2", "3", "4"), f("3")}, 1},
		{"Mul", 6, nil, []any{f("2", "3"), f("2", "3")}, 1},
		{"Sum", 6, nil, []any{f("2"), f("2")}, 1},
		{"PRelu", 6, nil, []any{f("1", "3", "4"), f("3")}, 1},
		{"Gemm", 6, attrs{one("broadcast", 1)}, []any{f("2", "3"), f("3", "4"), f("4")}, 1},
		{"Gather", 6, nil, []any{f("2", "3"), i(1)}, 1},
	} {
		t.Run(fmt.Sprint(c.op, c.version, c.at), func(t *testing.T) {
			g := ssa.NewGraph(c.op)
			var in []*ssa.Value
			for k, x := range c.in {
				if c, ok := x.(*ssa.Constant); ok {
					in = append(in, g.AddConst("c", c))
				} else {
					in = append(in, g.AddParam(fmt.Sprint("x", k), x.(ssa.Type)))
				}
			}
			n := g.NewNode(c.op, in, c.out, c.at...)
			g.Results = []*ssa.Value{n.Out[0]}
			read := append([]*ssa.Value{}, in...)
			modernize(t, g, n, c.version)
			for k := 0; k < len(g.Nodes); {
				count := len(g.Nodes)
				require.NoError(t, ops.DowngradeTo(g, g.Nodes[k], c.version))
				if len(g.Nodes) == count {
					k++
				}
			}
			require.Len(t, g.Nodes, 1, "%s", g)
			m := g.Nodes[0]
			assert.Equal(t, c.op, m.Op)
			for len(m.In) > len(read) && m.In[len(m.In)-1] == nil {
				m.TruncateInputs(len(m.In) - 1)
			}
			require.Len(t, m.In, len(read))
			for k, v := range m.In {
				if v.Const != nil {
					assert.True(t, v.Const.Equal(read[k].Const), "operand %d", k)
				} else {
					assert.Same(t, read[k], v, "operand %d", k)
				}
			}
			old := ssa.NewGraph("").NewNode(c.op, nil, 1, c.at...)
			old.Version = c.version
			for _, a := range c.at {
				if s := ops.Lookup("", c.op).Attr(a.Name, c.version); s.Ignored || a.EqualValue(s.Default) {
					old.DropAttr(a.Name)
					m.DropAttr(a.Name)
				}
			}
			assert.True(t, ops.SameAttrs(m, old) || c.op == "ReduceMean" || c.op == "Gemm", "%v, was %v", m.Attrs, old.Attrs)
			assert.NoError(t, ops.Of(m).CheckAttrs(m))
		})
	}
}

// TestDowngradeOfCrossedLimits: a Clip whose min is above its max gives max everywhere; older operator sets refuse such limits.
func TestDowngradeOfCrossedLimits(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %x: float32[3] const %lo: float32[] = 1 const %hi: float32[] = -1 %y = Clip(%x, %lo, %hi) out %y }`)
	require.NoError(t, err)
	require.NoError(t, ops.DowngradeTo(g, g.Nodes[0], 10))
	require.Len(t, g.Nodes, 1)
	for _, name := range []string{"min", "max"} {
		assert.EqualValues(t, -1, g.Nodes[0].Attr(name).F, name)
	}
}

// TestDowngradeOfTraining: up to operator set 13 a batch normalization has one result, or five where it trains.
func TestDowngradeOfTraining(t *testing.T) {
	g, err := ssa.ParseGraph(`graph "g" { in %x: float32[2,3,4] in %s: float32[3] %y, %m, %v = BatchNormalization(%x, %s, %s, %s, %s) [training_mode=1] out %y, %m, %v }`)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	n := g.Nodes[0]
	require.NoError(t, ops.DowngradeTo(g, n, 13))
	require.Len(t, n.Out, 5)
	assert.Nil(t, n.Out[3])
	assert.Nil(t, n.Out[4])
}

// TestNoDowngrade: nodes that older operator sets can not write say why.
func TestNoDowngrade(t *testing.T) {
	for _, c := range []struct {
		text    string
		version int
		says    string
	}{
		{`in %x: float32[2,3] in %a: int64[1] %y = ReduceMean(%x, %a) out %y`, 13, "no constant"},
		{`in %x: float32[2,3] %y = Softmax(%x) [axis=0] out %y`, 12, "normalizes dimension 0"},
		{`in %x: float32[2,3] in %l: float32[] %y = Clip(%x, %l) out %y`, 10, "no constant"},
		{`in %x: float32[2,3] %y = Gelu(%x) out %y`, 17, "has no form of it"},
		{`in %x: float32[1,4,2] const %g: float32[4] = [1, 1, 1, 1] %y = GroupNormalization(%x, %g, %g) [num_groups=2] out %y`, 20, "has no form of it"},
		{`in %x: float32[2,3] in %c: bool[] %y = If(%c | %x) { then_branch: graph "t" { in %p: float32[2,3] %a = Neg(%p) out %a }
			else_branch: graph "e" { in %q: float32[2,3] const %z: int64[1] = [0] %b = Unsqueeze(%q, %z) out %b } } out %y`, 10, "has no form of it"},
		{`in %x: float32[2,3] in %c: bool[] %y = If(%c | %x) { then_branch: graph "t" { in %p: float32[2,3] %a = Neg(%p) out %a }
			else_branch: graph "e" { in %q: float32[2,3] %b = Transpose(%q) out %b } } out %y`, 10, "has no form of it"},
		{`in %x: bfloat16[2,1] const %a: int64[1] = [1] %y = Squeeze(%x, %a) out %y`, 12, "has no form of it"},
	} {
		g, err := ssa.ParseGraph(`graph "g" { ` + c.text + ` }`)
		require.NoError(t, err)
		require.NoError(t, ops.InferGraph(g))
		n := g.Nodes[len(g.Nodes)-1]
		assert.False(t, ops.FitsIn(n, c.version), c.text)
		assert.ErrorContains(t, ops.DowngradeTo(g, n, c.version), c.says)
	}
}
