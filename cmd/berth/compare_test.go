package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/shareddata"
)

// rowFields are the fields that every row of a comparison has.
var rowFields = []string{"planner", "schedule", "arena_bytes", "scratch_bytes", "lower_bound_bytes", "proven", "plan_ns",
	"loop_copy_bytes_per_iteration", "parallel_safe", "dynamic_values", "error", "in_place", "cut", "buffers", "plan_by", "order_bound_bytes"}

// objectFields are those of the object that compare prints.
var objectFields = []string{"model", "version", "sha256", "shapes", "seed", "planners"}

// csvFields are the columns of a CSV file: the oldest ones first.
var csvFields = slices.Concat([]string{"model"}, rowFields[:11], []string{"run_error", "outputs", "measured_bytes", "program_bytes", "in_place", "cut", "buffers", "unsound", "plan_by", "order_bound_bytes", "fits", "live_bytes", "run_ns", "backend", "version", "sha256", "shapes", "seed"})

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
		m := object(t, ok(t, "compare", model, "--json"), objectFields...)
		assert.Equal(t, model, m["model"])
		checkPlannerRows(t, m["planners"])
	}
	m := object(t, ok(t, "compare", "builtin:encoder", "--json", "--dim", "N=2", "--dim", "S=7"))
	checkPlannerRows(t, m["planners"])
	open := object(t, ok(t, "compare", saved(t, found), "--json", "--planner", "exact"))
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
		{"builtin:lstm-loop", nil, false, false},
		{"builtin:inception", nil, false, true},
		{"builtin:encoder", []string{"--dim", "N=2", "--dim", "S=7"}, false, false},
	}
	for _, c := range cases {
		args := append([]string{"compare", c.model, "--json"}, c.flags...)
		ordered := object(t, ok(t, append(args, "--planner", "greedy-size", "--schedule", "file")...))["planners"].([]any)[0].(map[string]any)
		assert.Equal(t, c.safe, ordered["parallel_safe"], c.model)
		rows := object(t, ok(t, append(args, "--parallel-safe", "--run")...))["planners"]
		checkPlannerRows(t, rows, "outputs", "measured_bytes", "program_bytes")
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
	checkPlannerRows(t, m["planners"], "outputs", "measured_bytes", "program_bytes")
	for _, r := range m["planners"].([]any) {
		assert.Equal(t, "same outputs", r.(map[string]any)["outputs"])
		assert.Positive(t, r.(map[string]any)["scratch_bytes"])
		assert.Positive(t, r.(map[string]any)["measured_bytes"])
		assert.GreaterOrEqual(t, r.(map[string]any)["program_bytes"], r.(map[string]any)["measured_bytes"])
	}
}

// TestCompareDevice: with --backend of a device the arena is the one there, in every form; runs write into no other.
func TestCompareDevice(t *testing.T) {
	const model = "builtin:loop-conv"
	rows := object(t, ok(t, "compare", model, "--json", "--run", "--backend", "cuda-sim"))["planners"].([]any)
	checkPlannerRows(t, rows, "backend", "outputs", "program_bytes")
	for _, r := range rows {
		row := r.(map[string]any)
		assert.Equal(t, []any{"cuda-sim", "same outputs"}, []any{row["backend"], row["outputs"]})
		assert.NotContains(t, row, "measured_bytes")
		if row["planner"] != "naive" { // which may fold as others do in a program
			assert.Equal(t, row["program_bytes"], row["arena_bytes"], row["planner"])
		}
	}
	inspected := object(t, ok(t, "inspect", model, "--json", "--backend", "cuda-sim"))["device"].(map[string]any)
	assert.Equal(t, inspected["arena_bytes"], rows[len(rows)-1].(map[string]any)["arena_bytes"])

	lines, err := csv.NewReader(strings.NewReader(ok(t, "compare", model, "--csv", "--backend", "cuda-sim"))).ReadAll()
	require.NoError(t, err)
	assert.Equal(t, "cuda-sim", lines[1][slices.Index(lines[0], "backend")])
	assert.Contains(t, ok(t, "compare", model, "--markdown", "--backend", "cuda-sim"), "| auto |")
	assert.Contains(t, ok(t, "compare", model, "--backend", "cuda-sim"), "cuda-sim: the arena on the device")
	own := object(t, ok(t, "compare", model, "--json", "--backend", "reference", "--run"))["planners"].([]any)[0].(map[string]any)
	assert.NotContains(t, own, "backend")
	fails(t, exitUsage, []string{"--backend"}, "compare", model, "--write-instance", "x.csv", "--backend", "cuda-sim")
	fails(t, exitUsage, []string{`no backend "abacus"`}, "compare", model, "--backend", "abacus")
	fails(t, exitUsage, []string{"--backend has no effect"}, "compare", "--instance", "x.csv", "--backend", "cuda-sim")
}

