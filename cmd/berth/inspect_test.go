package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

func TestInspectJSON(t *testing.T) {
	m := object(t, ok(t, "inspect", "builtin:lstm-loop", "--json"),
		"model", "opsets", "inputs", "outputs", "nodes", "operators", "weight_bytes", "flops", "arena_bytes", "lower_bound_bytes", "dynamic", "program_bytes", "kernels", "kernel_nodes", "packed_bytes", "loop_copy_bytes_per_iteration", "dynamic_values")
	assert.Equal(t, map[string]any{"": 18.0}, m["opsets"])
	assert.Equal(t, map[string]any{"name": "x", "type": "float32[16,1,32]"}, m["inputs"].([]any)[0])
	assert.Equal(t, map[string]any{"name": "all", "type": "float32[16,1,48]"}, m["outputs"].([]any)[2])
	assert.EqualValues(t, 1, m["operators"].(map[string]any)["Loop"])
	assert.Empty(t, m["dynamic"])
	assert.Positive(t, m["arena_bytes"])
	assert.Positive(t, m["kernels"])
	assert.LessOrEqual(t, m["kernels"], m["kernel_nodes"])
	assert.NotEmpty(t, m["packed_bytes"])
}

// TestInspectDynamic says where sizes stop being known, and why.
func TestInspectDynamic(t *testing.T) {
	m := object(t, ok(t, "inspect", "builtin:loop-stack", "--json"))
	require.NotEmpty(t, m["dynamic"])
	for _, d := range m["dynamic"].([]any) {
		hasFields(t, d.(map[string]any), "value", "node", "type", "why")
	}
	open := object(t, ok(t, "inspect", "builtin:heads", "--json"))
	require.NotEmpty(t, open["dynamic"])
	assert.Contains(t, open["dynamic"].([]any)[0].(map[string]any)["why"], "input x has open dimensions")
	bound := object(t, ok(t, "inspect", "builtin:heads", "--json", "--dim", "N=2", "--dim", "S=3"))
	assert.Empty(t, bound["dynamic"])
	assert.Contains(t, ok(t, "inspect", "builtin:heads"), "sizes known only while running start at:")
}

func TestInspectParts(t *testing.T) {
	text := ok(t, "inspect", "builtin:mlp", "--text")
	assert.Contains(t, text, `graph "mlp" {`)
	object(t, ok(t, "inspect", "builtin:mlp", "--text", "--json"), "graph")

	node := object(t, ok(t, "inspect", "builtin:unet", "--node", "mask", "--json"), "node", "operands", "results", "attributes")
	assert.Equal(t, []any{map[string]any{"name": "mask", "type": "float32[1,1,64,64]"}}, node["results"])
	for _, want := range []string{"operand 0", "kernel_shape", "[3 3]"} {
		assert.Contains(t, ok(t, "inspect", "builtin:unet", "--node", "down1/conv0/Conv_0"), want)
	}
	assert.Contains(t, ok(t, "inspect", "builtin:if-pass", "--node", "If_1"), "body of 0 nodes")

	page := filepath.Join(t.TempDir(), "map.html")
	ok(t, "inspect", "builtin:unet", "--html", page)
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(html), "<svg")
}

// TestInspectUnknown shows a model with an operator nobody knows; running it says
// which.
func TestInspectUnknown(t *testing.T) {
	g := ssa.NewGraph("odd")
	x := g.AddParam("x", ssa.StaticTensor(ndarray.Float32, 2, 3))
	n := g.NewNode("Frobnicate", []*ssa.Value{x}, 1)
	n.Domain, n.Opaque, n.Name, n.Version = "example.org", true, "the odd one", 1
	n.Out[0].Name, n.Out[0].Type = "y", ssa.StaticTensor(ndarray.Float32, 2, 3)
	g.Results = n.Out
	path := filepath.Join(t.TempDir(), "odd.onnx")
	mod := &ssa.Module{Graph: g, Opsets: []ssa.Opset{{Version: 18}, {Domain: "example.org", Version: 1}}, IR: 8}
	require.NoError(t, onnxexport.Save(mod, path, onnxexport.Options{}))

	assert.Contains(t, ok(t, "inspect", path), "example.org.Frobnicate")
	for _, c := range [][]string{{"run", path}, {"bench", path}} {
		fails(t, exitModel, []string{path, "Frobnicate", "the odd one", "berth inspect"}, c...)
	}
	out := filepath.Join(t.TempDir(), "o.onnx")
	fails(t, exitDiffers, []string{"not verified", "Frobnicate", "--allow-unverified"}, "optimize", path, "-o", out)
	absent(t, out)
	o := cli(t, "optimize", path, "-o", out, "--allow-unverified")
	assert.Equal(t, exitDone, o.code)
	assert.Contains(t, o.err, "not verified")
	assert.FileExists(t, out)
}

// TestInspectArena: the arena is that of the order asked for, also where the searched
// order needs less than the model's own.
func TestInspectArena(t *testing.T) {
	for _, c := range []struct {
		flags []string
		order string
	}{{nil, "min-peak"}, {[]string{"--schedule", "file"}, "file"}} {
		m := object(t, ok(t, append([]string{"inspect", "builtin:inception", "--json"}, c.flags...)...))
		rows := object(t, ok(t, "compare", "builtin:inception", "--json", "--planner", "auto", "--schedule", c.order))["planners"].([]any)
		assert.Equal(t, rows[0].(map[string]any)["arena_bytes"], m["arena_bytes"], c.order)
		assert.Positive(t, m["arena_bytes"])
	}
}

