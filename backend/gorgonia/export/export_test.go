package export_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia/export"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/graphs"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/backend/gorgonia/vm"
	"github.com/berth-onnx/berth/ndarray"
)

// arrays are the values of a model's inputs.
func arrays(t *testing.T, m *berth.Model, b *graphs.Built) map[string]ndarray.Value {
	in := map[string]ndarray.Value{}
	for _, n := range b.Graph.Inputs() {
		if n.Value() == nil {
			continue
		}
		a, err := values.Array(n.Value())
		require.NoError(t, err)
		in[n.Name()] = a
	}
	for _, p := range m.Inputs() {
		if strings.HasPrefix(p.Name, "state") { // zeros before the first pass
			in[p.Name] = ndarray.Must(ndarray.Float32, 6)
		}
	}
	out := map[string]ndarray.Value{}
	for _, p := range m.Inputs() {
		require.Contains(t, in, p.Name)
		out[p.Name] = in[p.Name]
	}
	return out
}

// TestGraphs: every graph, with its gradients, is written as a model that other runtimes accept, read back and gives the
// machine's values, with fast kernels and by the reference interpreter.
func TestGraphs(t *testing.T) {
	for _, c := range graphs.Cases {
		t.Run(c.Name, func(t *testing.T) {
			b, err := c.Make(tensor.Float32, 1)
			require.NoError(t, err)
			G.WithName("cost")(b.Cost)
			m, err := export.Model(b.Graph, export.Options{Training: true})
			require.NoError(t, err)
			file := filepath.Join(folder(t), strings.ReplaceAll(c.Name, " ", "_")+".onnx")
			require.NoError(t, m.Save(file, berth.SaveOptions{}))
			read, err := berth.Open(file)
			require.NoError(t, err)
			defer read.Close()
			require.NoError(t, read.CheckPortable(t.Context()))

			machine, err := vm.New(b.Graph)
			require.NoError(t, err)
			require.NoError(t, machine.RunAll())
			for _, opts := range [][]berth.Option{nil, {berth.WithBackend("reference"), berth.WithoutPasses()}} {
				got, err := read.RunValues(t.Context(), arrays(t, read, b), opts...)
				require.NoError(t, err)
				agreeAll(t, b, func(name string) ndarray.Value { return got[name] })
			}
		})
	}
}

// folder is where the models are written: a temporary one unless the environment names one,
// so that other tools can be run on them.
func folder(t *testing.T) string {
	if f := os.Getenv("BERTH_EXPORT_DIR"); f != "" {
		return f
	}
	return t.TempDir()
}

// agreeAll compares the cost and the gradients, by the names of a model's outputs, with those that a machine has computed.
func agreeAll(t *testing.T, b *graphs.Built, got func(name string) ndarray.Value) {
	t.Helper()
	agree(t, got("cost"), b.Cost.Value())
	for _, n := range b.Learn {
		v, err := n.Grad()
		require.NoError(t, err)
		agree(t, got("gradient_of_"+n.Name()), v)
	}
}

// agree compares float32 values of two orders of the same arithmetic.
func agree(t *testing.T, got ndarray.Value, want G.Value) {
	t.Helper()
	w, err := values.Array(want)
	require.NoError(t, err)
	g, ok := got.(*ndarray.Array)
	require.True(t, ok, "%s", ndarray.Describe(got))
	require.Equal(t, w.Len(), g.Len())
	top := 0.0
	for i := range w.Len() {
		top = max(top, math.Abs(w.Float(i)))
	}
	for i := range w.Len() {
		require.InDelta(t, w.Float(i), g.Float(i), 2e-5*top+1e-12)
	}
}

// TestRefused: what has no meaning in ONNX is refused by name.
func TestRefused(t *testing.T) {
	g := G.NewGraph()
	x := G.NewMatrix(g, tensor.Float32, G.WithShape(2, 3), G.WithName("x"))
	G.Must(G.Add(x, G.BinomialRandomNode(g, tensor.Float32, 3, 0.5, 2, 3)))
	_, err := export.Model(g, export.Options{})
	var e *export.Error
	require.ErrorAs(t, err, &e)
	assert.ErrorIs(t, err, export.ErrNoOperator)
	assert.Equal(t, "gorgonia.randomOp", e.Op)
	_, err = export.Model(nil, export.Options{})
	assert.ErrorAs(t, err, &e)
}

