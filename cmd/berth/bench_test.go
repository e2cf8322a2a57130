package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/onnxruntime"
	"github.com/berth-onnx/berth/ndarray"
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

// TestFewestAllocations: what a call always allocates is its own, what others allocate during some calls is not.
func TestFewestAllocations(t *testing.T) {
	for _, c := range []struct {
		name   string
		own    int
		others []int // by call
		fewest float64
	}{
		{"none", 0, []int{0, 0, 0, 0, 0}, 0},
		{"none, with cleanups of others behind a collection", 0, []int{400, 3, 0, 0, 0}, 0},
		{"two in each call", 2, []int{0, 0, 0, 0, 0}, 2},
		{"two in each call, and those of others", 2, []int{70, 0, 900, 0, 1}, 2},
	} {
		call, kept := 0, []*[64]byte{}
		kept = slices.Grow(kept, 2000)
		got, err := fewestAllocations(len(c.others), func() error {
			for range c.own + c.others[call] {
				kept = append(kept, new([64]byte))
			}
			call++
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, c.fewest, got, c.name)
		assert.Equal(t, len(c.others), call)
		runtime.KeepAlive(kept)
	}
	failed := errors.New("failed")
	_, err := fewestAllocations(5, func() error { return failed })
	require.ErrorIs(t, err, failed)
}

var nodeFields = []string{"name", "op", "ns", "share", "count", "algorithm", "reason", "layout", "threads", "flops", "bytes", "gflop_per_s", "gb_per_s", "limit", "limit_fraction"}

// TestBenchProfile: every node says how it is computed, and its work is that of the operator's facts.
func TestBenchProfile(t *testing.T) {
	for _, model := range []string{"lstm-loop", "encoder", "inception"} {
		m := object(t, ok(t, "bench", "builtin:"+model, "--json", "--seconds", "0.01", "--profile", "--threads", "2"), append(benchFields, "operators", "nodes", "limits")...)
		assert.EqualValues(t, 2, m["threads"])
		for part, fields := range map[string][]string{"operators": {"name", "ns", "share", "count"}, "nodes": nodeFields} {
			var share float64
			for _, r := range m[part].([]any) {
				row := r.(map[string]any)
				hasFields(t, row, fields...)
				share += row["share"].(float64)
			}
			assert.InDelta(t, 1, share, 1e-6)
		}
		threads := map[any]bool{}
		for _, r := range m["limits"].([]any) {
			l := r.(map[string]any)
			hasFields(t, l, "threads", "level", "gflop_per_s", "int8_gop_per_s", "memory")
			assert.Positive(t, l["gflop_per_s"])
			threads[l["threads"]] = true
		}
		for _, r := range m["nodes"].([]any) {
			n := r.(map[string]any)
			assert.NotEmpty(t, n["algorithm"], "%s: %s", model, n["name"])
			assert.True(t, threads[n["threads"]], "the limits of %v threads", n["threads"])
			if n["bytes"].(float64) > 0 {
				assert.Positive(t, n["gb_per_s"], n["name"])
				assert.Contains(t, []any{"arithmetic", "memory"}, n["limit"])
				assert.Positive(t, n["limit_fraction"])
			}
		}
	}
}

// TestBenchProfileText: lines of the table fit a terminal of 120 columns, with the algorithm of each node and its reason below it.
func TestBenchProfileText(t *testing.T) {
	text := ok(t, "bench", "builtin:residual", "--seconds", "0.01", "--profile")
	assert.Regexp(t, `Conv "Conv_0".*\n +(winograd|direct|patches).*: `, text, "the algorithm of a convolution and its reason")
	_, table, _ := strings.Cut(text, "node  ")
	for _, line := range strings.Split(table, "\n") {
		assert.LessOrEqual(t, len([]rune(line)), 120, line)
	}
	text = ok(t, "bench", "builtin:residual", "--seconds", "0.01", "--profile", "--backend", "reference")
	for _, want := range []string{"median", "allocations per run", "nodes on reference kernels", "Conv", "reference: no fast kernel takes the node", "GFLOP/s", "limits, "} {
		assert.Contains(t, text, want)
	}
	o := cli(t, "bench", "builtin:residual", "--seconds", "0.01", "--profile", "--max-memory", "40MB")
	assert.Equal(t, exitDone, o.code, o.err)
	assert.Contains(t, o.err, "the limits of the machine are not measured: ")
}

// TestBenchDevice: on the interpreter there is a table of kernels with counts and the least times of GPUs, and no times of runs.
func TestBenchDevice(t *testing.T) {
	path := saved(t, `in %x: float32[64,64] %a = MatMul(%x, %x) %y = Softmax(%a) out %y`)
	m := object(t, ok(t, "bench", path, "--json", "--backend", "cuda-sim"))
	assert.Zero(t, m["runs"])
	assert.Zero(t, m["median_ns"])
	d := m["device"].(map[string]any)
	hasFields(t, d, "name", "simulated", "limits", "kernels")
	rows := map[string]map[string]any{}
	for _, r := range d["kernels"].([]any) {
		row := r.(map[string]any)
		rows[row["kernel"].(string)] = row
	}
	gemm := rows["gemm"]
	hasFields(t, gemm, "kernel", "launches", "flops", "bytes", "flop_per_byte", "executed_flops", "instructions", "traffic_bytes", "predicted")
	assert.EqualValues(t, 2*64*64*64, gemm["flops"])
	assert.EqualValues(t, 3*4*64*64, gemm["bytes"])
	for i, p := range gemm["predicted"].([]any) {
		l := d["limits"].([]any)[i].(map[string]any)
		least := max(gemm["executed_flops"].(float64)/l["gflop_per_s"].(float64), gemm["bytes"].(float64)/l["gb_per_s"].(float64),
			gemm["instructions"].(float64)/l["ginstructions_per_s"].(float64))
		assert.InDelta(t, least, p.(map[string]any)["ns"], 1)
		assert.Contains(t, []any{"arithmetic", "memory", "instructions"}, p.(map[string]any)["limit"])
	}
	assert.Contains(t, rows, "softmax")
	assert.NotContains(t, rows["copy to the device"], "predicted")
	text := ok(t, "bench", path, "--backend", "cuda-sim")
	assert.Contains(t, text, "the least time that their limits allow, computed, not measured")
	assert.Contains(t, text, "sm_90 (H100)")
	assert.NotContains(t, text, "median")
	assert.NotContains(t, object(t, ok(t, "bench", path, "--json", "--seconds", "0.01")), "device")
	fails(t, exitUsage, []string{"--profile has no effect on bench with --backend cuda-sim"}, "bench", path, "--backend", "cuda-sim", "--profile")
}

// TestProfileWork: operations and bytes of a node that a loop repeats are those of all its executions.
func TestProfileWork(t *testing.T) {
	path := saved(t, `in %x: float32[4,8] const %w: float32[8,8] = splat 0.5 const %n: int64[] = 3 const %c: bool[] = true
		%y = Loop(%n, %c, %x) { body: graph "b" { in %i: int64[] in %k: bool[] in %p: float32[4,8] const %v: float32[8,8] = splat 0.5 %a = MatMul(%p, %v) out %k, %a } } out %y`)
	m := object(t, ok(t, "bench", path, "--json", "--seconds", "0.01", "--profile"))
	for _, r := range m["nodes"].([]any) {
		if n := r.(map[string]any); n["op"] == "MatMul" {
			assert.EqualValues(t, 3, n["count"])
			assert.EqualValues(t, 3*2*4*8*8, n["flops"])
			assert.EqualValues(t, 3*4*(4*8+8*8+4*8), n["bytes"])
			return
		}
	}
	t.Fatal("no MatMul ran")
}

// fakePython is an interpreter that answers what the test says, line by line, whatever it is asked.
func fakePython(t *testing.T, lines ...string) string {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no shell for a script that plays Python")
	}
	script := "#!/bin/sh\n"
	for _, l := range lines {
		if !strings.HasPrefix(l, "{") && !strings.HasPrefix(l, "no ") {
			script += l + "\n"
			continue
		}
		script += "read question\ncat <<'ANSWER'\n" + l + "\nANSWER\n"
	}
	path := filepath.Join(t.TempDir(), "python")
	require.NoError(t, os.WriteFile(path, []byte(script+"read question\n"), 0o755))
	return path
}

