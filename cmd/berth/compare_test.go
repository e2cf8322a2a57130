package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/shareddata"
)

// rowFields are the fields that every row of a comparison has.
var rowFields = []string{"planner", "schedule", "arena_bytes", "scratch_bytes", "lower_bound_bytes", "proven", "plan_ns",
	"loop_copy_bytes_per_iteration", "parallel_safe", "dynamic_values", "error"}

// checkPlannerRows checks the rows of a comparison with all planners.
func checkPlannerRows(t *testing.T, rows any, more ...string) {
	t.Helper()
	require.Len(t, rows, len(berth.Planners()))
	for i, r := range rows.([]any) {
		row := r.(map[string]any)
		hasFields(t, row, append(more, rowFields...)...)
		assert.Equal(t, berth.Planners()[i], row["planner"])
		assert.Equal(t, "", row["error"])
		assert.Positive(t, row["arena_bytes"])
		assert.Positive(t, row["lower_bound_bytes"])
		assert.GreaterOrEqual(t, row["arena_bytes"], row["lower_bound_bytes"])
		assert.Equal(t, row["arena_bytes"] == row["lower_bound_bytes"], row["proven"])
		if row["planner"] == "naive" {
			assert.Equal(t, true, row["parallel_safe"])
		}
		assert.Zero(t, row["loop_copy_bytes_per_iteration"])
		assert.Zero(t, row["dynamic_values"])
	}
}

func TestCompareJSON(t *testing.T) {
	for _, model := range []string{"builtin:unet", "builtin:lstm-loop"} {
		m := object(t, ok(t, "compare", model, "--json"), "model", "planners")
		assert.Equal(t, model, m["model"])
		checkPlannerRows(t, m["planners"])
	}
	m := object(t, ok(t, "compare", "builtin:encoder", "--json", "--dim", "N=2", "--dim", "S=7"))
	checkPlannerRows(t, m["planners"])
	open := object(t, ok(t, "compare", "builtin:encoder", "--json", "--planner", "exact"))
	row := open["planners"].([]any)[0].(map[string]any)
	assert.Positive(t, row["dynamic_values"])
}

func TestCompareParallelSafe(t *testing.T) {
	cases := []struct {
		model string
		flags []string
		safe  bool // the ordinary plans of greedy-size hold in every order
		more  bool // plans for every order take more memory
	}{
		{"builtin:unet", nil, true, false},
		{"builtin:lstm-loop", nil, false, true},
		{"builtin:encoder", []string{"--dim", "N=2", "--dim", "S=7"}, false, false},
	}
	for _, c := range cases {
		args := append([]string{"compare", c.model, "--json"}, c.flags...)
		ordered := object(t, ok(t, append(args, "--planner", "greedy-size", "--schedule", "file")...))["planners"].([]any)[0].(map[string]any)
		assert.Equal(t, c.safe, ordered["parallel_safe"], c.model)
		rows := object(t, ok(t, append(args, "--parallel-safe", "--run")...))["planners"]
		checkPlannerRows(t, rows, "outputs", "measured_bytes")
		for _, r := range rows.([]any) {
			row := r.(map[string]any)
			assert.Equal(t, true, row["parallel_safe"], "%s, %s", c.model, row["planner"])
			assert.Equal(t, "same outputs", row["outputs"], "%s, %s", c.model, row["planner"])
			if row["planner"] == "auto" {
				assert.Equal(t, c.more, row["arena_bytes"].(float64) > ordered["lower_bound_bytes"].(float64), c.model)
			}
		}
	}
	assert.Contains(t, ok(t, "compare", "builtin:unet", "--parallel-safe"), "any order")
	fails(t, exitUsage, []string{"--parallel-safe"}, "compare", "--instance", "x.csv", "--parallel-safe")
}

func TestCompareRun(t *testing.T) {
	m := object(t, ok(t, "compare", "builtin:dense-block", "--json", "--run"))
	checkPlannerRows(t, m["planners"], "outputs", "measured_bytes")
	for _, r := range m["planners"].([]any) {
		assert.Equal(t, "same outputs", r.(map[string]any)["outputs"])
		assert.Positive(t, r.(map[string]any)["scratch_bytes"])
		assert.Positive(t, r.(map[string]any)["measured_bytes"])
	}
}

