package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

var benchFields = []string{"model", "threads", "runs", "median_ns", "min_ns", "p99_ns", "load_ns", "compile_ns", "arena_bytes",
	"weights_bytes", "peak_rss_bytes", "start_rss_bytes", "packed_bytes", "allocs_per_run"}

// TestBench looks at models of known sizes all of whose operators have kernels of
// their own: their runs must not allocate.
func TestBench(t *testing.T) {
	for _, model := range []string{"mlp", "residual", "inception", "lstm-loop", "loop-conv", "if-results", "scan-sum"} {
		m := object(t, ok(t, "bench", "builtin:"+model, "--json", "--seconds", "0.02"), benchFields...)
		assert.Equal(t, "builtin:"+model, m["model"])
		assert.EqualValues(t, 1, m["threads"])
		assert.GreaterOrEqual(t, m["runs"], 5.0)
		assert.Zero(t, m["allocs_per_run"], model)
		for _, k := range []string{"median_ns", "min_ns", "p99_ns", "load_ns", "compile_ns", "start_rss_bytes", "peak_rss_bytes"} {
			assert.Positive(t, m[k], k)
		}
		assert.LessOrEqual(t, m["start_rss_bytes"], m["peak_rss_bytes"])
		assert.LessOrEqual(t, m["min_ns"], m["median_ns"])
		assert.LessOrEqual(t, m["median_ns"], m["p99_ns"])
	}
	m := object(t, ok(t, "bench", "builtin:encoder", "--json", "--seconds", "0.02", "--dim", "N=1", "--dim", "S=16"))
	assert.Zero(t, m["allocs_per_run"])
}

func TestBenchProfile(t *testing.T) {
	m := object(t, ok(t, "bench", "builtin:lstm-loop", "--json", "--seconds", "0.01", "--profile", "--threads", "2"), append(benchFields, "operators", "nodes")...)
	assert.EqualValues(t, 2, m["threads"])
	for _, part := range []string{"operators", "nodes"} {
		var share float64
		for _, r := range m[part].([]any) {
			row := r.(map[string]any)
			delete(row, "choice")
			hasFields(t, row, "name", "ns", "share", "count")
			share += row["share"].(float64)
		}
		assert.InDelta(t, 1, share, 1e-6)
	}
	text := ok(t, "bench", "builtin:residual", "--seconds", "0.01", "--profile", "--backend", "reference")
	assert.Regexp(t, `Conv_0.*(winograd|direct|patches).*: `, ok(t, "bench", "builtin:residual", "--seconds", "0.01", "--profile"), "the algorithm of a convolution and its reason")
	for _, want := range []string{"median", "allocations per run", "nodes on reference kernels", "Conv"} {
		assert.Contains(t, text, want)
	}
}
