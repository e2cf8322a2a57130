package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/safefile"
	"github.com/berth-onnx/berth/ndarray"
)

type verifyFlags struct {
	tolerance conformance.Tolerance
	list      string
	optimized bool
	only      string
	poison    bool
	backend   string
}

func (a *app) verifyCmd() *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{Use: "verify PATH...", Short: "Run ONNX test folders and compare outputs",
		Long: "Verify runs every case below the given folders, .tar.gz archives or model files (model.onnx with\n" +
			"test_data_set_* beside it) and compares the outputs with the recorded ones. It prints a line per\n" +
			"failure and last 'N passed, N failed, N skipped; N data sets run'. Cases without recorded outputs run and count as\n" +
			"skipped, if all do the exit code is 3; outputs that are not recorded are named. Where all cases that\n" +
			"fail could not be run, as for want of memory, the exit code is 1. --planner all repeats with every planner. --backend reference\n" +
			"runs the graph as written, without passes. The tolerance is the same for 16-bit floats: recorded outputs do not\n" +
			"say how much rounding is in them, which optimize measures by running the original in float32. For models that compute in\n" +
			"float16 or bfloat16 give --rtol and --atol of a few units of rounding (2^-11 or 2^-8).",
		Example: "  berth verify models/* --rtol 1e-3 --atol 1e-4\n  berth verify node.tar.gz --planner all --list status.txt",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("verify takes at least one folder, archive or model")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.verify(c.Context(), args, f) }}
	toleranceFlags(c, &f.tolerance, 1e-5, "")
	c.Flags().StringVar(&f.list, "list", "", "write a status line per case to this file")
	c.Flags().StringVar(&f.only, "only", "", "only cases whose name contains this")
	c.Flags().BoolVar(&f.optimized, "optimized", false, "optimize each model first and run the result")
	a.backendFlags(c, &f.backend)
	c.Flags().BoolVar(&f.poison, "poison", true, "fill the arena with garbage before each run")
	return c
}

// tally counts outcomes.
type tally struct{ passed, failed, skipped, badModel, unrun, sets int }

func (a *app) verify(ctx context.Context, paths []string, f verifyFlags) error {
	if err := a.checkChoices(true); err != nil {
		return err
	}
	planners := []string{a.planner}
	if a.planner == "all" {
		planners = berth.Planners()
	}
	one := *a // each planner is asked for by itself
	one.planner = ""
	opts, err := one.options(f.list)
	if err != nil {
		return err
	}
	a.dump, a.outputs = one.dump, one.outputs
	if err := a.checkBackend(f.backend); err != nil {
		return err
	}
	opts = append(opts, a.on(f.backend)...)
	if f.backend == "reference" {
		opts = append(opts, berth.WithoutPasses())
	}
	var cases []*conformance.Case
	for _, p := range paths {
		cs, err := conformance.OpenContext(a.within(), p)
		if err != nil {
			return modelError(p, err)
		}
		if err := a.reads(p); err != nil {
			return err
		}
		cases = append(cases, cs...)
	}
	for _, c := range cases {
		if path := c.ModelPath(); path != "" {
			if err := a.spareInput(path); err != nil {
				return err
			}
		}
	}
	found := len(cases)
	cases = slices.DeleteFunc(cases, func(c *conformance.Case) bool { return !strings.Contains(c.Name, f.only) })
	if len(cases) == 0 {
		return usagef("--only %s: none of %d cases has a name with that", f.only, found)
	}
	n, lines, err := a.verifyCases(ctx, cases, planners, opts, f)
	if err != nil {
		return err
	}
	a.ending.printing.Lock()
	defer a.ending.printing.Unlock()
	if err := a.verifyEnd(n, lines, f); err != nil {
		return err
	}
	return ctx.Err()
}

// verifyCases runs the cases until one is interrupted; that one does not count. The error is that there is no device to run them on, or that no
// machine has as many threads.
func (a *app) verifyCases(ctx context.Context, cases []*conformance.Case, planners []string, opts []berth.Option, f verifyFlags) (n tally, lines []string, _ error) {
	bar := a.newProgress(len(cases) * len(planners))
	defer bar.done()
	for _, c := range cases {
		for _, pl := range planners {
			bar.step(c.Name)
			prepare := a.prepareCase(append(opts[:len(opts):len(opts)], berth.WithPlanner(pl)), f, &n)
			err := conformance.Verify(a.memory.In(ctx), c, prepare, f.tolerance)
			if ctx.Err() != nil {
				return n, lines, nil
			}
			if lacksDevice(err) || flagOf(err) == "--threads" {
				return n, lines, err
			}
			compared := true
			if err == nil {
				compared, err = a.recordedOutputs(ctx, c, pl == planners[0])
			}
			lines = append(lines, n.count(a, c.Name, pl, err, compared))
		}
	}
	return n, lines, nil
}

