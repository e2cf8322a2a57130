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
			m, err := export.Model(b.Graph, export.Options{Training: true})
			require.NoError(t, err)
			file := filepath.Join(folder(t), strings.ReplaceAll(c.Name, " ", "_")+".onnx")
			require.NoError(t, m.Save(file, berth.SaveOptions{}))
			read, err := berth.Open(file)
			require.NoError(t, err)
			defer read.Close()
			require.NoError(t, read.CheckPortable())

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
	agree(t, got(b.Cost.Name()), b.Cost.Value())
	for _, n := range b.Learn {
		v, err := n.Grad()
		require.NoError(t, err)
		agree(t, got("gradient of "+n.Name()), v)
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

// TestNames: outputs have the names of their nodes, also of inputs and of nodes of one name.
func TestNames(t *testing.T) {
	g := G.NewGraph()
	x := G.NewMatrix(g, tensor.Float32, G.WithShape(2, 3), G.WithName("x"))
	none := G.NewMatrix(g, tensor.Float32, G.WithShape(2, 3))
	y := G.Must(G.Add(x, none))
	G.WithName("x")(y)
	m, err := export.Model(g, export.Options{Outputs: G.Nodes{y, x}})
	require.NoError(t, err)
	var names []string
	for _, p := range append(m.Inputs(), m.Outputs()...) {
		names = append(names, p.Name)
	}
	assert.Equal(t, []string{"x", "input", "x (2)", "x (3)"}, names)
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
	require.NoError(t, read.CheckPortable())
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