// TestInspectPlacement: what stays on the host of a program for a device, and what is copied for it.
func TestInspectPlacement(t *testing.T) {
	m := object(t, ok(t, "inspect", "builtin:lstm-loop", "--backend", "cuda-sim", "--json"))
	d := m["device"].(map[string]any)
	hasFields(t, d, "backend", "arena_bytes", "device_nodes", "host_nodes", "run_time_nodes", "copies")
	assert.Positive(t, d["device_nodes"])
	assert.Empty(t, d["host_nodes"])
	assert.Empty(t, d["copies"])

	g := ssa.NewGraph("sorted")
	x := g.AddParam("x", ssa.StaticTensor(ndarray.Float32, 100))
	exp := g.NewNode("Exp", []*ssa.Value{x}, 1)
	k := g.AddConst("k", ssa.NewConstant(ndarray.Of([]int64{10}, 1)))
	top := g.NewNode("TopK", []*ssa.Value{exp.Out[0], k}, 2)
	y := g.NewNode("Exp", []*ssa.Value{top.Out[0]}, 1)
	for i, v := range []*ssa.Value{exp.Out[0], top.Out[0], top.Out[1], y.Out[0]} {
		v.Name = []string{"e", "values", "places", "y"}[i]
	}
	g.Results = []*ssa.Value{y.Out[0], top.Out[1]}
	file := filepath.Join(t.TempDir(), "sorted.onnx")
	require.NoError(t, onnxexport.Save(&ssa.Module{Graph: g, IR: 10, Opsets: []ssa.Opset{{Version: 22}}}, file, onnxexport.Options{}))
	d = object(t, ok(t, "inspect", file, "--backend", "cuda-sim", "--json"))["device"].(map[string]any)
	assert.Equal(t, map[string]any{"TopK": 1.0}, d["host_nodes"])
	assert.EqualValues(t, 2, d["device_nodes"])
	require.Len(t, d["copies"], 1)
	c := d["copies"].([]any)[0].(map[string]any)
	assert.EqualValues(t, 400, c["to_host_bytes"])
	assert.EqualValues(t, 40, c["to_device_bytes"], "the places are read by nobody on the device")
	assert.Empty(t, d["run_time_nodes"])
	text := ok(t, "inspect", file, "--backend", "cuda-sim")
	assert.Contains(t, text, "2 nodes on the device, 1 on the host")
	assert.Contains(t, text, "compiled for the CPU: ")
	fails(t, 2, []string{"no backend"}, "inspect", file, "--backend", "abacus")

	g = ssa.NewGraph("open") // a product of known shapes, and one of a dimension that a run decides
	n := g.AddParam("n", ssa.TensorOf(ndarray.Float32, ssa.Sym("N"), ssa.D(4)))
	w := g.AddParam("w", ssa.StaticTensor(ndarray.Float32, 4, 4))
	square := g.NewNode("MatMul", []*ssa.Value{w, w}, 1)
	product := g.NewNode("MatMul", []*ssa.Value{n, square.Out[0]}, 1)
	place := g.NewNode("NonZero", []*ssa.Value{w}, 1)
	for i, v := range []*ssa.Value{square.Out[0], product.Out[0], place.Out[0]} {
		v.Name = []string{"s", "p", "i"}[i]
	}
	g.Results = []*ssa.Value{product.Out[0], place.Out[0]}
	file = filepath.Join(t.TempDir(), "open.onnx")
	require.NoError(t, onnxexport.Save(&ssa.Module{Graph: g, IR: 10, Opsets: []ssa.Opset{{Version: 22}}}, file, onnxexport.Options{}))
	for _, c := range []struct {
		device, host int
		open         map[string]any
		text         string
		flags        []string
	}{
		{1, 0, map[string]any{"MatMul": 1.0, "NonZero": 1.0}, "1 nodes on the device, 0 on the host, 2 where the sizes of a run decide (--shape, --dim)", nil},
		{2, 0, map[string]any{"NonZero": 1.0}, "2 nodes on the device, 0 on the host, 1 where the sizes of a run decide", []string{"--dim", "N=3"}},
	} {
		args := append([]string{"inspect", file, "--backend", "cuda-sim"}, c.flags...)
		d = object(t, ok(t, append(args, "--json")...))["device"].(map[string]any)
		assert.EqualValues(t, c.device, d["device_nodes"])
		assert.Len(t, d["host_nodes"], c.host)
		assert.Equal(t, c.open, d["run_time_nodes"])
		assert.Contains(t, ok(t, args...), c.text)
	}
}

// TestInspectOnOneCore compares what is made at the same time with what is made in turn.
func TestInspectOnOneCore(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	for _, args := range [][]string{{"builtin:lstm-loop"}, {"builtin:heads"}, {"builtin:heads", "--dim", "N=2", "--dim", "S=3"}} {
		args = append([]string{"inspect", "--json"}, args...)
		runtime.GOMAXPROCS(2)
		together := ok(t, args...)
		runtime.GOMAXPROCS(1)
		assert.Equal(t, ok(t, args...), together, args)
	}
}