// TestCompareInPlace: every planner with and without, naive once; without needs at
// least the bound with.
func TestCompareInPlace(t *testing.T) {
	own := len(berth.Planners())
	for _, c := range []struct {
		flag    string
		on, off int
	}{{"on", own - 1, 1}, {"off", 0, own}, {"both", own - 1, own}} {
		rows := object(t, ok(t, "compare", "builtin:resnet50", "--json", "--schedule", "file", "--in-place", c.flag))["planners"].([]any)
		least := map[bool]float64{}
		count := map[bool]int{}
		for _, r := range rows {
			row := r.(map[string]any)
			on := row["in_place"].(bool)
			count[on]++
			assert.Equal(t, "", row["error"])
			if row["planner"] == "auto" {
				assert.Equal(t, true, row["proven"])
				least[on] = row["arena_bytes"].(float64)
			}
		}
		assert.Equal(t, map[bool]int{true: c.on, false: c.off}, map[bool]int{true: count[true], false: count[false]}, c.flag)
		if c.flag == "both" {
			assert.Less(t, least[true], least[false])
		}
	}
	m := object(t, ok(t, "compare", "builtin:capture-if", "--json", "--in-place", "both", "--run"))
	for _, r := range m["planners"].([]any) {
		assert.Equal(t, "same outputs", r.(map[string]any)["outputs"], r)
	}
	text := ok(t, "compare", "builtin:inception", "--in-place", "both", "--run")
	for _, part := range []string{"in place", "program", "written"} {
		assert.Contains(t, text, part)
	}
}

// TestCompareUnsoundRule: of the rules of other tools, one loses values that bodies
// capture, and the row says so.
func TestCompareUnsoundRule(t *testing.T) {
	m := object(t, ok(t, "compare", "builtin:capture-if", "--json", "--rules", "--planner", "auto", "--schedule", "file"), append(objectFields, "rules")...)
	for _, r := range m["planners"].([]any) {
		row := r.(map[string]any)
		if row["planner"] == "rule:onnxsim" {
			assert.Contains(t, row["unsound"], "overwritten")
		} else {
			assert.NotContains(t, row, "unsound")
		}
	}
	assert.Contains(t, ok(t, "compare", "builtin:capture-if", "--rules"), "unsound: ")
}

// TestCompareBudget cuts planners short at once: there is a valid plan, and the row
// says that it was cut.
func TestCompareBudget(t *testing.T) {
	var lines strings.Builder
	lines.WriteString("id,lower,upper,size\n")
	for i := range 3000 {
		fmt.Fprintf(&lines, "%d,%d,%d,%d\n", i, i*7919%1000, i*7919%1000+1+i*31%97, 1+i*104729%5000)
	}
	path := filepath.Join(t.TempDir(), "many.csv")
	require.NoError(t, os.WriteFile(path, []byte(lines.String()), 0o644))
	m := object(t, ok(t, "compare", "--instance", path, "--json", "--budget", "1ns"))
	for _, r := range m["planners"].([]any) {
		row := r.(map[string]any)
		assert.Equal(t, "", row["error"])
		assert.EqualValues(t, 3000, row["buffers"])
		assert.Equal(t, row["proven"] == false, row["cut"], row["planner"])
	}
	assert.Contains(t, ok(t, "compare", "--instance", path, "--budget", "1ns"), "cut: the planner was not done after 1ns")
}

func TestCompareUsage(t *testing.T) {
	for _, c := range []struct {
		says string
		args []string
	}{
		{"--in-place", []string{"builtin:mlp", "--in-place", "maybe"}},
		{"--budget", []string{"builtin:mlp", "--budget", "-1s"}},
		{"need a model", []string{"--instance", "x.csv", "--run"}},
		{"need a model", []string{"--instance", "x.csv", "--in-place", "both"}},
		{"need a model", []string{"--instance", "x.csv", "--rules"}},
		{"need a model", []string{"--instance", "x.csv", "--tape-machine"}},
	} {
		fails(t, exitUsage, []string{c.says}, append([]string{"compare"}, c.args...)...)
	}
}