// TestCompareWithoutRuntime: what is missing is said in a line, and nothing was measured before.
func TestCompareWithoutRuntime(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	hello := `{"version": "1.99.0"}`
	for _, c := range []struct {
		name   string
		python string
		code   int
		says   []string
		args   []string
	}{
		{"no interpreter", none, exitFailed, []string{none, "name an interpreter with numpy and onnxruntime"}, nil},
		{"it fails", fakePython(t, "echo 'out of order' >&2; exit 3"), exitFailed, []string{"ended without an answer: out of order"}, nil},
		{"no ONNX Runtime", fakePython(t, `{"error": "ModuleNotFoundError: No module named 'onnxruntime'"}`), exitFailed, []string{"No module named 'onnxruntime'"}, nil},
		{"no JSON", fakePython(t, "no answer"), exitFailed, []string{`an answer that is no JSON object: "no answer"`}, nil},
		{"another form", fakePython(t, hello, `{"load_ns": "long"}`), exitFailed, []string{"an answer of another form"}, nil},
		{"ends between", fakePython(t, hello, "exit 1"), exitFailed, []string{"ended without an answer"}, nil},
		{"times nothing", fakePython(t, hello, `{"load_ns": 5}`, `{"ns": []}`), exitFailed, []string{"it timed no run"}, nil},
		{"hangs", fakePython(t, "sleep 60"), exitFailed, []string{"stopped after 300ms (--timeout)"}, []string{"--timeout", "300ms"}},
		{"hangs between", fakePython(t, hello, "sleep 60"), exitFailed, []string{"stopped after 1s (--timeout)"}, []string{"--timeout", "1s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"bench", "builtin:residual", "--seconds", "0.01", "--compare", "ort", "--python", c.python}, c.args...)
			assert.Empty(t, fails(t, c.code, c.says, args...).out)
		})
	}
	fails(t, exitUsage, []string{"--compare tvm is not ort"}, "bench", "builtin:residual", "--compare", "tvm")
	fails(t, exitUsage, []string{"--python has no effect on bench without --compare ort"}, "bench", "builtin:residual", "--python", "python3")
	halves := saved(t, `in %x: bfloat16[4] %y = Neg(%x) out %y`)
	fails(t, exitFailed, []string{`input "x" is of a type that NumPy files do not hold`}, "bench", halves, "--seconds", "0.01", "--compare", "ort", "--python", fakePython(t, hello))
}

