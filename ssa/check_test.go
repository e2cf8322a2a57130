package ssa

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
)

const looped = `graph "main" {
  in %x: float32[2]
  in %n: int64[]
  in %y: float32[2]
  %r: float32[2], %s: float32[?,2] = Loop(%n, _, %x | %y) @"loop" {
    body: graph "body" {
      in %i: int64[]
      in %c: bool[]
      in %a: float32[2]
      in %k: float32[2]
      %b: float32[2] = Add(%a, %k)
      out %c, %b, %b
    }
  }
  out %r, %s
}
`

// TestCheckFindsEveryFault breaks a good graph in one way at a time.
func TestCheckFindsEveryFault(t *testing.T) {
	body := func(g *Graph) *Graph { return g.Nodes[0].Bodies[0] }
	for _, c := range []struct {
		name string
		do   func(g *Graph)
		want string
	}{
		{"id", func(g *Graph) { g.values[1].ID = 7 }, "place 1"},
		{"nil value", func(g *Graph) { g.values[0] = nil }, "place 0"},
		{"empty name", func(g *Graph) { g.values[0].Name = "" }, "no name"},
		{"same name", func(g *Graph) { g.values[1].Name = "x" }, "two values"},
		{"parameter twice", func(g *Graph) { g.Params[1] = g.Params[0] }, "parameter twice"},
		{"foreign parameter", func(g *Graph) { g.Params[0] = body(g).Params[0] }, "no value of the graph"},
		{"defined parameter", func(g *Graph) { g.Params[0].Def = g.Nodes[0] }, "has a definition"},
		{"constant with definition", func(g *Graph) { g.Nodes[0].Out[0].Const = ScalarConst[float32](1) }, "is a constant and the result"},
		{"constant of other type", func(g *Graph) {
			v := g.AddConst("k", ScalarConst[float32](1))
			v.Type = StaticTensor(ndarray.Float32, 3)
		}, "its constant is"},
		{"foreign operand", func(g *Graph) { g.Nodes[0].SetInput(2, body(g).Params[2]) }, "another graph"},
		{"use before definition", func(g *Graph) { g.Nodes[0].SetInput(2, g.Nodes[0].Out[0]) }, "not defined before"},
		{"lost use", func(g *Graph) { g.values[0].uses = nil }, "lists 0 uses"},
		{"stale use", func(g *Graph) { g.values[0].uses[0].Index = 3 }, "is another value"},
		{"use by a removed node", func(g *Graph) {
			n := g.NewNode("Neg", []*Value{g.Params[0]}, 1)
			g.Nodes = g.Nodes[:1]
			g.values[0].uses = []Use{{n, 0}}
		}, "not in the graph"},
		{"wrong definition", func(g *Graph) { g.Nodes[0].Out[1].DefIndex = 0 }, "does not name this node"},
		{"same node id", func(g *Graph) { g.NewNode("Neg", []*Value{g.Params[0]}, 1).ID = 0 }, "not unique"},
		{"undefined result", func(g *Graph) { g.Results[0] = nil }, "result 0 is not defined"},
		{"body shared", func(g *Graph) {
			n := g.NewNode("Loop", g.Nodes[0].In, 2)
			n.Captures = 1
			n.AddBody("body", body(g))
		}, "the body of two nodes"},
		{"body without attribute", func(g *Graph) { g.Nodes[0].BodyAttr = nil }, "attribute names"},
		{"too many captures", func(g *Graph) { g.Nodes[0].Captures = 9 }, "captures"},
		{"absent capture", func(g *Graph) { g.Nodes[0].SetInput(3, nil) }, "capture 0 is absent"},
		{"body parameter missing", func(g *Graph) { g.Nodes[0].TruncateInputs(3); g.Nodes[0].Captures = 0 }, "has 4 parameters, the node gives 3"},
		{"body result missing", func(g *Graph) { body(g).Results = body(g).Results[:2] }, "has 2 results, the node needs 3"},
		{"fault inside a body", func(g *Graph) { body(g).Nodes[0].Out[0].DefIndex = 3 }, `main / Loop "loop" / body`},
		{"body of its own", func(g *Graph) { g.NewNode("Neg", g.Params[:1], 1).AddBody("body", g) }, "the body of two nodes"},
		{"type of itself", func(g *Graph) {
			e := &Type{Kind: KindSequence}
			e.Elem = e
			g.AddParam("endless", *e)
		}, "nested deeper than 64 levels"},
		{"element type", func(g *Graph) { g.AddParam("k", StaticTensor(99, 3)) }, "element type 99 does not exist"},
		{"negative dimension", func(g *Graph) { g.AddParam("k", TensorOf(ndarray.Float32, D(-7))) }, "negative dimension"},
		{"constant of an element type", func(g *Graph) {
			g.AddConst("k", NewConstant(&ndarray.Array{DType: 99, Shape: []int{1}, Data: []byte{1}}))
		}, "element type 99 does not exist"},
		{"short constant", func(g *Graph) {
			g.AddConst("k", NewConstant(&ndarray.Array{DType: ndarray.Float32, Shape: []int{1 << 20}, Data: make([]byte, 16)}))
		}, "have 4 elements, need 1048576"},
		{"content", func(g *Graph) {
			v := g.Nodes[0].Out[0]
			v.Type, v.Content = StaticTensor(ndarray.Int64, 3), []Dim{D(1)}
		}, "1 known elements"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := parse(t, looped)
			c.do(g)
			err := Check(g)
			var ce *CheckError
			require.ErrorAs(t, err, &ce)
			assert.Contains(t, err.Error(), c.want)
		})
	}
}

// TestEndlessStructures: what holds itself is told, not followed.
func TestEndlessStructures(t *testing.T) {
	e := &Type{Kind: KindSequence}
	e.Elem = e
	assert.Less(t, len(e.String()), 1000)
	assert.Equal(t, KindSequence, e.Bind(map[string]int64{"N": 1}).Kind)
	_, same := e.Refine(*e)
	assert.True(t, same)

	g := parse(t, looped)
	g.Nodes[0].Bodies[0] = g
	for name, f := range map[string]func(){
		"walk": func() { g.Walk(func(*Graph) {}) }, "clone": func() { g.Clone() },
	} {
		func() {
			defer func() { assert.IsType(t, &CheckError{}, recover(), name) }()
			f()
		}()
	}
	assert.Error(t, Format{}.Write(io.Discard, g))
	_, err := NewLazy(ndarray.Float32, []int{3}, func() (*ndarray.Array, error) { return ndarray.Must(ndarray.Float32, 1), nil }).Array()
	assert.ErrorContains(t, err, "a constant of type float32[3] was read as float32[1]")
}

func TestCheckAllowsDeadValues(t *testing.T) {
	g := parse(t, looped)
	g.AddConst("x", ScalarConst[float32](1)) // dead: its name does not count
	g.NewNode("Neg", []*Value{g.Params[0]}, 1)
	g.RemoveNodes(func(n *Node) bool { return n.Op == "Neg" })
	assert.NoError(t, Check(g))
}
