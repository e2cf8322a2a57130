package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/graphgen"
	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/testmodels"
)

// recorded writes a built-in model with recorded inputs and outputs into a folder;
// wrong adds that to the first element of every output.
func recorded(t *testing.T, dir, name string, wrong float64) {
	m, err := testmodels.Build(name)
	require.NoError(t, err)
	set := filepath.Join(dir, name, "test_data_set_0")
	require.NoError(t, os.MkdirAll(set, 0o755))
	require.NoError(t, onnxexport.Save(m, filepath.Join(dir, name, "model.onnx"), onnxexport.Options{}))
	in, err := graphgen.Inputs(rand.New(rand.NewPCG(1, 1)), m.Graph, map[string]int64{})
	require.NoError(t, err)
	out, err := ops.Interpret(t.Context(), m.Graph, in, nil)
	require.NoError(t, err)
	for i, v := range in {
		writeTemp(t, set, fmt.Sprintf("input_%d.pb", i), tensorBytes(t, m.Graph.Params[i].Name, v.(*ndarray.Array)))
	}
	for i, v := range out {
		a := v.(*ndarray.Array).Clone()
		a.SetFloat(0, a.Float(0)+wrong)
		writeTemp(t, set, fmt.Sprintf("output_%d.pb", i), tensorBytes(t, m.Graph.Results[i].Name, a))
	}
}

func TestVerify(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"mlp", "if-nested", "heads"} {
		recorded(t, dir, name, 0)
	}
	assert.Equal(t, "3 passed, 0 failed, 0 skipped; 3 data sets run\n", ok(t, "verify", dir))
	m := object(t, ok(t, "verify", dir, "--json"), "passed", "failed", "skipped", "data_sets")
	assert.Equal(t, map[string]any{"passed": 3.0, "failed": 0.0, "skipped": 0.0, "data_sets": 3.0}, m)
	assert.Equal(t, "1 passed, 0 failed, 0 skipped; 1 data sets run\n", ok(t, "verify", filepath.Join(dir, "mlp", "model.onnx")))
	assert.Equal(t, "1 passed, 0 failed, 0 skipped; 1 data sets run\n", ok(t, "verify", dir, "--only", "if-"))
	assert.Equal(t, "3 passed, 0 failed, 0 skipped; 3 data sets run\n", ok(t, "verify", dir, "--optimized", "--check"))

	assert.Equal(t, "3 passed, 0 failed, 0 skipped; 3 data sets run\n", ok(t, "verify", dir, "--backend", "reference"))
	fails(t, exitUsage, []string{"--threads 99999: want at most"}, "verify", dir, "--threads", "99999")
	fails(t, exitUsage, []string{`no backend "tpu"`}, "verify", dir, "--backend", "tpu")
	fails(t, exitFailed, []string{"/test_data_set_0: "}, "verify", dir, "--backend", "cuda", "--device", "9999") // no case has failed: none ran

	list := filepath.Join(t.TempDir(), "list.txt")
	want := 3 * len(berth.Planners())
	assert.Equal(t, fmt.Sprintf("%d passed, 0 failed, 0 skipped; %d data sets run\n", want, want), ok(t, "verify", dir, "--planner", "all", "--list", list))
	lines, err := os.ReadFile(list)
	require.NoError(t, err)
	assert.Equal(t, want, strings.Count(string(lines), "\n"))
	assert.Equal(t, want, strings.Count(string(lines), "PASS "))
	assert.Contains(t, string(lines), "PASS mlp [exact]\n")
}

func TestVerifyDiffers(t *testing.T) {
	dir := t.TempDir()
	recorded(t, dir, "mlp", 0)
	recorded(t, dir, "if-pass", 0.5)
	list := filepath.Join(t.TempDir(), "list.txt")
	o := fails(t, exitDiffers, []string{"FAIL if-pass", `output "y"`, "1 of 2 cases failed"}, "verify", dir, "--list", list)
	assert.Equal(t, "1 passed, 1 failed, 0 skipped; 2 data sets run\n", o.out)
	lines, err := os.ReadFile(list)
	require.NoError(t, err)
	assert.Contains(t, string(lines), "PASS mlp\n")
	assert.Contains(t, string(lines), "FAIL if-pass: ")

	o = fails(t, exitDiffers, nil, "verify", dir, "--json")
	assert.Equal(t, map[string]any{"passed": 1.0, "failed": 1.0, "skipped": 0.0, "data_sets": 2.0}, object(t, o.out))
	ok(t, "verify", dir, "--atol", "1")
	writeTemp(t, filepath.Join(dir, "if-pass"), "tolerance.json", []byte(`{"rtol": 0, "atol": 1, "why": "spoiled on purpose"}`))
	ok(t, "verify", dir)
}

