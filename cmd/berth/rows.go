package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

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
	// ProgramBytes is the arena of that program.
	ProgramBytes int64  `json:"program_bytes,omitempty"`
	InPlace      bool   `json:"in_place"`
	Cut          bool   `json:"cut"`     // the planner's time was over before it was done
	By           string `json:"plan_by"` // the planner the plan comes from, if it is another one
	Buffers      int    `json:"buffers"`
	// OrderBound: no plan needs less in any order; 0 is not known.
	OrderBound int64 `json:"order_bound_bytes"`
	// Unsound says what is overwritten too early in the plan of another tool's rule.
	Unsound string `json:"unsound,omitempty"`
	// Fits says whether the arena keeps the capacity asked for.
	Fits *bool `json:"fits,omitempty"`
}

func plannerRows(rows []berth.PlanRow) []plannerJSON {
	out := make([]plannerJSON, len(rows))
	for i, r := range rows {
		out[i] = plannerJSON{Planner: r.Planner, Schedule: r.Schedule, ArenaBytes: r.ArenaBytes, ScratchBytes: r.Scratch, LowerBound: r.LowerBound,
			Proven: r.Proven, PlanNanos: r.PlanNanos, LoopCopyBytes: r.LoopCopyBytes, ParallelSafe: r.ParallelSafe, Dynamic: r.Dynamic,
			InPlace: r.InPlace, Cut: r.Cut, By: r.By, Buffers: r.Buffers, OrderBound: r.OrderBound, Unsound: r.Unsound}
		if r.Err != nil {
			out[i].Error = r.Err.Error()
		}
	}
	return out
}

// shown says which columns and notes a table of planners has beside the usual ones.
type shown struct {
	instance bool // no order, nothing in place, no loops
	inPlace  bool
	capacity bool
	run      bool
	rules    bool
	moved    bool // the default order is not the file's
	ordered  bool // some row has a bound over all orders
	budget   time.Duration
}

func shownOf(rows []plannerJSON, f compareFlags) shown {
	ordered := slices.ContainsFunc(rows, func(r plannerJSON) bool { return r.OrderBound > 0 })
	return shown{instance: f.instance != "", capacity: f.capacity > 0, inPlace: f.inPlace != "on", run: f.run, rules: f.rules, ordered: ordered, budget: f.budget}
}

// printPlanners prints the table for people.
func (a *app) printPlanners(rows []plannerJSON, s shown) {
	plannerTable(a.out, rows, s).Render()
	dynamic, cut := 0, false
	for _, r := range rows {
		dynamic = max(dynamic, r.Dynamic)
		cut = cut || r.Cut
	}
	if dynamic > 0 {
		fmt.Fprintf(a.out, "%d values have a size that is known only while running: they are not in these figures; give shapes with --shape, --dim or --data.\n", dynamic)
	}
	if s.ordered {
		fmt.Fprintln(a.out, "over bound: above what this order needs at least; over all orders: above what no order of the nodes can do without.")
	}
	if s.moved {
		fmt.Fprintln(a.out, "The nodes are in an order that needs less than the file's; --schedule file plans that one, --schedule all every order.")
	}
	if cut {
		fmt.Fprintf(a.out, "cut: the planner was not done after %v (--budget); its best plan by then, judged like the others.\n", s.budget)
	}
	if s.run {
		fmt.Fprintln(a.out, "program: the arena of the compiled program, operators fused, kernels' workspace included; written: how far one run wrote into it.")
	}
	if s.rules {
		fmt.Fprintln(a.out, "rules of other tools, as published, on this graph and order; the tools themselves rewrite and reorder first:")
		for _, r := range berth.Rules() {
			fmt.Fprintf(a.out, "  %s\n    %s.\n    Source: %s.\n", r.Name, r.Doc, r.Source)
		}
	}
}

// column is a column of the table of planners.
type column struct {
	name  string
	right bool
	text  func(r *plannerJSON) any
}

