package ops_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// modernized builds a node of an old operator set over constants of the given
// arrays and upgrades it the way the importer does.
func modernized(t *testing.T, version int, op string, results int, attrs []ssa.Attr, in ...*ndarray.Array) (*ssa.Graph, error) {
	g := ssa.NewGraph(op)
	var operands []*ssa.Value
	for _, a := range in {
		operands = append(operands, g.AddParam("x", ssa.StaticTensor(a.DType, a.Shape...)))
	}
	n := g.NewNode(op, operands, results, attrs...)
	g.Results = []*ssa.Value{n.Out[0]}
	n.Version = version
	if err := ops.Modernize(t.Context(), g, n); err != nil {
		return nil, err
	}
	return g, ops.InferGraph(g)
}

func filledOnes(shape ...int) *ndarray.Array { return filled(1, shape...) }

func filled(v float64, shape ...int) *ndarray.Array {
	a := ndarray.Must(ndarray.Float32, shape...)
	for i := range a.Len() {
		a.SetFloat(i, v)
	}
	return a
}

// counting is 0, 1, 2, …
func counting(shape ...int) *ndarray.Array {
	a := ndarray.Must(ndarray.Float32, shape...)
	for i := range a.Len() {
		a.SetFloat(i, float64(i))
	}
	return a
}

func TestUpgradeBatchNormalization(t *testing.T) {
	x := counting(2, 2, 3)
	t.Run("inference", func(t *testing.T) {
		p := []*ndarray.Array{x, filled(2, 2), filledOnes(2), filled(3, 2), filled(4, 2)}
		g, err := modernized(t, 6, "BatchNormalization", 1, []ssa.Attr{attrInt("is_test", 1), attrInt("spatial", 1), ssa.FloatAttr("epsilon", 0)}, p...)
		require.NoError(t, err)
		assert.Equal(t, int64(0), ops.Int(g.Nodes[0], "training_mode"))
		assert.InDelta(t, (5.0-3)/2*2+1, runGraph(t, g, p...).Float(5), 1e-6)
	})
	t.Run("per element", func(t *testing.T) {
		p := []*ndarray.Array{x, filled(2, 2, 3), filledOnes(2, 3), counting(2, 3), filled(4, 2, 3)}
		g, err := modernized(t, 7, "BatchNormalization", 1, []ssa.Attr{attrInt("spatial", 0), ssa.FloatAttr("epsilon", 0)}, p...)
		require.NoError(t, err)
		y := runGraph(t, g, p...)
		assert.InDelta(t, 1, y.Float(4), 1e-6, "the first image is its own mean")
		assert.InDelta(t, 6.0/2*2+1, y.Float(10), 1e-6, "the second is 6 above it")
	})
	t.Run("training", func(t *testing.T) {
		p := []*ndarray.Array{x, filledOnes(2), filled(0, 2), filledOnes(2), filledOnes(2)}
		g, err := modernized(t, 9, "BatchNormalization", 5, nil, p...)
		require.NoError(t, err)
		n := g.Nodes[len(g.Nodes)-1]
		assert.Equal(t, int64(1), ops.Int(n, "training_mode"))
		assert.Len(t, n.Out, 3)
	})
}

func TestUpgradeGroupNormalization(t *testing.T) {
	x := counting(1, 4, 2)
	scale, bias := ndarray.Of([]float32{2, 3}, 2), ndarray.Of([]float32{10, 20}, 2)
	g, err := modernized(t, 18, "GroupNormalization", 1, []ssa.Attr{attrInt("num_groups", 2), ssa.FloatAttr("epsilon", 0)}, x, scale, bias)
	require.NoError(t, err)
	y := runGraph(t, g, x, scale, bias)
	for i, want := range []float64{10 - 2*1.3416408, 10 - 2*0.4472136, 10 + 2*0.4472136, 10 + 2*1.3416408, 20 - 3*1.3416408} {
		assert.InDelta(t, want, y.Float(i), 1e-5)
	}
	sym := ssa.NewGraph("symbolic")
	dims, err := ssa.ParseType("float32[N,C,W]")
	require.NoError(t, err)
	n := sym.NewNode("GroupNormalization", []*ssa.Value{sym.AddParam("x", dims), sym.AddParam("s", ssa.StaticTensor(ndarray.Float32, 2)),
		sym.AddParam("b", ssa.StaticTensor(ndarray.Float32, 2))}, 1, attrInt("num_groups", 2), ssa.FloatAttr("epsilon", 0))
	sym.Results = n.Out
	require.NoError(t, nn.GroupNormalization.Upgrades[0].Apply(&ops.Upgrader{Graph: sym}, n))
	require.NoError(t, ops.InferGraph(sym))
	again := runGraph(t, sym, x, scale, bias)
	assert.Equal(t, y.Data, again.Data, "channels known only at run time")
}