var compareFields = []string{"runtime", "version", "threads", "rounds", "berth_median_ns", "median_ns", "min_ns", "runs", "ratio", "load_ns", "load_ratio",
	"berth_rss_bytes", "rss_bytes", "rss_ratio", "berth_nodes_ns", "nodes_ns", "berth_matched_ns", "matched_ns", "rows"}

// TestCompareAnswers: what the other runtime answers is what is shown, its nodes beside those that compute the same.
func TestCompareAnswers(t *testing.T) {
	times := `{"ns": [3000, 1000, 2000], "peak_rss_bytes": 5000}`
	python := fakePython(t, `{"version": "1.99.0"}`, `{"load_ns": 700, "start_rss_bytes": 1000}`, times, times, times, times, times,
		`{"graph": "", "nodes": [{"name": "Conv_0", "op": "Conv", "ns": 900}, {"name": "Relu_4_fused", "op": "Relu", "ns": 50}, {"name": "Reorder", "op": "ReorderInput", "ns": 70}, {"name": "b", "op": "Loop", "ns": 9000}]}`)
	m := object(t, ok(t, "bench", "builtin:residual", "--json", "--seconds", "0.05", "--compare", "ort", "--python", python), append(benchFields, "compare")...)
	c := m["compare"].(map[string]any)
	hasFields(t, c, compareFields...)
	assert.Equal(t, "1.99.0", c["version"])
	assert.EqualValues(t, 2000, c["median_ns"])
	assert.EqualValues(t, 1000, c["min_ns"])
	assert.EqualValues(t, 15, c["runs"])
	assert.EqualValues(t, 700, c["load_ns"])
	assert.EqualValues(t, 4000, c["rss_bytes"])
	assert.InDelta(t, c["berth_median_ns"].(float64)/2000, c["ratio"], 1e-9)
	assert.EqualValues(t, 900+50+70, c["nodes_ns"], "bodies of a loop are counted by themselves")
	assert.EqualValues(t, 900+50, c["matched_ns"])
	assert.Equal(t, c["berth_nodes_ns"], c["berth_matched_ns"])
	alone := 0
	for _, r := range c["rows"].([]any) {
		row := r.(map[string]any)
		hasFields(t, row, "file", "berth", "ort", "berth_ns", "ort_ns", "ratio")
		if len(row["berth"].([]any)) == 0 {
			alone++
			assert.Equal(t, []any{"ReorderInput Reorder"}, row["ort"])
			assert.Zero(t, row["ratio"])
		}
	}
	assert.Equal(t, 1, alone)
}

