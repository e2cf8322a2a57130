package export_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia/export"
	"github.com/berth-onnx/berth/backend/gorgonia/exprgraph"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/graphs"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/backend/gorgonia/vm"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// python finds an interpreter that has onnx and onnxruntime: the one that BERTH_PYTHON names, or that of the path. Without one,
// the test is skipped.
func python(t *testing.T) string {
	path, err := exec.LookPath(cmp.Or(os.Getenv("BERTH_PYTHON"), "python3"))
	if err == nil {
		err = exec.Command(path, "-c", "import numpy, onnx, onnxruntime").Run()
	}
	if err != nil {
		t.Skipf("no Python with numpy, onnx and onnxruntime (%v): set BERTH_PYTHON to one", err)
	}
	return path
}

// shared is an array on its way to Python and back.
type shared struct {
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
	Data  []byte `json:"data"`
}

type runtimeCase struct {
	Model  string            `json:"model"`
	Inputs map[string]shared `json:"inputs"`
}

// TestONNXRuntime: every graph, with its gradients, passes the checker of the ONNX project and gives the machine's values in
// ONNX Runtime.
func TestONNXRuntime(t *testing.T) {
	interpreter, dir := python(t), t.TempDir()
	var cases []runtimeCase
	var built []*graphs.Built
	for i, c := range graphs.Cases {
		b, err := c.Make(tensor.Float32, 1)
		require.NoError(t, err)
		G.WithName("cost")(b.Cost)
		m, err := export.Model(b.Graph, export.Options{Training: true})
		require.NoError(t, err)
		path := filepath.Join(dir, fmt.Sprintf("%d.onnx", i))
		require.NoError(t, m.Save(path, berth.SaveOptions{}))
		in := map[string]shared{}
		for name, v := range arrays(t, m, b) {
			a := v.(*ndarray.Array)
			in[name] = shared{a.DType.String(), append([]int{}, a.Shape...), a.Data}
		}
		cases, built = append(cases, runtimeCase{path, in}), append(built, b)
	}
	results := runPython(t, interpreter, cases)
	require.Len(t, results, len(cases))
	for i, c := range graphs.Cases {
		t.Run(c.Name, func(t *testing.T) {
			machine, err := vm.New(built[i].Graph)
			require.NoError(t, err)
			require.NoError(t, machine.RunAll())
			agreeAll(t, built[i], func(name string) ndarray.Value { return arrayOf(t, results[i], name) })
		})
	}
}

// runPython checks and runs models.
func runPython(t *testing.T, interpreter string, cases []runtimeCase) (results []map[string]shared) {
	request, err := json.Marshal(cases)
	require.NoError(t, err)
	run := exec.CommandContext(t.Context(), interpreter, filepath.Join("testdata", "run.py"))
	var failed bytes.Buffer
	run.Stdin, run.Stderr = bytes.NewReader(request), &failed
	out, err := run.Output()
	require.NoError(t, err, "%s", &failed)
	require.NoError(t, json.Unmarshal(out, &results))
	return results
}

// arrayOf is a float32 result by name.
func arrayOf(t *testing.T, results map[string]shared, name string) *ndarray.Array {
	require.Contains(t, results, name)
	r := results[name]
	assert.Equal(t, "float32", r.Type)
	return &ndarray.Array{DType: ndarray.Float32, Shape: r.Shape, Data: r.Data}
}

// TestRecurrentInONNXRuntime: the loop in the gradient of a recurrent layer is written as a Scan, and gives the machine's gradients
// in ONNX Runtime.
func TestRecurrentInONNXRuntime(t *testing.T) {
	interpreter := python(t)
	g, rng := G.NewGraph(), rand.New(rand.NewPCG(1, 2))
	input := func(name string, shape ...int) *G.Node {
		v := make([]float32, tensor.Shape(shape).TotalSize())
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return G.NewTensor(g, tensor.Float32, len(shape), G.WithShape(shape...), G.WithName(name), G.WithValue(tensor.New(tensor.WithShape(shape...), tensor.WithBacking(v))))
	}
	x, w, r, bias := input("x", 5, 2, 3), input("w", 2, 16, 3), input("r", 2, 16, 4), input("bias", 2, 32)
	y, err := exprgraph.Apply("LSTM", 1, []*G.Node{x, w, r, bias}, ssa.IntAttr("hidden_size", 4), ssa.StringAttr("direction", "bidirectional"))
	require.NoError(t, err)
	b := &graphs.Built{Graph: g, Cost: G.Must(G.Mean(G.Must(G.Square(y[0])))), Learn: G.Nodes{x, w, r, bias}}
	_, err = G.Grad(b.Cost, b.Learn...)
	require.NoError(t, err)
	G.WithName("cost")(b.Cost)
	machine, err := vm.New(g)
	require.NoError(t, err)
	require.NoError(t, machine.RunAll())
	m, err := export.Model(g, export.Options{})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "lstm.onnx")
	require.NoError(t, m.Save(path, berth.SaveOptions{}))
	in := map[string]shared{}
	for _, n := range b.Learn {
		a, err := values.Array(n.Value())
		require.NoError(t, err)
		in[n.Name()] = shared{a.DType.String(), a.Shape, a.Data}
	}
	results := runPython(t, interpreter, []runtimeCase{{path, in}})
	assert.Len(t, results[0], 1+len(b.Learn), "nothing but the cost and the gradients")
	agreeAll(t, b, func(name string) ndarray.Value { return arrayOf(t, results[0], name) })
}
