package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

func TestInspectJSON(t *testing.T) {
	m := object(t, ok(t, "inspect", "builtin:lstm-loop", "--json"),
		"model", "opsets", "inputs", "outputs", "nodes", "operators", "weight_bytes", "flops", "arena_bytes", "lower_bound_bytes", "dynamic", "program_bytes", "kernels", "kernel_nodes", "packed_bytes", "loop_copy_bytes_per_iteration")
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
