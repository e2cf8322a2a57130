package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/testmodels/conformance"
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
}

type compareFlags struct {
	instance string
	capacity int64
	run      bool
}

func (a *app) compareCmd() *cobra.Command {
	var f compareFlags
	c := &cobra.Command{Use: "compare MODEL | --instance FILE.csv", Short: "Compare peak memory across planners",
		Long: "Compare plans the model with every planner (or the one given by --planner) and prints the arena,\n" +
			"its gap to the proven lower bound, the planning time and the bytes copied per loop iteration.\n" +
			"Every plan is judged before it is printed. --schedule all repeats with every order.",
		Example: "  berth compare model.onnx --shape x=1x3x224x224\n  berth compare --instance D.csv --capacity 1048576",
		Args: func(_ *cobra.Command, args []string) error {
			if (f.instance == "") != (len(args) == 1) {
				return usagef("compare takes one model, or --instance FILE.csv")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if f.instance != "" {
				return a.compareInstance(c.Context(), f)
			}
			return a.compare(c.Context(), args[0], f)
		}}
	c.Flags().StringVar(&f.instance, "instance", "", "plan a bare instance: CSV with id,lower,upper,size")
	c.Flags().Int64Var(&f.capacity, "capacity", 0, "bytes an instance should fit into")
	c.Flags().BoolVar(&f.run, "run", false, "also run the model under each planner and compare outputs")
	a.dataFlag(c)
	return c
}

func (a *app) compareOptions() (co berth.CompareOptions) {
	if a.planner != "" && a.planner != "all" {
		co.Planners = []string{a.planner}
	}
	switch a.schedule {
	case "":
	case "all":
		co.Schedules = berth.Schedules()
	default:
		co.Schedules = []string{a.schedule}
	}
	if a.verbose {
		co.Progress = func(p, s string) { a.note("planning with %s, order %s", p, s) }
	}
	return co
}

func (a *app) compare(ctx context.Context, model string, f compareFlags) error {
	co := a.compareOptions()
	if a.schedule == "all" {
		a.schedule = ""
	}
	opts, err := a.options()
	if err != nil {
		return err
	}
	m, err := a.open(model)
	if err != nil {
		return err
	}
	defer m.Close()
	set, err := a.dataSet(model)
	if err != nil {
		return err
	}
	opts = append(a.shapesOf(set), opts...)
	rows, err := m.Compare(ctx, co, opts...)
	if err != nil {
		return err
	}
	berth.ShareBounds(rows)
	out := plannerRows(rows)
	if f.run {
		if err := a.runRows(ctx, m, set, out); err != nil {
			return err
		}
	}
	return a.report(model, out)
}

func (a *app) compareInstance(ctx context.Context, f compareFlags) error {
	file, err := os.Open(f.instance)
	if err != nil {
		return &exitError{exitModel, err}
	}
	defer file.Close()
	rows, err := berth.CompareInstance(ctx, f.instance, file, a.compareOptions())
	if err != nil {
		return &exitError{exitModel, err}
	}
	berth.ShareBounds(rows)
	out := plannerRows(rows)
	if f.capacity > 0 {
		fits := false
		for _, r := range out {
			fits = fits || r.Error == "" && r.ArenaBytes <= f.capacity
		}
		if !fits {
			a.note("berth: no planner fits %d bytes", f.capacity)
		}
	}
	return a.report(f.instance, out)
}

func (a *app) report(model string, rows []plannerJSON) error {
	if a.json {
		if err := a.printJSON(map[string]any{"model": model, "planners": rows}); err != nil {
			return err
		}
	} else {
		a.printPlanners(rows)
	}
	for _, r := range rows {
		if strings.HasPrefix(r.Outputs, "differ") {
			return differs(fmt.Errorf("%s: planner %s: outputs %s", model, r.Planner, r.Outputs))
		}
	}
	return nil
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

func (a *app) printPlanners(rows []plannerJSON) {
	t := newTable(a.out, "planner", "order", "arena", "bytes", "over bound", "proven", "plan time", "copied/trip", "note")
	alignRight(t, 3, 4, 5, 7, 8)
	dynamic := 0
	for _, r := range rows {
		dynamic = max(dynamic, r.Dynamic)
		if r.Error != "" {
			t.AppendRow([]any{r.Planner, r.Schedule, "-", "-", "-", "", "-", "-", r.Error})
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
		t.AppendRow([]any{r.Planner, r.Schedule, bytesText(r.ArenaBytes), r.ArenaBytes, gap, proven, durationText(r.PlanNanos), r.LoopCopyBytes, strings.TrimSpace(r.Outputs + " " + r.RunError)})
	}
	t.Render()
	if dynamic > 0 {
		fmt.Fprintf(a.out, "%d values have a size that is known only while running: they are not in these figures; give shapes with --shape, --dim or --data.\n", dynamic)
	}
}

// runRows runs the model once per row and compares outputs with the first.
func (a *app) runRows(ctx context.Context, m *berth.Model, set *conformance.Set, rows []plannerJSON) error {
	shapes, err := a.bindShapes(m, set)
	if err != nil {
		return err
	}
	in, err := a.randomInputs(m, shapes, given(set))
	if err != nil {
		return err
	}
	var want map[string]ndarray.Value
	for i := range rows {
		r := &rows[i]
		if r.Error != "" {
			continue
		}
		p, err := m.Compile(ctx, append(shapeOptions(shapes), berth.WithPlanner(r.Planner), berth.WithSchedule(r.Schedule), berth.WithThreads(a.threads))...)
		if err != nil {
			r.RunError = err.Error()
			continue
		}
		r.ScratchBytes = p.Plan().ScratchBytes
		got, err := p.RunValues(ctx, in)
		if err != nil {
			r.RunError = err.Error()
			continue
		}
		if want == nil {
			want = got
		}
		r.Outputs = "same outputs"
		for _, o := range m.Outputs() {
			if d := conformance.Compare(got[o.Name], want[o.Name], conformance.Tolerance{Rtol: 1e-3, Atol: 1e-5}); d != nil {
				r.Outputs = fmt.Sprintf("differ: %s: %v", o.Name, d)
			}
		}
	}
	return nil
}
