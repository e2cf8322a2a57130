package exprgraph_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/exprgraph"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestOperandsGiven: operands that say no graph, or several, and those that have no value, are refused; the error says what to give.
func TestOperandsGiven(t *testing.T) {
	g := G.NewGraph()
	x := G.NewVector(g, tensor.Float32, G.WithShape(2), G.WithName("x"))
	other := G.NewVector(G.NewGraph(), tensor.Float32, G.WithShape(2), G.WithName("other"))
	var v G.Value
	one := G.NewConstant(float32(1))
	wrong := G.NewConstant(tensor.New(tensor.WithBacking([]float32{1, 2, 3})), G.WithName("wrong"), G.WithShape(2))
	for name, c := range map[string]struct {
		in   []*G.Node
		want string
	}{
		"none":           {nil, "at least one must be an input or a result"},
		"nil":            {[]*G.Node{nil, nil}, "at least one must be an input or a result"},
		"constants":      {[]*G.Node{one, one}, "at least one must be an input or a result, not a constant of Gorgonia's or nil; gorgonia.NewTensor makes inputs"},
		"two graphs":     {[]*G.Node{x, other}, `operand 1: node "other" is of another graph than the operands before`},
		"a statement":    {[]*G.Node{x, G.Read(x, &v)}, "operand 1: a statement has no value; use the node that gorgonia.Read reads"},
		"a false length": {[]*G.Node{x, wrong}, `operand 1: its value is float32[3] where the node is float32[2]`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := exprgraph.Apply("Add", 1, c.in)
			var e *exprgraph.Error
			require.ErrorAs(t, err, &e)
			assert.ErrorContains(t, err, c.want)
			assert.NotContains(t, err.Error(), "internal error")
		})
	}
}

// TestStringsOfOps: strings go to the memory that a machine has for them, also those that a loop brings.
func TestStringsOfOps(t *testing.T) {
	for name, node := range map[string]string{
		"a copy": `Identity(%x)`,
		"a loop": `Loop(%n, %c, %x) { body: graph "b" { in %i: int64[] in %k: bool[] in %s: string[3] %k2 = Identity(%k) %s2 = Identity(%s) out %k2, %s2 } }`,
	} {
		t.Run(name, func(t *testing.T) {
			g, err := ssa.ParseGraph(`graph "g" { in %x: string[3] const %n: int64[] = 2 const %c: bool[] = true %y: string[3] = ` + node + ` out %y }`)
			require.NoError(t, err)
			require.NoError(t, ops.InferGraph(g))
			op, err := exprgraph.OpOf(g.Nodes[0])
			require.NoError(t, err)
			into := tensor.New(tensor.WithBacking(make([]string, 3)))
			_, err = op.UsePreallocDo(into, tensor.New(tensor.WithBacking([]string{"a", "b", "c"})))
			require.NoError(t, err)
			assert.Equal(t, []string{"a", "b", "c"}, into.Data())
		})
	}
}

// TestStrictBind: a column is no vector, although Gorgonia takes both for equal.
func TestStrictBind(t *testing.T) {
	g, err := exprgraph.Import(t.Context(), model(t, `graph "g" { in %x: float32[3] %y = Relu(%x) out %y }`))
	require.NoError(t, err)
	require.ErrorContains(t, g.Bind(ndarray.Of([]float32{1, 2, 3}, 3, 1)), `input "x" must be float32[3]`)
	require.ErrorContains(t, g.Bind(), "got 0 values of inputs, want 1")
	require.ErrorContains(t, (*exprgraph.Graph)(nil).Bind(), "Import makes graphs")
}

// TestNilNodes: a node that is missing among those of a graph is named.
func TestNilNodes(t *testing.T) {
	net := &exprgraph.Graph{Inputs: []*G.Node{nil}, Outputs: []*G.Node{nil}}
	_, results := net.Results()
	for want, err := range map[string]error{"Inputs[0]: the node is nil": net.Bind(ndarray.Of([]float32{1}, 1)), "Outputs[0]: the node is nil": results} {
		var e *exprgraph.Error
		require.ErrorAs(t, err, &e)
		assert.ErrorContains(t, err, want)
	}
}
