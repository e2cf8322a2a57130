package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/berth-onnx/berth"
)

// plannerJSON is one row of a comparison.
type plannerJSON struct {
	Planner       string `json:"planner"`
	Schedule      string `json:"schedule"`
	ArenaBytes    int64  `json:"arena_bytes"`
	ScratchBytes  int64  `json:"scratch_bytes"`
	LowerBound    int64  `json:"lower_bound_bytes"`
	Proven        bool   `json:"proven"`
	PlanNanos     int64  `json:"plan_ns"`
	LoopCopyBytes int64  `json:"loop_copy_bytes_per_iteration"`
	ParallelSafe  bool   `json:"parallel_safe"`
	Dynamic       int    `json:"dynamic_values"`
	Error         string `json:"error"`
	RunError      string `json:"run_error,omitempty"`
	Outputs       string `json:"outputs,omitempty"`
	// MeasuredBytes is how far a real run of the compiled program wrote into its
	// arena, workspace and fused operators included.
	MeasuredBytes int64 `json:"measured_bytes,omitempty"`
}

func plannerRows(rows []berth.PlanRow) []plannerJSON {
	out := make([]plannerJSON, len(rows))
	for i, r := range rows {
		out[i] = plannerJSON{Planner: r.Planner, Schedule: r.Schedule, ArenaBytes: r.ArenaBytes, ScratchBytes: r.Scratch, LowerBound: r.LowerBound,
			Proven: r.Proven, PlanNanos: r.PlanNanos, LoopCopyBytes: r.LoopCopyBytes, ParallelSafe: r.ParallelSafe, Dynamic: r.Dynamic}
		if r.Err != nil {
			out[i].Error = r.Err.Error()
		}
	}
	return out
}

// printPlanners prints the table for people.
func (a *app) printPlanners(rows []plannerJSON) {
	plannerTable(a.out, rows).Render()
	dynamic := 0
	for _, r := range rows {
		dynamic = max(dynamic, r.Dynamic)
	}
	if dynamic > 0 {
		fmt.Fprintf(a.out, "%d values have a size that is known only while running: they are not in these figures; give shapes with --shape, --dim or --data.\n", dynamic)
	}
}

func plannerTable(w io.Writer, rows []plannerJSON) table.Writer {
	t := newTable(w, "planner", "order", "arena", "bytes", "over bound", "proven", "plan time", "copied/trip", "any order", "note")
	alignRight(t, 3, 4, 5, 7, 8)
	for _, r := range rows {
		if r.Error != "" {
			t.AppendRow([]any{r.Planner, r.Schedule, "-", "-", "-", "", "-", "-", "", r.Error})
			continue
		}
		gap := "-"
		if r.LowerBound > 0 {
			gap = fmt.Sprintf("%.2f%%", 100*float64(r.ArenaBytes-r.LowerBound)/float64(r.LowerBound))
		}
		proven := ""
		if r.Proven {
			proven = "optimal"
		}
		safe := ""
		if r.ParallelSafe {
			safe = "safe"
		}
		t.AppendRow([]any{r.Planner, r.Schedule, bytesText(r.ArenaBytes), r.ArenaBytes, gap, proven, durationText(r.PlanNanos), r.LoopCopyBytes, safe, strings.TrimSpace(r.Outputs + " " + r.RunError)})
	}
	return t
}

// printPlannersCSV prints the fields of the JSON form, one row per planner.
func (a *app) printPlannersCSV(model string, rows []plannerJSON) error {
	w := csv.NewWriter(a.out)
	_ = w.Write([]string{"model", "planner", "schedule", "arena_bytes", "scratch_bytes", "lower_bound_bytes", "proven", "plan_ns",
		"loop_copy_bytes_per_iteration", "parallel_safe", "dynamic_values", "error", "run_error", "outputs", "measured_bytes"})
	for _, r := range rows {
		fields := []any{model, r.Planner, r.Schedule, r.ArenaBytes, r.ScratchBytes, r.LowerBound, r.Proven, r.PlanNanos,
			r.LoopCopyBytes, r.ParallelSafe, r.Dynamic, r.Error, r.RunError, r.Outputs, r.MeasuredBytes}
		line := make([]string, len(fields))
		for i, f := range fields {
			line[i] = fmt.Sprint(f)
		}
		_ = w.Write(line)
	}
	w.Flush()
	return w.Error()
}