func TestUpgradeDropout(t *testing.T) {
	x := counting(2, 3)
	for _, c := range []struct {
		name    string
		version int
		attrs   []ssa.Attr
		results int
		nodes   []string
	}{
		{"test mode", 6, []ssa.Attr{attrInt("is_test", 1), ssa.FloatAttr("ratio", 0.3)}, 1, []string{"Dropout"}},
		{"training", 6, []ssa.Attr{ssa.FloatAttr("ratio", 0.3)}, 1, []string{"Dropout"}},
		{"float mask", 7, []ssa.Attr{ssa.FloatAttr("ratio", 0.3)}, 2, []string{"Dropout", "Cast"}},
		{"bool mask", 10, []ssa.Attr{ssa.FloatAttr("ratio", 0.3)}, 2, []string{"Dropout"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := modernized(t, c.version, "Dropout", c.results, c.attrs, x)
			require.NoError(t, err)
			var names []string
			for _, n := range g.Nodes {
				names = append(names, n.Op)
			}
			assert.Equal(t, c.nodes, names)
			assert.Empty(t, g.Nodes[0].Attrs)
			require.Len(t, ops.Aliases(g.Nodes[0]), map[bool]int{true: 0, false: 1}[c.name == "training"])
			y := runGraph(t, g, x)
			if c.name != "training" {
				assert.Equal(t, x.Data, y.Data)
			}
		})
	}
}

func TestUpgradeAttributes(t *testing.T) {
	t.Run("LpPool", func(t *testing.T) {
		g, err := modernized(t, 1, "GlobalLpPool", 1, []ssa.Attr{ssa.FloatAttr("p", 1)}, filledOnes(1, 1, 3))
		require.NoError(t, err)
		assert.Equal(t, int64(1), ops.Int(g.Nodes[0], "p"))
		_, err = modernized(t, 1, "GlobalLpPool", 1, []ssa.Attr{ssa.FloatAttr("p", 1.5)}, filledOnes(1, 1, 3))
		assert.ErrorContains(t, err, "p=1.5")
	})
	t.Run("DFT", func(t *testing.T) {
		x := counting(2, 3, 4, 1)
		g, err := modernized(t, 17, "DFT", 1, []ssa.Attr{attrInt("axis", 2)}, x)
		require.NoError(t, err)
		assert.Equal(t, []int{2, 3, 4, 2}, runGraph(t, g, x).Shape)
		assert.Equal(t, 6.0, runGraph(t, g, x).Float(0))
	})
	t.Run("LSTM", func(t *testing.T) {
		g, err := modernized(t, 1, "LSTM", 1, []ssa.Attr{attrInt("output_sequence", 1)}, filledOnes(2, 1, 3), filledOnes(1, 8, 3), filledOnes(1, 8, 2))
		require.NoError(t, err)
		assert.Empty(t, g.Nodes[0].Attrs)
	})
	t.Run("InstanceNormalization", func(t *testing.T) {
		g, err := modernized(t, 1, "InstanceNormalization", 1, []ssa.Attr{attrInts("consumed_inputs", 0)}, filledOnes(1, 1, 3), filledOnes(1), filledOnes(1))
		require.NoError(t, err)
		assert.Empty(t, g.Nodes[0].Attrs)
	})
}