// TestCompareRules adds what berth would need without two of its means, and the
// published rules of other tools; the rules are not run.
func TestCompareRules(t *testing.T) {
	own := len(berth.Planners())
	m := object(t, ok(t, "compare", "builtin:inception", "--json", "--rules", "--run", "--schedule", "file"))
	rows := m["planners"].([]any)
	require.Greater(t, len(rows), own+2)
	best := rows[own-1].(map[string]any)
	for _, r := range rows[own:] {
		row := r.(map[string]any)
		if strings.HasPrefix(row["planner"].(string), "rule:") {
			hasFields(t, row, rowFields...)
		} else {
			assert.Equal(t, "same outputs", row["outputs"])
		}
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

// TestCompareOrderBound: no order needs less than what the search for one says, and
// the order it finds needs no more; without in-place results it says nothing.
func TestCompareOrderBound(t *testing.T) {
	for _, model := range []string{"inception", "dense-block", "unet", "mobilenetv2", "heads", "lstm-loop", "nested-conv"} {
		t.Run(model, func(t *testing.T) {
			m := object(t, ok(t, "compare", "builtin:"+model, "--json", "--schedule", "all", "--planner", "auto", "--in-place", "both"))
			for _, r := range m["planners"].([]any) {
				row := r.(map[string]any)
				bound, arena := row["order_bound_bytes"].(float64), row["arena_bytes"].(float64)
				switch {
				case row["in_place"] == false:
					assert.Zero(t, bound)
				case row["schedule"] == "min-peak" && model != "nested-conv" && model != "lstm-loop":
					assert.Equal(t, bound, arena)
				default:
					assert.Positive(t, bound)
					assert.LessOrEqual(t, bound, arena)
				}
			}
		})
	}
	assert.NotContains(t, ok(t, "compare", "builtin:heads", "--schedule", "file"), "over all orders")
	assert.Contains(t, ok(t, "compare", "builtin:heads"), "over all orders")
}

// TestCompareForms prints the same rows for people, for spreadsheets and for pages.
func TestCompareForms(t *testing.T) {
	text := ok(t, "compare", "builtin:inception")
	assert.Contains(t, text, "over bound")
	assert.Contains(t, text, "optimal")

	records, err := csv.NewReader(strings.NewReader(ok(t, "compare", "builtin:inception", "--csv"))).ReadAll()
	require.NoError(t, err)
	require.Len(t, records, 1+len(berth.Planners()), "one order: the best")
	assert.Equal(t, csvFields, records[0])
	for i, p := range berth.Planners() {
		assert.Equal(t, []string{"builtin:inception", p, "min-peak"}, records[1+i][:3])
	}

	lines := strings.Split(strings.TrimSpace(ok(t, "compare", "builtin:inception", "--markdown")), "\n")
	require.Len(t, lines, 4+len(berth.Planners()))
	assert.Contains(t, lines[len(lines)-1], "inputs x=1x16x16x16; seed 0; berth ")
	for _, l := range lines[:len(lines)-2] {
		assert.True(t, strings.HasPrefix(l, "| ") && strings.HasSuffix(l, "|"), l)
	}
}

func TestCompareInstance(t *testing.T) {
	path := filepath.Join(t.TempDir(), "two.csv")
	require.NoError(t, os.WriteFile(path, []byte("id,lower,upper,size\na,0,2,10\nb,1,3,20\nc,2,4,10\n"), 0o644))
	m := object(t, ok(t, "compare", "--instance", path, "--json"), objectFields...)
	for _, r := range m["planners"].([]any) {
		row := r.(map[string]any)
		assert.EqualValues(t, 30, row["lower_bound_bytes"])
		if row["planner"] == "exact" {
			assert.EqualValues(t, 30, row["arena_bytes"])
		}
	}
	o := fails(t, exitDiffers, []string{path, "no planner fits 29 bytes"}, "compare", "--instance", path, "--capacity", "29")
	assert.Contains(t, o.out, "fits")
	m = object(t, ok(t, "compare", "--instance", path, "--capacity", "30", "--json"))
	for _, r := range m["planners"].([]any) {
		assert.Equal(t, r.(map[string]any)["arena_bytes"].(float64) <= 30, r.(map[string]any)["fits"])
	}
	fails(t, exitUsage, []string{"--capacity"}, "compare", "builtin:mlp", "--capacity", "30")
}

// TestCompareWriteInstance writes a model's placing problem and plans it again: the
// bare instance needs the same.
func TestCompareWriteInstance(t *testing.T) {
	path := filepath.Join(t.TempDir(), "unet.csv")
	m := object(t, ok(t, "compare", "builtin:unet", "--json", "--planner", "auto", "--schedule", "file", "--write-instance", path))
	model := m["planners"].([]any)[0].(map[string]any)
	bare := object(t, ok(t, "compare", "--instance", path, "--json", "--planner", "auto"))["planners"].([]any)[0].(map[string]any)
	for _, same := range []string{"arena_bytes", "lower_bound_bytes", "buffers", "proven"} {
		assert.Equal(t, model[same], bare[same], same)
	}
	fails(t, exitUsage, []string{"--write-instance"}, "compare", "builtin:unet", "--parallel-safe", "--write-instance", path)
	fails(t, exitUsage, []string{"--write-instance"}, "compare", "--instance", path, "--write-instance", path)
}

// TestComparePublicInstance plans the first of the shared instances.
func TestComparePublicInstance(t *testing.T) {
	path := shareddata.Path(t, "planner-instances", "frag7.csv")
	m := object(t, ok(t, "compare", "--instance", path, "--json", "--planner", "greedy-size"), objectFields...)
	assert.Len(t, m["planners"], 1)
}