// TestVerifyUnrecorded: what has no recorded outputs is run and counts as skipped, and outputs that are not recorded are named.
func TestVerifyUnrecorded(t *testing.T) {
	dir := t.TempDir()
	recorded(t, dir, "heads", 0)
	recorded(t, dir, "mlp", 0)
	mlp := filepath.Join(dir, "mlp")
	require.NoError(t, os.Remove(filepath.Join(mlp, "test_data_set_0", "output_0.pb")))
	list := filepath.Join(t.TempDir(), "list.txt")
	o := cli(t, "verify", dir, "--list", list)
	assert.Equal(t, exitDone, o.code)
	assert.Equal(t, "1 passed, 0 failed, 1 skipped; 2 data sets run\n", o.out)
	assert.Contains(t, o.err, "SKIP mlp: no outputs are recorded")
	lines, err := os.ReadFile(list)
	require.NoError(t, err)
	assert.Contains(t, string(lines), "SKIP mlp: ")
	fails(t, exitDiffers, []string{"nothing was compared"}, "verify", mlp)

	two := saved(t, `in %x: float32[1] %y = Neg(%x) %z = Abs(%x) out %y, %z`)
	set := filepath.Join(filepath.Dir(two), "test_data_set_0")
	require.NoError(t, os.Mkdir(set, 0o755))
	one := ndarray.Of([]float32{1}, 1)
	writeTemp(t, set, "input_0.pb", tensorBytes(t, "x", one))
	writeTemp(t, set, "output_1.pb", tensorBytes(t, "z", one))
	o = cli(t, "verify", two)
	assert.Equal(t, exitDone, o.code)
	assert.Contains(t, o.err, "test_data_set_0: not recorded, so not compared: output y\n")
	writeTemp(t, set, "output_2.pb", tensorBytes(t, "w", one))
	fails(t, exitDiffers, []string{"output_2.pb: the model has 2 outputs"}, "verify", two)
	require.NoError(t, os.RemoveAll(filepath.Join(mlp, "test_data_set_0")))
	fails(t, exitModel, []string{"mlp"}, "verify", mlp)
}

// TestVerifyBadModel tells a model that can not be read from one that computes
// something else.
func TestVerifyBadModel(t *testing.T) {
	dir := t.TempDir()
	recorded(t, dir, "mlp", 0)
	model := filepath.Join(dir, "mlp", "model.onnx")
	require.NoError(t, os.Truncate(model, 1000))
	fails(t, exitModel, []string{"FAIL mlp", "no model could be read"}, "verify", dir)
	recorded(t, dir, "heads", 0)
	fails(t, exitDiffers, []string{"FAIL mlp"}, "verify", dir)
	fails(t, exitModel, []string{"nothing"}, "verify", filepath.Join(dir, "nothing"))
	empty := t.TempDir()
	fails(t, exitModel, []string{empty}, "verify", empty)
}

// TestSurplusFiles: files of a data set that belong to no input or output are errors, not left out.
func TestSurplusFiles(t *testing.T) {
	for _, file := range []string{"input_1.pb", "output_1.pb", "input_01.pb", "input_x.pb", "output_-1.pb"} {
		dir := t.TempDir()
		recorded(t, dir, "mlp", 0)
		set := filepath.Join(dir, "mlp", "test_data_set_0")
		writeTemp(t, set, file, tensorBytes(t, "", ndarray.Must(ndarray.Float32, 1)))
		fails(t, exitDiffers, []string{file}, "verify", dir)
		if !strings.HasPrefix(file, "output_1") {
			fails(t, exitFailed, []string{"--data", file}, "run", filepath.Join(dir, "mlp", "model.onnx"), "--data", set)
		}
	}
}
