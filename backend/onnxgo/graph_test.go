package onnxgo_test

import (
	"math"
	"testing"

	"github.com/owulveryck/onnx-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/simple"
	"gonum.org/v1/gonum/graph/topo"

	"github.com/berth-onnx/berth/backend/onnxgo"
	"github.com/berth-onnx/berth/internal/onnxwire"
)

// TestGraphOfNodes walks a decoded model by gonum.
func TestGraphOfNodes(t *testing.T) {
	g, m := decoded(t, file{opset: 13, inputs: "x[2]", outputs: "y[2]", nodes: []*onnxwire.Node{op("Neg", "x -> a"), op("Sub", "a x -> y")}})
	id := func(name string) int64 {
		n, ok := m.GetNodeByName(name)
		require.True(t, ok)
		return n.ID()
	}
	x, a, y := id("x"), id("a"), id("y")
	assert.Equal(t, 3, g.Nodes().Len())
	assert.Equal(t, 2, g.From(y).Len())
	assert.Equal(t, 2, g.To(x).Len())
	assert.True(t, g.HasEdgeFromTo(y, a))
	assert.False(t, g.HasEdgeFromTo(a, y))
	assert.True(t, g.HasEdgeBetween(a, y))
	assert.Equal(t, y, g.Edge(y, a).From().ID())
	assert.Nil(t, g.Edge(a, y))
	assert.Nil(t, g.WeightedEdge(a, y))
	assert.Nil(t, g.Node(99))
	w, ok := g.Weight(y, x)
	assert.True(t, ok)
	assert.Equal(t, 1.0, w, "the second operand")
	order, err := topo.Sort(g)
	require.NoError(t, err)
	assert.Equal(t, "y", order[0].(onnx.Namer).GetName())
	assert.Equal(t, "y", order[0].(*onnxgo.Node).String())
}

// TestByHand fills a graph without onnx-go's decoder.
func TestByHand(t *testing.T) {
	g := onnxgo.NewGraph()
	x, y := g.NewNode(), g.NewNode()
	g.AddNode(x)
	g.AddNode(y)
	g.SetWeightedEdge(g.NewWeightedEdge(y, x, 0))
	require.NoError(t, g.ApplyOperation(onnx.Operation{Name: "Neg"}, y))
	require.NoError(t, x.(onnx.DataCarrier).SetTensor(floats([]int{2}, 1, 2)))
	require.NoError(t, g.Run())
	assert.Equal(t, []float32{-1, -2}, y.(onnx.DataCarrier).GetTensor().Data())
}

// TestMisuse fills graphs with what is no graph of a model: every method returns, and the error comes with the next Run.
func TestMisuse(t *testing.T) {
	other := onnxgo.NewGraph().NewNode()
	for name, misuse := range map[string]func(g *onnxgo.Graph, x, y graph.Node){
		"nothing":                      func(*onnxgo.Graph, graph.Node, graph.Node) {},
		"a nil node":                   func(g *onnxgo.Graph, _, _ graph.Node) { g.AddNode(nil) },
		"a typed nil node":             func(g *onnxgo.Graph, _, _ graph.Node) { g.AddNode((*onnxgo.Node)(nil)) },
		"a node of another graph":      func(g *onnxgo.Graph, _, _ graph.Node) { g.AddNode(other) },
		"a node of another kind":       func(g *onnxgo.Graph, _, _ graph.Node) { g.AddNode(simple.Node(7)) },
		"a node twice":                 func(g *onnxgo.Graph, x, _ graph.Node) { g.AddNode(x) },
		"a nil edge":                   func(g *onnxgo.Graph, _, _ graph.Node) { g.SetWeightedEdge(nil) },
		"an edge to nowhere":           func(g *onnxgo.Graph, x, _ graph.Node) { g.SetWeightedEdge(g.NewWeightedEdge(x, nil, 0)) },
		"an edge from another graph":   func(g *onnxgo.Graph, x, _ graph.Node) { g.SetWeightedEdge(g.NewWeightedEdge(other, x, 0)) },
		"no position":                  func(g *onnxgo.Graph, x, y graph.Node) { g.SetWeightedEdge(g.NewWeightedEdge(y, x, math.NaN())) },
		"a fraction of a position":     func(g *onnxgo.Graph, x, y graph.Node) { g.SetWeightedEdge(g.NewWeightedEdge(y, x, 0.5)) },
		"an endless position":          func(g *onnxgo.Graph, x, y graph.Node) { g.SetWeightedEdge(g.NewWeightedEdge(y, x, math.Inf(1))) },
		"a result of another graph":    func(g *onnxgo.Graph, _, _ graph.Node) { _ = g.ApplyOperation(onnx.Operation{Name: "Neg"}, other) },
		"an operator without operands": func(g *onnxgo.Graph, _, y graph.Node) { _ = g.ApplyOperation(onnx.Operation{Name: "Neg"}, y) },
		"operands with a gap": func(g *onnxgo.Graph, x, y graph.Node) {
			g.SetWeightedEdge(g.NewWeightedEdge(y, x, 1))
			_ = g.ApplyOperation(onnx.Operation{Name: "Neg"}, y)
		},
		"a cycle": func(g *onnxgo.Graph, x, y graph.Node) {
			g.SetWeightedEdge(g.NewWeightedEdge(y, y, 0))
			_ = g.ApplyOperation(onnx.Operation{Name: "Neg"}, y)
		},
		"an attribute of no type": func(g *onnxgo.Graph, x, y graph.Node) {
			g.SetWeightedEdge(g.NewWeightedEdge(y, x, 0))
			_ = g.ApplyOperation(onnx.Operation{Name: "Neg", Attributes: map[string]any{"a": 1 << 3}}, y)
		},
		"an operator of no name": func(g *onnxgo.Graph, x, y graph.Node) {
			g.SetWeightedEdge(g.NewWeightedEdge(y, x, 0))
			_ = g.ApplyOperation(onnx.Operation{}, y)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := new(onnxgo.Graph) // the zero graph is as good
			x, y := g.NewNode(), g.NewNode()
			g.AddNode(x)
			g.AddNode(y)
			misuse(g, x, y)
			_ = x.(onnx.DataCarrier).SetTensor(floats([]int{2}))
			err := g.Run()
			assert.Error(t, err)
			var bug *onnxgo.LossError
			if !assert.NotContains(t, err.Error(), "internal error") || name == "an attribute of no type" || name == "an operator of no name" {
				assert.ErrorAs(t, err, &bug)
			}
			assert.NotNil(t, g.Nodes())
		})
	}
}

// TestAnotherModel decodes into a graph that has a model, and a model of another graph.
func TestAnotherModel(t *testing.T) {
	data := layer.bytes(t)
	g, m := decoded(t, layer)
	outputs(t, g, m, floats([]int{1, 2}))
	_ = onnx.NewModel(g).UnmarshalBinary(data)
	var wrong *onnxgo.GraphError
	assert.ErrorAs(t, g.Run(), &wrong)

	g, m = parsed(t, layer)
	assert.ErrorAs(t, g.Parse(m, data), &wrong)
	g = onnxgo.NewGraph()
	assert.ErrorAs(t, g.Parse(m, data), &wrong, "m is of another graph")
	assert.ErrorAs(t, g.Parse(nil, data), &wrong)
	assert.Error(t, g.Parse(onnx.NewModel(g), []byte("no model")))
	require.NoError(t, g.Parse(onnx.NewModel(g), data), "after errors")
}
