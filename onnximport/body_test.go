package onnximport

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// branch is a body without inputs.
func branch(out string, nodes ...*onnxwire.Node) *onnxwire.Graph {
	return &onnxwire.Graph{Name: "branch", Nodes: nodes, Outputs: outputs(out)}
}

func choose(out string, then, otherwise *onnxwire.Graph) *onnxwire.Node {
	return wnode("If", "c", out, graphAttr("then_branch", then), graphAttr("else_branch", otherwise))
}

func TestBranchesShareOneCaptureList(t *testing.T) {
	m := wmodel("o",
		wnode("Relu", "x", "r"),
		choose("o", branch("a", wnode("Add", "y r", "a")), branch("b", wnode("Mul", "x r", "b"))))
	n := load(t, m).Graph.Nodes[1]
	assert.Equal(t, "c y r x", valueNames(n.In))
	assert.Equal(t, 3, n.Captures)
	for _, b := range n.Bodies {
		assert.Equal(t, "y r x", valueNames(b.Params))
	}
	assert.Equal(t, "y r", valueNames(n.Bodies[0].Nodes[0].In))
	assert.Equal(t, "x r", valueNames(n.Bodies[1].Nodes[0].In))
}

func TestCapturedConstantsAreCloned(t *testing.T) {
	m := wmodel("o", choose("o", branch("a", wnode("Add", "x w", "a")), branch("b", wnode("Relu", "w", "b"))))
	m.Graph.Initializers = []*onnxwire.Tensor{floats("w", 1, 2, 3)}
	g := load(t, m).Graph
	n := g.Nodes[0]
	assert.Equal(t, "c x", valueNames(n.In))
	w := n.Bodies[0].Nodes[0].In[1]
	require.NotNil(t, w.Const)
	assert.Same(t, w.Const, n.Bodies[1].Nodes[0].In[0].Const)
}

func TestCapturesPassThroughEveryLevel(t *testing.T) {
	inner := choose("i", branch("a", wnode("Add", "x y", "a")), branch("b", wnode("Relu", "x", "b")))
	m := wmodel("o", choose("o", branch("i", inner), branch("e", wnode("Neg", "x", "e"))))
	n := load(t, m).Graph.Nodes[0]
	assert.Equal(t, "c c x y", valueNames(n.In), "the condition of the inner node is captured too")
	assert.Equal(t, "c x y", valueNames(n.Bodies[0].Params))
	in := n.Bodies[0].Nodes[0]
	assert.Equal(t, "c x y", valueNames(in.In))
	assert.Equal(t, 2, in.Captures)
}

func TestOuterValueAsResultOfABranch(t *testing.T) {
	n := load(t, wmodel("o", choose("o", branch("x"), branch("y")))).Graph.Nodes[0]
	assert.Equal(t, "c x y", valueNames(n.In))
	assert.Equal(t, "x", valueNames(n.Bodies[0].Results))
	assert.Equal(t, "y", valueNames(n.Bodies[1].Results))
}

func TestInnerNameShadowsOuterOne(t *testing.T) {
	m := wmodel("o", wnode("Relu", "x", "v"),
		choose("o", branch("v", wnode("Neg", "y", "v")), branch("e", wnode("Neg", "v", "e"))))
	n := load(t, m).Graph.Nodes[1]
	assert.Equal(t, "Neg", n.Bodies[0].Results[0].Def.Op)
	assert.Equal(t, "c y v", valueNames(n.In))
	names := map[string]int{}
	for _, v := range n.Bodies[0].Values() {
		names[v.Name]++
	}
	assert.Equal(t, 1, names["v"], "the unused capture must not take the name of the body's own value")
}

// loopBody adds x to the carried value and stacks it.
func loopBody(nodes ...*onnxwire.Node) *onnxwire.Graph {
	return &onnxwire.Graph{Name: "body", Nodes: nodes, Outputs: outputs("keep next slice"), Inputs: []*onnxwire.ValueInfo{
		{Name: "i"}, {Name: "keep"}, value("acc", ndarray.Float32, 99)}}
}

