package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
)

// TestOptimizeDefault is the command line of the README, without a model.
func TestOptimizeDefault(t *testing.T) {
	t.Chdir(t.TempDir())
	out := ok(t, "optimize")
	for _, want := range []string{defaultModel, "before", "after", "nodes", "weights", "file", "FLOPs", "activation arena", "weights + arena",
		"inputs:   image=1x3x224x224", "verified: same outputs", "written:  mobilenetv2.opt.onnx", "peak memory of the optimized model, by planner", "optimal"} {
		assert.Contains(t, out, want)
	}
	assert.FileExists(t, "mobilenetv2.opt.onnx")
}

func TestOptimizeJSON(t *testing.T) {
	path := exported(t, "unet")
	out := filepath.Join(t.TempDir(), "small.onnx")
	m := object(t, ok(t, "optimize", path, "-o", out, "--json"),
		"model", "output", "before", "after", "shapes", "tried", "folding", "nan", "inf", "elements", "variants", "verified", "max_abs_diff", "planners", "opset", "opset_before")
	assert.Equal(t, path, m["model"])
	assert.Equal(t, out, m["output"])
	assert.Equal(t, true, m["verified"])
	before, after := m["before"].(map[string]any), m["after"].(map[string]any)
	for _, side := range []map[string]any{before, after} {
		hasFields(t, side, "nodes", "initializer_bytes", "file_bytes", "flops", "arena_bytes", "peak_bytes")
		for k, v := range side {
			assert.Positive(t, v, k)
		}
		assert.Equal(t, side["arena_bytes"].(float64)+side["initializer_bytes"].(float64), side["peak_bytes"])
	}
	assert.Less(t, after["nodes"], before["nodes"])
	assert.LessOrEqual(t, after["flops"], before["flops"])
	assert.EqualValues(t, modelSize(path), before["file_bytes"])
	assert.EqualValues(t, modelSize(out), after["file_bytes"])
	checkPlannerRows(t, m["planners"])
	ok(t, "diff", path, out)
}

// TestOptimizeDiffers asks for equal bits of a model whose batch normalizations go
// into the convolutions: nothing may be written, what was there stays.
func TestOptimizeDiffers(t *testing.T) {
	path := exported(t, "unet")
	out := filepath.Join(t.TempDir(), "out.onnx")
	exact := []string{"optimize", path, "-o", out, "--rtol", "0", "--atol", "0"}
	fails(t, exitDiffers, []string{path, "outputs differ", "nothing was written"}, exact...)
	absent(t, out)

	o := fails(t, exitDiffers, nil, append(exact, "--json")...)
	m := object(t, o.out)
	assert.Equal(t, false, m["verified"])
	assert.Equal(t, "", m["output"])
	assert.Positive(t, m["max_abs_diff"])

	require.NoError(t, os.WriteFile(out, []byte("precious"), 0o644))
	fails(t, exitDiffers, nil, exact...)
	kept, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Equal(t, "precious", string(kept))

	assert.Contains(t, ok(t, "optimize", path, "-o", out, "--no-verify"), "(not verified)")
	ok(t, "diff", path, out, "--rtol", "1e-3", "--atol", "1e-4")
}

func TestOptimizeFreezes(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"open", nil, "int64[N,S]"},
		{"dims", []string{"--dim", "N=2", "--dim", "S=5"}, "int64[2,5]"},
		{"one", []string{"--dim", "N=2"}, "int64[2,S]"},
		{"shape", []string{"--shape", "ids=3x4"}, "int64[3,4]"},
		{"colon", []string{"--shape", "ids:3,4"}, "int64[3,4]"},
		{"kept", []string{"--dim", "N=2", "--dim", "S=5", "--keep-io"}, "int64[N,S]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := filepath.Join(dir, c.name+".onnx")
			ok(t, append([]string{"optimize", "builtin:encoder", "-o", out, "--no-compare"}, c.args...)...)
			m := object(t, ok(t, "inspect", out, "--json"))
			for _, in := range m["inputs"].([]any) {
				assert.Equal(t, c.want, in.(map[string]any)["type"])
			}
		})
	}
}

func TestOptimizeExternal(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.onnx")
	ok(t, "optimize", "builtin:mlp", "-o", out, "--save-external", "1024", "--no-compare")
	file := berth.DataFiles(out)[0]
	data, err := os.Stat(file)
	require.NoError(t, err)
	assert.Greater(t, data.Size(), int64(64<<10))
	model, err := os.Stat(out)
	require.NoError(t, err)
	assert.Less(t, model.Size(), int64(8<<10))
	ok(t, "diff", "builtin:mlp", out)

	none := filepath.Join(t.TempDir(), "all.onnx")
	ok(t, "optimize", "builtin:mlp", "-o", none, "--save-external", "0", "--no-compare")
	assert.NotEmpty(t, berth.DataFiles(none), "all weights are of 0 bytes and more")

	require.NoError(t, os.Truncate(file, data.Size()/2))
	fails(t, exitModel, []string{out}, "run", out)
	require.NoError(t, os.Remove(file))
	fails(t, exitModel, []string{out}, "run", out)
}