// recordedOutputs reports that a case has recorded outputs, and tells of those that are missing.
func (a *app) recordedOutputs(ctx context.Context, c *conformance.Case, tell bool) (compared bool, err error) {
	missing, compared, err := c.Unrecorded(a.memory.In(ctx))
	for _, m := range missing {
		if tell && compared {
			a.note("berth: %s/%s: not recorded, so not compared: output %s", plain(c.Name), plain(m.Set), plain(someOf(m.Outputs)))
		}
	}
	return compared, err
}

// count records one outcome and returns its status line.
func (n *tally) count(a *app, name, planner string, err error, compared bool) string {
	if planner != "" && a.planner == "all" {
		name += " [" + planner + "]"
	}
	if err == nil && !compared {
		n.skipped++
		line := plain(fmt.Sprintf("SKIP %s: no outputs are recorded (output_0.pb and the like), so there was nothing to compare", name))
		a.note("%s", line)
		return line
	}
	if err == nil {
		n.passed++
		if a.verbose {
			a.note("PASS %s", name)
		}
		return "PASS " + plain(name)
	}
	n.failed++
	var failure *conformance.Failure
	if errors.As(err, &failure) && failure.DamagedModel() || codeOf(err) == exitModel || errors.Is(err, fs.ErrNotExist) {
		n.badModel++
	}
	line := plain(fmt.Sprintf("FAIL %s: %v", name, err))
	a.note("%s", line)
	return line
}

func (a *app) verifyEnd(n tally, lines []string, f verifyFlags) error {
	if f.list != "" {
		if err := safefile.Write(f.list, func(w io.Writer) error {
			_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
			return err
		}); err != nil {
			return err
		}
	}
	if a.json {
		if err := a.printJSON(map[string]any{"passed": n.passed, "failed": n.failed, "skipped": n.skipped, "data_sets": n.sets}); err != nil {
			return err
		}
	} else {
		a.printf("%d passed, %d failed, %d skipped; %d data sets run\n", n.passed, n.failed, n.skipped, n.sets)
	}
	switch {
	case n.failed+n.passed == 0 && n.skipped > 0:
		return differs(fmt.Errorf("nothing was compared: no outputs are recorded"))
	case n.failed == 0:
		return nil
	case n.failed == n.badModel && n.passed == 0:
		return &exitError{exitModel, fmt.Errorf("no model could be read")}
	case n.failed == n.unrun:
		return &exitError{exitFailed, fmt.Errorf("%d of %d cases could not be run", n.failed, n.passed+n.failed)}
	}
	return differs(fmt.Errorf("%d of %d cases failed", n.failed, n.passed+n.failed))
}

// prepareCase opens a case's model and compiles it for each data set's shapes. It counts the sets that run, and the failures of runs, of which a case has one at most.
func (a *app) prepareCase(opts []berth.Option, f verifyFlags, n *tally) conformance.Prepare {
	return func(ctx context.Context, c *conformance.Case) (conformance.Runner, func() error, error) {
		m, err := a.openCase(c)
		if err != nil {
			return nil, nil, err
		}
		run := func(ctx context.Context, in []conformance.Named) ([]conformance.Named, error) {
			out, err := a.runCase(ctx, m, in, opts, f)
			if err != nil {
				n.unrun++
			} else {
				n.sets++
			}
			return out, err
		}
		return run, m.Close, nil
	}
}

func (a *app) openCase(c *conformance.Case) (*berth.Model, error) {
	if path := c.ModelPath(); path != "" {
		return berth.Open(path, a.openOptions()...)
	}
	data, err := c.ModelBytes()
	if err != nil {
		return nil, err
	}
	return berth.Parse(data, a.openOptions()...)
}

func (a *app) runCase(ctx context.Context, m *berth.Model, in []conformance.Named, opts []berth.Option, f verifyFlags) ([]conformance.Named, error) {
	args := map[string]ndarray.Value{}
	for _, x := range in {
		args[x.Name] = x.Value
	}
	if f.optimized {
		o, _, err := m.Optimize(ctx, opts...)
		if err != nil {
			return nil, err
		}
		m = o
	}
	got, _, _, err := runPlanned(ctx, m, args, f.poison, append(shapesIn(args), opts...))
	if err != nil {
		return nil, err
	}
	var out []conformance.Named
	for _, o := range m.Outputs() {
		out = append(out, conformance.Named{Name: o.Name, Value: got[o.Name]})
	}
	return out, nil
}
