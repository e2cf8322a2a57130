package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/testmodels/conformance"
)

type compareFlags struct {
	instance string
	capacity int64
	run      bool
	csv      bool
	markdown bool
	rules    bool
}

func (a *app) compareCmd() *cobra.Command {
	var f compareFlags
	c := &cobra.Command{Use: "compare MODEL | --instance FILE.csv", Short: "Compare peak memory across planners",
		Long: "Compare plans the model with every planner (or the one given by --planner) and prints the arena,\n" +
			"its gap to the proven lower bound, the planning time and the bytes copied per loop iteration.\n" +
			"Every plan is judged before it is printed. Without --schedule that is done for\n" +
			"the model's own order and, where it needs less memory, for min-peak; --schedule all tries every order.\n" +
			"A plan that is safe in any order stays right when the nodes run in another order, or\n" +
			"independent ones at the same time; --parallel-safe makes such plans.\n" +
			"The arena holds intermediates and outputs, 64-byte aligned, in the model's own layout; inputs,\n" +
			"weights and kernels' workspace are not in it. A bare instance counts bytes as given.",
		Example: "  berth compare model.onnx --shape x=1x3x224x224\n  berth compare model.onnx --schedule all --csv > planners.csv\n" +
			"  berth compare --instance D.csv --capacity 1048576",
		Args: func(_ *cobra.Command, args []string) error {
			if (f.instance == "") != (len(args) == 1) {
				return usagef("compare takes one model, or --instance FILE.csv")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if f.instance != "" && a.parallelSafe {
				return usagef("--parallel-safe needs a model: a bare instance has one order only")
			}
			if f.csv && f.markdown || a.json && (f.csv || f.markdown) {
				return usagef("only one of --json, --csv and --markdown can be printed")
			}
			if f.instance != "" {
				return a.compareInstance(c.Context(), f)
			}
			return about(args[0], a.compare(c.Context(), args[0], f))
		}}
	c.Flags().StringVar(&f.instance, "instance", "", "plan a bare instance: CSV with id,lower,upper,size")
	c.Flags().Int64Var(&f.capacity, "capacity", 0, "bytes an instance should fit into")
	c.Flags().BoolVar(&f.run, "run", false, "also run the model under each planner, compare outputs, and measure the arena bytes written to")
	c.Flags().BoolVar(&f.rules, "rules", false, "add rows without in-place results and without views, and for the published rules of other tools")
	c.Flags().BoolVar(&f.csv, "csv", false, "print comma-separated values with a header line")
	c.Flags().BoolVar(&f.markdown, "markdown", false, "print a Markdown table")
	a.dataFlag(c)
	return c
}

// compareOptions chooses the rows by --planner and --schedule. done ends the
// progress bar.
func (a *app) compareOptions() (co berth.CompareOptions, done func()) {
	planners, orders := 1, 1
	switch a.planner {
	case "", "all":
		planners = len(berth.Planners())
	default:
		co.Planners = []string{a.planner}
	}
	switch a.schedule {
	case "":
	case "all":
		co.Schedules = berth.Schedules()
		orders = len(co.Schedules)
	default:
		co.Schedules = []string{a.schedule}
	}
	bar := a.newProgress(planners * orders)
	co.Progress = func(p, s string) {
		bar.step(p)
		if a.verbose {
			a.note("planning with %s, order %s", p, s)
		}
	}
	return co, bar.done
}

func (a *app) compare(ctx context.Context, model string, f compareFlags) error {
	if err := a.checkChoices(true); err != nil {
		return err
	}
	co, done := a.compareOptions()
	defer done()
	co.Others = f.rules
	shared := *a // every planner and order is asked for by itself
	shared.planner, shared.schedule = "", ""
	opts, err := shared.options()
	if err != nil {
		return err
	}
	a.dump = shared.dump
	m, err := a.model(model)
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
	done()
	if err != nil && (ctx.Err() == nil || len(rows) == 0) {
		return err
	}
	berth.ShareBounds(rows)
	out := plannerRows(rows)
	if ctx.Err() == nil {
		scratch(ctx, m, out, opts)
	}
	if f.run && ctx.Err() == nil {
		if err := a.runRows(ctx, m, set, out); err != nil {
			return err
		}
	}
	if err := a.report(model, out, f); err != nil {
		return err
	}
	return ctx.Err()
}

// scratch fills in the largest workspace of the kernels, which depends on the
// order of the nodes but not on the planner.
func scratch(ctx context.Context, m *berth.Model, rows []plannerJSON, opts []berth.Option) {
	known := map[string]int64{}
	for i := range rows {
		order := rows[i].Schedule
		if _, ok := known[order]; !ok {
			known[order] = 0
			p, err := m.Compile(ctx, append(opts[:len(opts):len(opts)], berth.WithoutPasses(), berth.WithSchedule(order), berth.WithPlanner(berth.Planners()[0]))...)
			if err == nil { // a model that can not be compiled can still be planned
				known[order] = p.Plan().ScratchBytes
			}
		}
		rows[i].ScratchBytes = known[order]
	}
}

func (a *app) compareInstance(ctx context.Context, f compareFlags) error {
	if err := a.checkChoices(true); err != nil {
		return err
	}
	file, err := os.Open(f.instance)
	if err != nil {
		return modelError(f.instance, err)
	}
	defer file.Close()
	co, done := a.compareOptions()
	rows, err := berth.CompareInstance(ctx, f.instance, file, co)
	done()
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
	if err := a.report(f.instance, out, f); err != nil {
		return err
	}
	return ctx.Err()
}

// runRows runs the model once per row and compares outputs with the first.
func (a *app) runRows(ctx context.Context, m *berth.Model, set *conformance.Set, rows []plannerJSON) error {
	shapes, err := a.bindShapes(m, given(set))
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
		if r.Error != "" || !slices.Contains(berth.Planners(), r.Planner) {
			continue // a rule of another tool, or a variant: nothing berth would run
		}
		got, err := a.runRow(ctx, m, r, in, shapes)
		if ctx.Err() != nil {
			return ctx.Err()
		}
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

func (a *app) runRow(ctx context.Context, m *berth.Model, r *plannerJSON, in map[string]ndarray.Value, shapes map[string][]int) (map[string]ndarray.Value, error) {
	opts := append(shapeOptions(shapes), berth.WithPlanner(r.Planner), berth.WithSchedule(r.Schedule), berth.WithThreads(a.threads))
	if a.parallelSafe {
		opts = append(opts, berth.WithParallelSafe())
	}
	p, err := m.Compile(ctx, opts...)
	if err != nil {
		return nil, err
	}
	r.ScratchBytes = p.Plan().ScratchBytes
	s, err := p.NewSession()
	if err != nil {
		return nil, err
	}
	s.Raw().Poison = true
	got, err := s.RunValues(ctx, in)
	if err != nil {
		return nil, err
	}
	r.MeasuredBytes = s.Raw().Touched()
	for name, v := range got {
		got[name] = ndarray.CloneValue(v)
	}
	return got, nil
}

// report prints the rows in the form asked for; outputs that differ are an error
// with exit code 3.
func (a *app) report(model string, rows []plannerJSON, f compareFlags) error {
	var err error
	switch {
	case a.json:
		err = a.printJSON(map[string]any{"model": model, "planners": rows})
	case f.csv:
		err = a.printPlannersCSV(model, rows)
	case f.markdown:
		plannerTable(a.out, rows).RenderMarkdown()
	default:
		a.printPlanners(rows)
	}
	if err != nil {
		return err
	}
	for _, r := range rows {
		if strings.HasPrefix(r.Outputs, "differ") {
			return differs(fmt.Errorf("%s: planner %s: outputs %s", model, r.Planner, r.Outputs))
		}
	}
	return nil
}