// TestCompareRules adds what berth would need without two of its means, and the
// published rules of other tools; they are not run.
func TestCompareRules(t *testing.T) {
	own := len(berth.Planners())
	m := object(t, ok(t, "compare", "builtin:inception", "--json", "--rules", "--run", "--schedule", "file"))
	rows := m["planners"].([]any)
	require.Greater(t, len(rows), own+2)
	best := rows[own-1].(map[string]any)
	for _, r := range rows[own:] {
		row := r.(map[string]any)
		hasFields(t, row, rowFields...)
		assert.Equal(t, "", row["error"])
		assert.GreaterOrEqual(t, row["arena_bytes"], best["arena_bytes"], row["planner"])
	}
	assert.Contains(t, ok(t, "compare", "builtin:inception", "--rules"), "without in-place")
}

func TestCompareSchedules(t *testing.T) {
	m := object(t, ok(t, "compare", "builtin:inception", "--json", "--schedule", "all", "--planner", "greedy-size"))
	var orders []string
	for _, r := range m["planners"].([]any) {
		orders = append(orders, r.(map[string]any)["schedule"].(string))
	}
	assert.Equal(t, berth.Schedules(), orders)
	for _, order := range berth.Schedules() {
		ok(t, "run", "builtin:inception", "--schedule", order)
	}
}

// TestCompareForms prints the same rows for people, for spreadsheets and for pages.
func TestCompareForms(t *testing.T) {
	text := ok(t, "compare", "builtin:inception")
	assert.Contains(t, text, "over bound")
	assert.Contains(t, text, "optimal")

	records, err := csv.NewReader(strings.NewReader(ok(t, "compare", "builtin:inception", "--csv"))).ReadAll()
	require.NoError(t, err)
	require.Len(t, records, 1+2*len(berth.Planners()), "the model's own order, and a better one")
	assert.Equal(t, append(append([]string{"model"}, rowFields...), "run_error", "outputs", "measured_bytes"), records[0])
	for i, p := range berth.Planners() {
		assert.Equal(t, []string{"builtin:inception", p, "file"}, records[1+i][:3])
		assert.Equal(t, []string{"builtin:inception", p, "min-peak"}, records[1+len(berth.Planners())+i][:3])
	}

	lines := strings.Split(strings.TrimSpace(ok(t, "compare", "builtin:inception", "--markdown")), "\n")
	require.Len(t, lines, 2+2*len(berth.Planners()))
	for _, l := range lines {
		assert.True(t, strings.HasPrefix(l, "| ") && strings.HasSuffix(l, "|"), l)
	}
}

func TestCompareInstance(t *testing.T) {
	path := filepath.Join(t.TempDir(), "two.csv")
	require.NoError(t, os.WriteFile(path, []byte("id,lower,upper,size\na,0,2,10\nb,1,3,20\nc,2,4,10\n"), 0o644))
	m := object(t, ok(t, "compare", "--instance", path, "--json"), "model", "planners")
	for _, r := range m["planners"].([]any) {
		row := r.(map[string]any)
		assert.EqualValues(t, 30, row["lower_bound_bytes"])
		if row["planner"] == "exact" {
			assert.EqualValues(t, 30, row["arena_bytes"])
		}
	}
	o := cli(t, "compare", "--instance", path, "--capacity", "29")
	assert.Equal(t, exitDone, o.code)
	assert.Contains(t, o.err, "no planner fits 29 bytes")
}

// TestComparePublicInstance plans the first of the shared instances.
func TestComparePublicInstance(t *testing.T) {
	path := shareddata.Path(t, "planner-instances", "frag7.csv")
	m := object(t, ok(t, "compare", "--instance", path, "--json", "--planner", "greedy-size"), "model", "planners")
	assert.Len(t, m["planners"], 1)
}