// columns lists those of a table.
func (s shown) columns() []column {
	all := []struct {
		column
		show bool
	}{
		{column{"planner", false, func(r *plannerJSON) any { return r.Planner }}, true},
		{column{"order", false, func(r *plannerJSON) any { return r.Schedule }}, !s.instance},
		{column{"in place", false, func(r *plannerJSON) any { return word(r.InPlace, "on", "off") }}, s.inPlace || s.rules},
		{column{"arena", true, func(r *plannerJSON) any { return bytesText(r.ArenaBytes) }}, true},
		{column{"bytes", true, func(r *plannerJSON) any { return r.ArenaBytes }}, true},
		{column{"over bound", true, func(r *plannerJSON) any { return gapText(r.ArenaBytes, r.LowerBound) }}, true},
		{column{"over all orders", true, func(r *plannerJSON) any { return gapText(r.ArenaBytes, r.OrderBound) }}, s.ordered},
		{column{"proven", false, func(r *plannerJSON) any { return word(r.Proven, "optimal", "") }}, true},
		{column{"fits", false, func(r *plannerJSON) any { return word(r.Fits != nil && *r.Fits, "yes", "no") }}, s.capacity},
		{column{"plan time", true, func(r *plannerJSON) any { return durationText(r.PlanNanos) }}, true},
		{column{"copied/trip", true, func(r *plannerJSON) any { return byRule(r, fmt.Sprint(r.LoopCopyBytes)) }}, !s.instance},
		{column{"any order", false, func(r *plannerJSON) any { return byRule(r, word(r.ParallelSafe, "safe", "")) }}, !s.instance},
		{column{"program", true, func(r *plannerJSON) any { return count(r.ProgramBytes) }}, s.run},
		{column{"written", true, func(r *plannerJSON) any { return count(r.MeasuredBytes) }}, s.run},
		{column{"note", false, func(r *plannerJSON) any { return noteText(r) }}, true},
	}
	var out []column
	for _, c := range all {
		if c.show {
			out = append(out, c.column)
		}
	}
	return out
}

func plannerTable(w io.Writer, rows []plannerJSON, s shown) table.Writer {
	var header, right = []any{}, []int{}
	cols := s.columns()
	for i, c := range cols {
		header = append(header, c.name)
		if c.right {
			right = append(right, i+1)
		}
	}
	t := newTable(w, header...)
	alignRight(t, right...)
	for i := range rows {
		r := &rows[i]
		var line []any
		for _, c := range cols {
			switch {
			case r.Error == "" || c.name == "planner" || c.name == "order" || c.name == "in place" || c.name == "note":
				line = append(line, c.text(r))
			case c.right:
				line = append(line, "-")
			default:
				line = append(line, "")
			}
		}
		t.AppendRow(line)
	}
	return t
}

// fitsText is empty where no capacity was asked for.
func fitsText(fits *bool) string {
	if fits == nil {
		return ""
	}
	return fmt.Sprint(*fits)
}

func word(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// byRule is a text that rows of other tools' rules do not have.
func byRule(r *plannerJSON, text string) string {
	if strings.HasPrefix(r.Planner, "rule:") {
		return "-"
	}
	return text
}

// gapText is how far an arena is above the bound, if there is one.
func gapText(arena, bound int64) string {
	if bound <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f%%", 100*float64(arena-bound)/float64(bound))
}

func count(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// cutText says that a planner was cut, and whose plan it gave then.
func cutText(r *plannerJSON) string {
	if r.Cut && r.By != "" {
		return "cut, plan of " + r.By
	}
	return word(r.Cut, "cut", "")
}

// noteText is what is to say about a row beside its figures.
func noteText(r *plannerJSON) string {
	var notes []string
	for _, n := range []struct{ what, text string }{{"", r.Error}, {"", cutText(r)}, {"unsound: ", r.Unsound}, {"", r.Outputs}, {"", r.RunError}} {
		if n.text != "" {
			notes = append(notes, n.what+n.text)
		}
	}
	return strings.Join(notes, "; ")
}

// printPlannersCSV prints the fields of the JSON form, one row per planner.
func (a *app) printPlannersCSV(model string, rows []plannerJSON) error {
	w := csv.NewWriter(a.out)
	_ = w.Write([]string{"model", "planner", "schedule", "arena_bytes", "scratch_bytes", "lower_bound_bytes", "proven", "plan_ns",
		"loop_copy_bytes_per_iteration", "parallel_safe", "dynamic_values", "error", "run_error", "outputs", "measured_bytes",
		"program_bytes", "in_place", "cut", "buffers", "unsound", "plan_by", "order_bound_bytes", "fits"})
	for _, r := range rows {
		fields := []any{model, r.Planner, r.Schedule, r.ArenaBytes, r.ScratchBytes, r.LowerBound, r.Proven, r.PlanNanos,
			r.LoopCopyBytes, r.ParallelSafe, r.Dynamic, r.Error, r.RunError, r.Outputs, r.MeasuredBytes,
			r.ProgramBytes, r.InPlace, r.Cut, r.Buffers, r.Unsound, r.By, r.OrderBound, fitsText(r.Fits)}
		line := make([]string, len(fields))
		for i, f := range fields {
			line[i] = fmt.Sprint(f)
		}
		_ = w.Write(line)
	}
	w.Flush()
	return w.Error()
}
