package gradient_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/gradient"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// insideItself is a graph whose node has the graph for a body.
func insideItself() *ssa.Graph {
	g := ssa.NewGraph("itself")
	x := g.AddParam("x", ssa.StaticTensor(ndarray.Float32))
	n := g.NewNode("If", []*ssa.Value{g.AddConst("c", ssa.ScalarConst(true)), x}, 1)
	n.Captures = 1
	n.AddBody("then_branch", g)
	n.AddBody("else_branch", g)
	n.Out[0].Type = x.Type
	g.Results = n.Out
	return g
}

// TestGraphsInsideThemselves: a graph that is a body of its own is an error of a type that says so.
func TestGraphsInsideThemselves(t *testing.T) {
	for _, c := range []struct {
		name string
		call func(g *ssa.Graph) error
	}{
		{"Weights", func(g *ssa.Graph) error { _, err := gradient.Weights(t.Context(), g); return err }},
		{"Promote", func(g *ssa.Graph) error { _, err := gradient.Promote(t.Context(), g); return err }},
		{"ops.Check", ops.Check},
		{"ops.CheckBranches", func(g *ssa.Graph) error { return ops.CheckBranches(t.Context(), g) }},
		{"Of", func(g *ssa.Graph) error { _, err := gradient.Of(t.Context(), g, g.Results[0], g.Params[0]); return err }},
		{"Adjoints", func(g *ssa.Graph) error {
			n := g.Nodes[0]
			_, err := gradient.Adjoints(g, n, []*ssa.Value{g.Params[0]}, []bool{false, true})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var broken *ssa.CheckError
			err := c.call(insideItself())
			require.ErrorAs(t, err, &broken)
			assert.ErrorContains(t, err, "itself")
		})
	}
}