func TestLoop(t *testing.T) {
	m := wmodel("last all", wnode("Loop", "trips - x", "last all", graphAttr("body",
		loopBody(wnode("Add", "acc y", "next"), wnode("Identity", "next", "slice")))))
	m.Graph.Initializers = []*onnxwire.Tensor{{Name: "trips", DataType: onnxwire.TypeInt64, Int64Data: []int64{4}}}
	mod := load(t, m)
	n := mod.Graph.Nodes[0]
	assert.Equal(t, "trips - x y", valueNames(n.In))
	assert.Equal(t, "i keep acc y", valueNames(n.Bodies[0].Params))
	assert.Equal(t, "float32[2,3]", n.Bodies[0].Params[2].Type.String(), "the declared shape of the body's input is not believed")
	assert.Equal(t, "float32[4,2,3]", mod.Graph.Results[1].Type.String())

	out, err := ops.Interpret(t.Context(), mod.Graph, []ndarray.Value{
		ndarray.Of([]float32{0, 0, 0, 0, 0, 0}, 2, 3), ndarray.Of([]float32{1, 2, 3, 4, 5, 6}, 2, 3), ndarray.Scalar(true)}, nil)
	require.NoError(t, err)
	assert.Equal(t, []float32{4, 8, 12, 16, 20, 24}, ndarray.Slice[float32](out[0].(*ndarray.Array)))
}

// TestLoopThatChangesItsRank needs a second try at the body: the first one
// assumes that the carried value keeps its rank.
func TestLoopThatChangesItsRank(t *testing.T) {
	m := wmodel("last", wnode("Loop", "trips - x", "last", graphAttr("body",
		loopBody(wnode("Unsqueeze", "acc axes", "next"), wnode("Relu", "y", "slice")))))
	m.Graph.Initializers = []*onnxwire.Tensor{{Name: "trips", DataType: onnxwire.TypeInt64, Int64Data: []int64{4}}, ints("axes", 0)}
	mod := load(t, m)
	assert.Equal(t, "float32[...]", mod.Graph.Results[0].Type.String())
	assert.Len(t, mod.Graph.Nodes[0].Bodies[0].Params, 4)
}

// TestUpgradesInsideBodies lifts nodes that need ranks of what comes from outside.
func TestUpgradesInsideBodies(t *testing.T) {
	m := wmodel("last", wnode("Loop", "trips - x", "last", graphAttr("body",
		loopBody(wnode("Add", "acc v", "next", intAttr("axis", 0), intAttr("broadcast", 1)), wnode("Relu", "y", "slice")))))
	m.OpsetImports[0].Version = 6
	m.Graph.Inputs = append(m.Graph.Inputs, value("v", ndarray.Float32, 2))
	m.Graph.Initializers = []*onnxwire.Tensor{{Name: "trips", DataType: onnxwire.TypeInt64, Int64Data: []int64{4}}}
	mod := load(t, m)
	assert.Equal(t, "Unsqueeze Add Relu", opNames(mod.Graph.Nodes[0].Bodies[0]))
	assert.Equal(t, "float32[2,3]", mod.Graph.Results[0].Type.String())
}

func TestScan(t *testing.T) {
	body := &onnxwire.Graph{Name: "body", Inputs: []*onnxwire.ValueInfo{{Name: "s"}, {Name: "row"}}, Outputs: outputs("s2 e"),
		Nodes: []*onnxwire.Node{wnode("Add", "s row", "s2"), wnode("Mul", "s2 k", "e")}}
	m := wmodel("last rows", wnode("Scan", "s0 x", "last rows", graphAttr("body", body), intAttr("num_scan_inputs", 1)))
	m.Graph.Inputs = append(m.Graph.Inputs, value("s0", ndarray.Float32, 3), value("k", ndarray.Float32, 3))
	mod := load(t, m)
	n := mod.Graph.Nodes[0]
	assert.Equal(t, "s0 x k", valueNames(n.In))
	assert.Equal(t, "float32[3]", n.Bodies[0].Params[1].Type.String())
	assert.Equal(t, "float32[2,3]", mod.Graph.Results[1].Type.String())
}

func TestUnknownNodeWithSeveralBodies(t *testing.T) {
	list := &onnxwire.Attribute{Name: "cases", Type: onnxwire.AttrGraphs, Graphs: []*onnxwire.Graph{
		branch("a", wnode("Relu", "x", "a")), branch("b", wnode("Add", "y local", "b"))}}
	list.Graphs[1].Inputs = []*onnxwire.ValueInfo{value("local", ndarray.Float32, 3)}
	n := load(t, wmodel("o", in("my.own", wnode("Switch", "c", "o", list)))).Graph.Nodes[0]
	assert.Equal(t, []string{"cases[0]", "cases[1]"}, n.BodyAttr)
	assert.Equal(t, "c x y", valueNames(n.In))
	assert.Equal(t, "x y", valueNames(n.Bodies[0].Params))
	assert.Equal(t, "local x y", valueNames(n.Bodies[1].Params))
	assert.Equal(t, ssa.KindTensor, n.Bodies[1].Params[0].Type.Kind)
}
