package exprgraph_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia/exprgraph"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/backend/gorgonia/vm"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// model parses a graph in text form.
func model(t *testing.T, text string) *berth.Model {
	g, err := ssa.ParseGraph(text)
	require.NoError(t, err)
	require.NoError(t, ops.InferGraph(g))
	return berth.FromModule(&ssa.Module{Graph: g})
}

// TestImportErrors: what has no place in an expression graph is refused by an error that names it.
func TestImportErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"open shape":      {`graph "g" { in %x: float32[N,2] %y = Relu(%x) out %y }`, `input "x": "x" is float32[N,2]; an expression graph holds tensors of known shape: bind shapes with berth.WithDim or berth.WithShape`},
		"size by content": {`graph "g" { in %x: float32[4] %y = NonZero(%x) out %y }`, `NonZero`},
		"sequence":        {`graph "g" { in %x: float32[4] %s = SequenceConstruct(%x) %y = SequenceLength(%s) out %y }`, `SequenceConstruct`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := exprgraph.Import(context.Background(), model(t, c.text))
			var e *exprgraph.Error
			require.ErrorAs(t, err, &e)
			assert.ErrorContains(t, err, c.want)
		})
	}
	_, err := exprgraph.Import(context.Background(), nil)
	assert.Error(t, err)
}

// TestBind: values that do not fit their inputs are refused by name, and then none is bound; outputs have values after a pass.
func TestBind(t *testing.T) {
	g, err := exprgraph.Import(t.Context(), model(t, `graph "g" { in %a: float32[2] in %b: int64[] %y = Relu(%a) %z = Neg(%b) out %y, %z }`))
	require.NoError(t, err)
	a, b := ndarray.Of([]float32{-1, 2}, 2), ndarray.Of([]int64{3})
	require.Error(t, g.Bind(a), "one for each input")
	for _, v := range []ndarray.Value{nil, ndarray.Of([]int64{3}, 1), ndarray.Of([]int32{3})} {
		var e *berth.InputError
		require.ErrorAs(t, g.Bind(a, v), &e)
		assert.Equal(t, "b", e.Name)
		assert.Equal(t, "int64[]", e.Want)
	}
	assert.Nil(t, g.Inputs[0].Value())
	_, err = g.Results()
	require.ErrorContains(t, err, "the output has no value")
	_, err = (*exprgraph.Graph)(nil).Results()
	require.ErrorContains(t, err, "the graph is nil")
	require.NoError(t, g.Bind(a, b))
	machine, err := vm.New(g.ExprGraph)
	require.NoError(t, err)
	require.NoError(t, machine.RunAll())
	out, err := g.Results()
	require.NoError(t, err)
	assert.Equal(t, []float32{0, 2}, out[0].Floats32())
	assert.Equal(t, int64(-3), out[1].Int(0))
}

// TestSmallTypes: elements of less than a byte are a graph's, too.
func TestSmallTypes(t *testing.T) {
	for _, d := range []ndarray.DType{ndarray.Float4E2M1, ndarray.Float6E2M3, ndarray.Float8E5M2FNUZ, ndarray.Int4, ndarray.Int2, ndarray.BFloat16} {
		g, err := exprgraph.Import(t.Context(), model(t, `graph "g" { in %x: `+d.String()+`[3] %y = Cast(%x) [to=1] out %y }`))
		require.NoError(t, err, "%s", d)
		x := ndarray.Must(d, 3)
		for i, v := range []float64{1, 0, 1} {
			x.SetFloat(i, v)
		}
		require.NoError(t, g.Bind(x))
		machine, err := vm.New(g.ExprGraph)
		require.NoError(t, err)
		require.NoError(t, machine.RunAll())
		out, err := g.Results()
		require.NoError(t, err)
		assert.Equal(t, []float32{1, 0, 1}, out[0].Floats32(), "%s", d)
	}
}

// TestApplyErrors: what is no operator, or not its operands or attributes, is an error.
func TestApplyErrors(t *testing.T) {
	g := G.NewGraph()
	x := G.NewMatrix(g, tensor.Float32, G.WithShape(2, 3), G.WithName("x"))
	for name, c := range map[string]struct {
		op    string
		in    []*G.Node
		attrs []ssa.Attr
	}{
		"no operator":     {"Rectify", []*G.Node{x}, nil},
		"too many":        {"Relu", []*G.Node{x, x}, nil},
		"none":            {"Relu", nil, nil},
		"wrong attribute": {"Softmax", []*G.Node{x}, []ssa.Attr{ssa.StringAttr("axis", "last")}},
		"shapes":          {"MatMul", []*G.Node{x, x}, nil},
		"constants only":  {"Relu", []*G.Node{G.NewConstant(float32(1))}, nil},
		"open result":     {"NonZero", []*G.Node{x}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := exprgraph.Apply(c.op, 1, c.in, c.attrs...)
			var e *exprgraph.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, c.op, e.Node)
		})
	}
}

