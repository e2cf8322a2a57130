package main

import (
	"encoding/csv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/machines"
)

// TestGorgoniaBackend runs, measures and verifies with nodes as gorgonia.Ops; profiles say which kernel computed a node.
func TestGorgoniaBackend(t *testing.T) {
	model := saved(t, `in %x: float32[4,8] in %w: float32[8,8] %y = MatMul(%x, %w) %t = Tanh(%y) out %t`)
	profile := ok(t, "bench", model, "--backend", "gorgonia", "--profile")
	assert.Contains(t, profile, "tensor.Tanh")
	assert.Contains(t, profile, "berth")
	ok(t, "run", model, "--backend", "gorgonia")
	assert.Equal(t, exitUsage, cli(t, "run", model, "--backend", "abacus").code)
}

// TestTapeMachine: the machines of Gorgonia are rows of every form of a comparison, and a part of bench. A model that is no
// expression graph is refused by the name of its node.
func TestTapeMachine(t *testing.T) {
	m := object(t, ok(t, "compare", "builtin:unet", "--tape-machine", "--planner", "auto", "--json", "--seed", "3"), objectFields...)
	rows := m["planners"].([]any)
	require.Len(t, rows, 1+len(machines.Names))
	live := map[any]float64{}
	for i, name := range machines.Names {
		row := rows[1+i].(map[string]any)
		want := []string{"planner", "error", "live_bytes", "run_ns"}
		if i > 0 {
			want = append(want, "outputs", "program_bytes")
			assert.Equal(t, "same outputs", row["outputs"])
		}
		hasFields(t, row, want...)
		assert.Equal(t, name, row["planner"])
		assert.Positive(t, row["run_ns"])
		live[name] = row["live_bytes"].(float64)
	}
	assert.Less(t, 2*live[machines.Names[1]], live[machines.Names[0]])

	table := strings.Split(ok(t, "compare", "builtin:unet", "--tape-machine", "--planner", "auto", "--markdown"), "\n")
	assert.Regexp(t, `\| live \| run \| note \|$`, table[0])
	assert.Regexp(t, `^\| gorgonia:tapeMachine \|.*\| [\d.]+ [KM]?B \| [\d.]+ .?s \|  \|$`, table[3])

	lines, err := csv.NewReader(strings.NewReader(ok(t, "compare", "builtin:lstm-loop", "--tape-machine", "--planner", "auto", "--csv"))).ReadAll()
	require.NoError(t, err)
	require.Len(t, lines, 2+len(machines.Names))
	assert.Equal(t, csvFields, lines[0])
	for _, line := range lines[2:] {
		assert.Contains(t, strings.Join(line, " "), `Loop "`)
		assert.Contains(t, strings.Join(line, " "), "control flow has no place in an expression graph")
	}
}

// TestBenchTapeMachine: bench times the machines of Gorgonia, too.
func TestBenchTapeMachine(t *testing.T) {
	m := object(t, ok(t, "bench", "builtin:residual", "--tape-machine", "--json", "--seconds", "0.01"), append(benchFields, "machines")...)
	for i, r := range m["machines"].([]any) {
		row := r.(map[string]any)
		hasFields(t, row, "machine", "runs", "median_ns", "min_ns", "live_bytes", "arena_bytes", "allocs_per_run", "error")
		assert.Equal(t, "", row["error"])
		assert.GreaterOrEqual(t, row["runs"], 5.0)
		assert.LessOrEqual(t, row["min_ns"], row["median_ns"])
		assert.Equal(t, i == 0, row["arena_bytes"] == 0.0, "tapeMachine has no plan")
		assert.Equal(t, i == 0, row["allocs_per_run"] != 0.0)
	}
	assert.Regexp(t, `gorgonia:tapeMachine .* - .*control flow has no place`, ok(t, "bench", "builtin:loop-conv", "--tape-machine", "--seconds", "0.01"))
}