// TestOptimizeKeepsPlan compiles what was written: the plan is taken from the file,
// unless the model changed or another planner is wanted.
func TestOptimizeKeepsPlan(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.onnx")
	planner := func(args []string, opts ...berth.Option) string {
		ok(t, append([]string{"optimize", "-o", out, "--no-compare"}, args...)...)
		m, err := berth.Open(out)
		require.NoError(t, err)
		defer m.Close()
		p, err := m.Compile(t.Context(), opts...)
		require.NoError(t, err)
		return p.Plan().Planner
	}
	assert.Equal(t, "saved", planner([]string{"builtin:unet"}))
	assert.Equal(t, "saved", planner([]string{"builtin:lstm-loop"}))
	assert.Equal(t, "saved", planner([]string{"builtin:encoder", "--dim", "N=1", "--dim", "S=8"}))
	for _, other := range []string{planner([]string{"builtin:unet", "--no-plan"}), planner([]string{"builtin:unet"}, berth.WithPlanner("pool")),
		planner([]string{"builtin:unet"}, berth.WithoutInPlace()), planner([]string{"builtin:encoder"}, berth.WithDim("N", 1))} {
		assert.NotEqual(t, "saved", other)
	}
}

// TestOptimizeSameBytes: the file does not depend on the number of threads.
func TestOptimizeSameBytes(t *testing.T) {
	for _, model := range []string{"builtin:unet", "builtin:lstm-loop", "builtin:if-results"} {
		var first []byte
		for _, threads := range []string{"1", "2", "3"} {
			out := filepath.Join(t.TempDir(), "o.onnx")
			ok(t, "optimize", model, "-o", out, "--no-compare", "--threads", threads)
			data, err := os.ReadFile(out)
			require.NoError(t, err)
			if first == nil {
				first = data
			}
			assert.Equal(t, first, data, "%s with %s threads", model, threads)
		}
	}
}

func TestOptimizeDump(t *testing.T) {
	dir := t.TempDir()
	ok(t, "optimize", "builtin:unet", "-o", filepath.Join(dir, "o.onnx"), "--dump", filepath.Join(dir, "d.html"), "--check", "--no-compare")
	page, err := os.ReadFile(filepath.Join(dir, "d.html"))
	require.NoError(t, err)
	assert.Contains(t, string(page), "<html")
	assert.Contains(t, string(page), "BatchNormalization")
}

func TestOptimizeCanNotWrite(t *testing.T) {
	dir := t.TempDir()
	fails(t, exitFailed, []string{"there is no folder"}, "optimize", "builtin:mlp", "-o", filepath.Join(dir, "no", "o.onnx"))
	fails(t, exitFailed, []string{dir}, "optimize", "builtin:mlp", "-o", dir)
}

func TestOutputName(t *testing.T) {
	for model, want := range map[string]string{
		"builtin:mlp": "mlp.opt.onnx", "a/b.onnx": "b.opt.onnx", "zoo/bert/model.onnx": "bert.opt.onnx", "x": "x.opt.onnx",
	} {
		assert.Equal(t, want, outputName(model, ""))
		assert.Equal(t, "given", outputName(model, "given"))
	}
}

// TestOptimizeEvery runs the main command on every small built-in model.
func TestOptimizeEvery(t *testing.T) {
	out := filepath.Join(t.TempDir(), "o.onnx")
	for _, name := range builtins(t) {
		if strings.HasPrefix(name, "resnet") || strings.HasPrefix(name, "mobilenet") {
			continue // seconds each
		}
		m := object(t, ok(t, "optimize", "builtin:"+name, "-o", out, "--json", "--planner", "greedy-size"))
		assert.Equal(t, true, m["verified"], name)
	}
}

// builtins lists the names of the built-in models as the command prints them.
func builtins(t *testing.T) []string {
	m := object(t, ok(t, "models", "--json"), "models")
	var names []string
	for _, row := range m["models"].([]any) {
		r := row.(map[string]any)
		hasFields(t, r, "name", "doc")
		names = append(names, r["name"].(string))
	}
	return names
}

func TestModels(t *testing.T) {
	out := ok(t, "models")
	for _, name := range builtins(t) {
		assert.Contains(t, out, "builtin:"+name+" ")
	}
}

// TestThreads gives the same answer with one thread and two.
func TestThreads(t *testing.T) {
	one := object(t, ok(t, "run", "builtin:unet", "--json"))
	two := object(t, ok(t, "run", "builtin:unet", "--json", "--threads", "2"))
	for i, o := range one["outputs"].([]any) {
		x, y := o.(map[string]any), two["outputs"].([]any)[i].(map[string]any)
		assert.InDelta(t, x["mean"], y["mean"], 1e-4)
	}
}