// TestApplyResults: an operator has the results that it has.
func TestApplyResults(t *testing.T) {
	x := G.NewMatrix(G.NewGraph(), tensor.Float32, G.WithShape(2, 3), G.WithName("x"))
	for _, c := range []struct {
		op string
		n  int
	}{{"Relu", -1}, {"Relu", 2}, {"Relu", math.MaxInt}, {"Split", math.MaxInt}} {
		var e *exprgraph.Error
		_, err := exprgraph.Apply(c.op, c.n, []*G.Node{x})
		require.ErrorAs(t, err, &e, "%s of %d results", c.op, c.n)
	}
}

// TestSeveralResults: an operator with several results is one node of the planned graph, and
// several of the expression graph.
func TestSeveralResults(t *testing.T) {
	g := G.NewGraph()
	x := G.NewMatrix(g, tensor.Float32, G.WithShape(2, 3), G.WithName("x"), G.WithValue(tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]float32{3, 1, 2, 4, 6, 5}))))
	k := G.NewConstant(tensor.New(tensor.WithBacking([]int64{2})), G.WithName("k"))
	top, err := exprgraph.Apply("TopK", 2, []*G.Node{x, k})
	require.NoError(t, err)
	m, err := vm.New(g)
	require.NoError(t, err)
	require.NoError(t, m.RunAll())
	assert.Equal(t, []float32{3, 2, 6, 5}, top[0].Value().Data())
	assert.Equal(t, []int64{0, 2, 1, 2}, top[1].Value().Data())
	assert.Equal(t, 1, m.Memory().Nodes)
}

// TestTapeMachine: imported models run in Gorgonia's own machine, too, op by op.
func TestTapeMachine(t *testing.T) {
	for _, name := range []string{"wakeword", "vit_mini", "gpt2_mini_kv", "bilstm_gru_ctc"} {
		t.Run(name, func(t *testing.T) {
			g := loaded(t, name)
			m, err := vm.New(g.ExprGraph, vm.Keep(g.Outputs...))
			require.NoError(t, err)
			require.NoError(t, m.RunAll())
			var want []*ndarray.Array
			for _, n := range g.Outputs {
				a, err := values.Array(n.Value())
				require.NoError(t, err)
				want = append(want, a.Clone())
			}
			tape := G.NewTapeMachine(g.ExprGraph)
			defer tape.Close()
			require.NoError(t, tape.RunAll())
			for i, n := range g.Outputs {
				a, err := values.Array(n.Value())
				require.NoError(t, err)
				assert.Nil(t, conformance.Compare(a, want[i], conformance.Tolerance{Rtol: 1e-4, Atol: 1e-5}))
			}
		})
	}
}

// TestHalves: element types that Gorgonia knows by registration only run, too.
func TestHalves(t *testing.T) {
	m := model(t, `graph "g" { in %x: float16[4] %z = Neg(%x) %y = Relu(%z) out %y }`)
	g, err := exprgraph.Import(context.Background(), m)
	require.NoError(t, err)
	x := ndarray.Must(ndarray.Float16, 4)
	for i, v := range []float64{-1, 2, -3, 0.5} {
		x.SetFloat(i, v)
	}
	v, err := values.Of(x, g.Inputs[0].Dtype(), g.Inputs[0].Shape())
	require.NoError(t, err)
	require.NoError(t, G.Let(g.Inputs[0], v))
	machine, err := vm.New(g.ExprGraph)
	require.NoError(t, err)
	require.NoError(t, machine.RunAll())
	y, err := values.Array(g.Outputs[0].Value())
	require.NoError(t, err)
	for i, want := range []float64{1, 0, 3, 0} {
		assert.Equal(t, want, y.Float(i))
	}
}

// TestUnaligned: arrays between the addresses of their elements, as weights mapped from a file may be, are bound as clones; so
// are constants.
func TestUnaligned(t *testing.T) {
	unaligned := func(values ...float32) *ndarray.Array {
		a := ndarray.Of(values, len(values))
		data := ndarray.AlignedBytes(len(a.Data) + 1)[1:]
		copy(data, a.Data)
		return &ndarray.Array{DType: a.DType, Shape: a.Shape, Data: data}
	}
	graph := ssa.NewGraph("g")
	x := graph.AddParam("x", ssa.StaticTensor(ndarray.Float32, 2))
	sum := graph.NewNode("Add", []*ssa.Value{x, graph.AddConst("c", ssa.NewConstant(unaligned(10, 20)))}, 1)
	require.NoError(t, ops.Infer(sum))
	sum.Out[0].Name = "y"
	graph.Results = []*ssa.Value{sum.Out[0]}
	g, err := exprgraph.Import(t.Context(), berth.FromModule(&ssa.Module{Graph: graph}))
	require.NoError(t, err)
	require.NoError(t, g.Bind(unaligned(1, 2)))
	machine, err := vm.New(g.ExprGraph)
	require.NoError(t, err)
	require.NoError(t, machine.RunAll())
	assert.Equal(t, []float32{11, 22}, g.Outputs[0].Value().Data())
	addresses := []*G.Node{g.Inputs[0]}
	for _, n := range g.ExprGraph.AllNodes() {
		if n.Op() != nil && len(n.Shape()) == 1 && n.Value() != nil {
			addresses = append(addresses, n)
		}
	}
	for _, n := range addresses {
		assert.Zero(t, n.Value().Uintptr()%4, n.Name())
	}
	require.NoError(t, machine.Close())
}