// TestNames: inputs and outputs have the names that their nodes were given, each once; others say what they are.
func TestNames(t *testing.T) {
	g := G.NewGraph()
	input := func(name string, size int) *G.Node {
		return G.NewVector(g, tensor.Float32, G.WithShape(size), G.WithName(name))
	}
	named := func(name string, n *G.Node, err error) *G.Node {
		require.NoError(t, err)
		G.WithName(name)(n)
		return n
	}
	x, none, odd := input("x", 3), input("", 3), input("conv.0/w:1", 3)
	sum, err := G.Add(x, none)
	y := named("x", sum, err)
	product, err := G.HadamardProd(y, odd)
	z := named("x_2", product, err)
	wrong, err := G.Neg(z)
	invalid := named("a\xffb", wrong, err)
	unnamed := G.Must(G.Square(z))
	total := G.Must(G.Sum(unnamed))
	for name, c := range map[string]struct {
		outputs G.Nodes
		want    []string
	}{
		"an input is an output":      {G.Nodes{x}, []string{"x", "x_2"}},
		"names taken":                {G.Nodes{y, x, z}, []string{"x", "input", "conv.0/w:1", "x_3", "x_4", "x_2"}},
		"no names":                   {G.Nodes{unnamed, total}, []string{"x", "input", "conv.0/w:1", "output", "output_2"}},
		"listed twice":               {G.Nodes{z, z}, []string{"x", "input", "conv.0/w:1", "x_2"}},
		"a name that is not UTF-8":   {G.Nodes{invalid}, []string{"x", "input", "conv.0/w:1", "a_b"}},
		"an empty list is none":      {G.Nodes{}, []string{"x", "input", "conv.0/w:1", "a_b", "output"}},
		"an input without a name":    {G.Nodes{none}, []string{"input", "input_2"}},
		"a name of what is computed": {G.Nodes{odd, z}, []string{"conv.0/w:1", "x", "input", "conv.0/w:1_2", "x_2"}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				m, err := export.Model(g, export.Options{Outputs: c.outputs})
				require.NoError(t, err)
				file := filepath.Join(t.TempDir(), "m.onnx")
				require.NoError(t, m.Save(file, berth.SaveOptions{}))
				read, err := berth.Open(file)
				require.NoError(t, err)
				var names []string
				for _, p := range append(read.Inputs(), read.Outputs()...) {
					names = append(names, p.Name)
				}
				assert.Equal(t, c.want, names)
				require.NoError(t, read.Close())
			}
		})
	}
}

// TestInternalNames: an input keeps its name whatever nodes of ONNX are called.
func TestInternalNames(t *testing.T) {
	for _, name := range []string{"const", "y/MatMul", "state", "Add_0", "output"} {
		g := G.NewGraph()
		x := G.NewMatrix(g, tensor.Float32, G.WithShape(2, 2), G.WithName(name))
		y := G.Must(G.Mul(x, G.Must(G.Add(x, G.NewConstant(float32(1))))))
		G.WithName("y")(y)
		m, err := export.Model(g, export.Options{})
		require.NoError(t, err)
		assert.Equal(t, name, m.Inputs()[0].Name)
		assert.Equal(t, "y", m.Outputs()[0].Name)
		out, err := m.RunValues(t.Context(), map[string]ndarray.Value{name: ndarray.Of([]float32{1, 2, 3, 4}, 2, 2)})
		require.NoError(t, err)
		assert.Equal(t, []float32{10, 13, 22, 29}, out["y"].(*ndarray.Array).Floats32())
	}
}