// TestCompareErrors: both outputs are measured by those in float64, relative to the largest magnitude there; what quantizes does so in float32.
func TestCompareErrors(t *testing.T) {
	x := ndarray.Must(ndarray.Float32, 2)
	x.SetFloat(0, 1)
	x.SetFloat(1, 2)
	compared := func(model string, theirs ...float32) map[string]any {
		times := `{"ns": [3000], "peak_rss_bytes": 5000}`
		python := fakePython(t, `{"version": "1.99.0"}`, `{"load_ns": 700, "start_rss_bytes": 1000}`, times, times, times, times, times,
			fmt.Sprintf(`{"files": {"y": %q}}`, npyFile(t, []int{2}, theirs...)), `{"graph": "", "nodes": []}`)
		m := object(t, ok(t, "bench", saved(t, model), "--data", dataSet(t, x), "--json", "--seconds", "0.01", "--compare", "ort", "--errors", "--python", python))
		rows := m["compare"].(map[string]any)["errors"].([]any)
		require.Len(t, rows, 1)
		return rows[0].(map[string]any)
	}
	row := compared(`in %x: float32[2] %y = Neg(%x) out %y`, -1, -2.5)
	hasFields(t, row, "output", "scale", "berth_max", "berth_rms", "max", "rms", "ratio_max", "ratio_rms")
	for field, want := range map[string]float64{"scale": 2, "berth_max": 0, "berth_rms": 0, "max": 0.25, "rms": math.Sqrt(0.125) / 2, "ratio_max": 0} {
		assert.InDelta(t, want, row[field], 1e-12, field)
	}
	row = compared(`in %x: float32[2] const %t: float32[] = 3 %q, %s, %z = DynamicQuantizeLinear(%x) %c = Cast(%q) [to=1] %k = Mul(%s, %t) %y = Mul(%c, %k) out %y`, 0, 0)
	for field, want := range map[string]float64{"scale": 6, "berth_max": 0, "max": 1} {
		assert.InDelta(t, want, row[field], 1e-6, field)
	}
	fails(t, exitUsage, []string{"--errors has no effect on bench without --compare ort"}, "bench", "builtin:residual", "--errors")
}

// TestCompareONNXRuntime compares with the runtime itself, where there is one.
func TestCompareONNXRuntime(t *testing.T) {
	python := cmp.Or(os.Getenv("BERTH_PYTHON"), "python3")
	p, err := onnxruntime.Start(t.Context(), python)
	if err != nil {
		t.Skipf("no Python with numpy and onnxruntime (%v): set BERTH_PYTHON to one", err)
	}
	p.Close()
	for _, model := range []string{"residual", "encoder", "lstm-loop"} {
		var shape []string
		if model == "encoder" {
			shape = []string{"--shape", "ids=2x7"}
		}
		m := object(t, ok(t, append([]string{"bench", "builtin:" + model, "--json", "--seconds", "0.05", "--compare", "ort", "--python", python}, shape...)...))
		c := m["compare"].(map[string]any)
		for _, field := range []string{"median_ns", "ratio", "load_ns", "rss_bytes", "nodes_ns", "matched_ns", "berth_matched_ns"} {
			assert.Positive(t, c[field], "%s: %s", model, field)
		}
		assert.Greater(t, c["matched_ns"], 0.5*c["nodes_ns"].(float64), "%s: most of the time is in nodes that correspond", model)
		assert.Greater(t, c["berth_matched_ns"], 0.5*c["berth_nodes_ns"].(float64), model)
	}
	text := ok(t, "bench", "builtin:residual", "--seconds", "0.05", "--compare", "ort", "--errors", "--python", python)
	assert.Contains(t, text, "matched nodes")
	assert.Contains(t, text, "distance from float64")
}