// TestNodesGiven: a node that an option can not be about is refused, by its name and the option's.
func TestNodesGiven(t *testing.T) {
	g := G.NewGraph()
	x := G.NewVector(g, tensor.Float32, G.WithShape(2), G.WithName("x"))
	y := G.Must(G.Square(x))
	G.WithName("y")(y)
	other := G.NewVector(G.NewGraph(), tensor.Float32, G.WithShape(2), G.WithName("other"))
	bare := G.NewGraph()
	G.NewVector(bare, tensor.Float32, G.WithShape(2), G.WithName("x"))
	for name, c := range map[string]struct {
		graph   *G.ExprGraph
		options export.Options
		want    string
	}{
		"output, nil":                {g, export.Options{Outputs: G.Nodes{nil}}, "node 0 of export.Options.Outputs is nil"},
		"output of another graph":    {g, export.Options{Outputs: G.Nodes{y, other}}, `node "other": export.Options.Outputs has the node of another graph`},
		"weight, nil":                {g, export.Options{Weights: G.Nodes{nil}}, "node 0 of export.Options.Weights is nil"},
		"weight of another graph":    {g, export.Options{Weights: G.Nodes{other}}, `node "other": export.Options.Weights has the node of another graph`},
		"weight, computed":           {g, export.Options{Weights: G.Nodes{y}}, `node "y" (gorgonia.elemUnaryOp): export.Options.Weights takes inputs, and the node is computed`},
		"weight, without a value":    {g, export.Options{Weights: G.Nodes{x}}, `node "x": export.Options.Weights makes a constant of the input, and no value is bound to it`},
		"a graph of nothing":         {G.NewGraph(), export.Options{}, "the expression graph computes nothing"},
		"a graph of inputs":          {bare, export.Options{}, "the expression graph computes nothing"},
		"no graph":                   {nil, export.Options{}, "the expression graph is nil"},
		"a softmax of integers":      {integers(), export.Options{}, `Softmax is of floats, and these elements are int64; convert them with gorgonia.ConvType`},
		"a gradient without a graph": {&G.ExprGraph{}, export.Options{}, "the expression graph computes nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := export.Model(c.graph, c.options)
			var e *export.Error
			require.ErrorAs(t, err, &e)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func integers() *G.ExprGraph {
	g := G.NewGraph()
	G.Must(G.SoftMax(G.NewMatrix(g, tensor.Int64, G.WithShape(2, 2), G.WithName("x"))))
	return g
}

// TestSharedGradient: inputs with one gradient have an output each, unless outputs are listed.
func TestSharedGradient(t *testing.T) {
	g := G.NewGraph()
	a, b := G.NewVector(g, tensor.Float32, G.WithShape(2), G.WithName("a")), G.NewVector(g, tensor.Float32, G.WithShape(2), G.WithName("b"))
	cost := G.Must(G.Sum(G.Must(G.Square(G.Must(G.Add(a, b))))))
	G.WithName("cost")(cost)
	_, err := G.Grad(cost, a, b)
	require.NoError(t, err)
	m, err := export.Model(g, export.Options{})
	require.NoError(t, err)
	out, err := m.RunValues(t.Context(), map[string]ndarray.Value{"a": ndarray.Of([]float32{1, 2}, 2), "b": ndarray.Of([]float32{3, 4}, 2)})
	require.NoError(t, err)
	for _, name := range []string{"gradient_of_a", "gradient_of_b"} {
		require.Contains(t, out, name)
		assert.Equal(t, []float32{8, 12}, out[name].(*ndarray.Array).Floats32())
	}
	listed, err := export.Model(g, export.Options{Outputs: G.Nodes{a.Deriv(), cost}})
	require.NoError(t, err)
	require.Len(t, listed.Outputs(), 2, "those that are asked for, in their order")
	assert.Contains(t, []string{"gradient_of_a", "gradient_of_b"}, listed.Outputs()[0].Name)
	assert.Equal(t, "cost", listed.Outputs()[1].Name)
}

// TestRandomNodes: ops that no single operator of ONNX computes are written with several, random nodes as the operators that ONNX
// has; the models are valid and run.
func TestRandomNodes(t *testing.T) {
	g := G.NewGraph()
	x := G.NewMatrix(g, tensor.Float32, G.WithShape(2, 3), G.WithName("x"))
	deviation := G.GaussianRandomNode(g, tensor.Float32, 0, 0.001, 6) // of the same type and shape, Gorgonia takes both for one
	noise := G.Must(G.Add(G.UniformRandomNode(g, tensor.Float32, 2, 3, 2, 3), G.Must(G.Reshape(deviation, tensor.Shape{2, 3}))))
	G.WithName("noise")(noise)
	d := G.Must(G.DiagFlat(G.Must(G.Sparsemax(x))))
	G.WithName("d")(d)
	m, err := export.Model(g, export.Options{})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "random.onnx")
	require.NoError(t, m.Save(file, berth.SaveOptions{}))
	read, err := berth.Open(file)
	require.NoError(t, err)
	defer read.Close()
	require.NoError(t, read.CheckPortable(t.Context()))
	got, err := read.RunValues(t.Context(), map[string]ndarray.Value{"x": ndarray.Of([]float32{3, 1, 1, 1, 1, 0.2}, 2, 3)})
	require.NoError(t, err)
	for _, v := range got["noise"].(*ndarray.Array).Floats32() {
		assert.True(t, v > 1.99 && v < 3.01, "%g", v)
	}
	diagonal := make([]float32, 36)
	diagonal[0], diagonal[3*7], diagonal[4*7] = 1, 0.5, 0.5
	assert.InDeltaSlice(t, diagonal, got["d"].(*ndarray.Array).Floats32(), 1e-6)
}

// TestWeights: a model to be used has its weights inside and the statistics as they are.
func TestWeights(t *testing.T) {
	g := G.NewGraph()
	x := G.NewTensor(g, tensor.Float32, 4, G.WithShape(2, 3, 4, 4), G.WithName("x"), G.WithInit(G.Gaussian(0, 1)))
	scale := G.NewTensor(g, tensor.Float32, 4, G.WithShape(1, 3, 1, 1), G.WithName("scale"), G.WithInit(G.Gaussian(1, 1)))
	bias := G.NewTensor(g, tensor.Float32, 4, G.WithShape(1, 3, 1, 1), G.WithName("bias"), G.WithInit(G.Gaussian(0, 1)))
	y, _, _, op, err := G.BatchNorm(x, scale, bias, 0.9, 1e-5)
	require.NoError(t, err)
	y = G.Must(G.Dropout(y, 0.5))
	G.WithName("y")(y)
	train, err := vm.New(g)
	require.NoError(t, err)
	require.NoError(t, train.RunAll()) // moves the statistics
	use, err := vm.New(g, vm.EvalMode())
	require.NoError(t, err)
	mean, _ := op.Stats()
	assert.NotEqual(t, float32(0), mean.Data().([]float32)[0])
	require.NoError(t, use.RunAll())
	m, err := export.Model(g, export.Options{Outputs: G.Nodes{y}, Weights: G.Nodes{scale, bias}})
	require.NoError(t, err)
	require.Len(t, m.Inputs(), 1)
	a, err := values.Array(x.Value())
	require.NoError(t, err)
	got, err := m.RunValues(context.Background(), map[string]ndarray.Value{"x": a})
	require.NoError(t, err)
	agree(t, got["y"], y.Value())
}
