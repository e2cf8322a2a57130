package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/testmodels/conformance"
)

// defaultModel is what the main command works on when no model is named.
const defaultModel = "builtin:residual"

type optimizeFlags struct {
	output    string
	noVerify  bool
	noCompare bool
	external  int64
	keepIO    bool
	rtol      float64
	atol      float64
}

func (a *app) optimizeCmd() *cobra.Command {
	var f optimizeFlags
	c := &cobra.Command{Use: "optimize [MODEL] [-o OUT]", Short: "Rewrite, plan, verify and write a model; compare planners",
		Long: "Optimize rewrites a model to fewer, equivalent standard ONNX operators, plans its memory,\n" +
			"checks that the result computes the same on random or given inputs, writes it, and prints\n" +
			"what changed and the peak memory under every planner. Without MODEL it works on " + defaultModel + ".\n" +
			"Without -o the result is written to NAME.opt.onnx in the current folder.\n" +
			"If the outputs differ, nothing is written and the exit code is 3.",
		Example: "  berth optimize model.onnx -o model.opt.onnx\n  berth optimize model.onnx -o fixed.onnx --shape x=1x3x224x224",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("optimize takes one model, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			model := defaultModel
			if len(args) == 1 {
				model = args[0]
			}
			return a.optimize(c.Context(), model, f)
		}}
	c.Flags().StringVarP(&f.output, "output", "o", "", "file to write")
	c.Flags().BoolVar(&f.noVerify, "no-verify", false, "do not compare outputs before writing")
	c.Flags().BoolVar(&f.noCompare, "no-compare", false, "do not print the table of planners")
	c.Flags().Int64Var(&f.external, "save-external", 0, "write weights of at least this many bytes to OUT.data")
	c.Flags().BoolVar(&f.keepIO, "keep-io", false, "keep the declared input and output types although shapes are fixed inside")
	c.Flags().Float64Var(&f.rtol, "rtol", 1e-3, "relative tolerance of the check")
	c.Flags().Float64Var(&f.atol, "atol", 1e-4, "absolute tolerance of the check")
	a.dataFlag(c)
	return c
}

// optimizeJSON is the object printed with --json.
type optimizeJSON struct {
	Model    string        `json:"model"`
	Output   string        `json:"output"`
	Before   statsJSON     `json:"before"`
	After    statsJSON     `json:"after"`
	Verified bool          `json:"verified"`
	MaxDiff  float64       `json:"max_abs_diff"`
	Note     string        `json:"note,omitempty"`
	Planners []plannerJSON `json:"planners,omitempty"`
}

type statsJSON struct {
	Nodes       int   `json:"nodes"`
	WeightBytes int64 `json:"initializer_bytes"`
	FileBytes   int64 `json:"file_bytes"`
	FLOPs       int64 `json:"flops"`
	ArenaBytes  int64 `json:"arena_bytes"`
	PeakBytes   int64 `json:"peak_bytes"`
}

func (a *app) optimize(ctx context.Context, model string, f optimizeFlags) error {
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
	opt, rep, err := m.Optimize(ctx, opts...)
	if err != nil {
		return err
	}
	if f.keepIO {
		opt.KeepPorts(m)
	}
	res := optimizeJSON{Model: model, Output: outputName(model, f.output)}
	res.Before, res.After = statsOf(rep.Before), statsOf(rep.After)
	shapes := a.verifyOptimized(ctx, m, opt, set, f, &res)
	if err := a.verdict(&res, f); err != nil {
		return err
	}
	if err := opt.Save(res.Output, berth.SaveOptions{External: f.external, Metadata: map[string]string{"berth.optimized": "1"}}); err != nil {
		return err
	}
	res.Before.FileBytes, res.After.FileBytes = fileSize(model), fileSize(res.Output)
	a.arenas(ctx, m, opt, shapes, &res, f)
	if a.json {
		return a.printJSON(res)
	}
	a.printOptimize(res)
	return nil
}

// verdict turns a difference into exit code 3 before anything is written.
func (a *app) verdict(res *optimizeJSON, f optimizeFlags) error {
	switch {
	case f.noVerify || res.Verified:
		return nil
	case res.Note != "":
		a.note("berth: warning: not verified: %s", res.Note)
		return nil
	}
	return differs(fmt.Errorf("%s: the optimized model's outputs differ (largest difference %.3g); nothing was written", res.Model, res.MaxDiff))
}

func outputName(model, out string) string {
	if out != "" {
		return out
	}
	base := strings.TrimPrefix(filepath.Base(model), "builtin:")
	if base == "model.onnx" {
		base = filepath.Base(filepath.Dir(model))
	}
	return strings.TrimSuffix(base, ".onnx") + ".opt.onnx"
}

func fileSize(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

func statsOf(s berth.Stats) statsJSON {
	return statsJSON{Nodes: s.Nodes, WeightBytes: s.WeightBytes, FLOPs: s.FLOPs}
}

// tried are the sizes given to open dimensions, in turn, until the model runs.
var tried = []int{1, 2, 16, 32, 64, 160, 224}

// verifyOptimized runs both models on the same inputs. It returns the shapes
// that ran; res gets the outcome, or a note why there is none.
func (a *app) verifyOptimized(ctx context.Context, m, opt *berth.Model, set *conformance.Set, f optimizeFlags, res *optimizeJSON) map[string][]int {
	var last error
	for _, size := range tried {
		shapes, err := a.bindShapes(m, set)
		if err != nil {
			last = err
			break
		}
		if open := growOpen(m, shapes, set, size); !open && size != tried[0] {
			break
		}
		in, err := a.randomInputs(m, shapes, given(set))
		if err != nil {
			last = err
			break
		}
		want, err := m.RunValues(ctx, in, berth.WithoutPasses())
		if err != nil {
			last = err
			continue
		}
		if f.noVerify {
			return shapes
		}
		got, err := opt.RunValues(ctx, in)
		if err != nil {
			res.MaxDiff = -1
			res.Note = ""
			a.note("berth: the optimized model fails: %v", err)
			return shapes
		}
		a.compareOutputs(m, got, want, f, res)
		return shapes
	}
	res.Note = "the model itself does not run on random inputs"
	if last != nil {
		res.Note += " (" + last.Error() + ")"
	}
	res.Note += "; give inputs with --data or shapes with --shape"
	return nil
}

// growOpen sets open dimensions to size; it reports whether there are any.
func growOpen(m *berth.Model, shapes map[string][]int, set *conformance.Set, size int) bool {
	open := false
	have := given(set)
	for _, in := range m.Inputs() {
		if have[in.Name] != nil || in.Type.Rank() != len(shapes[in.Name]) {
			continue
		}
		for i, d := range in.Type.Shape {
			if _, ok := d.Const(); !ok && shapes[in.Name][i] == 1 {
				open = true
				if i > 0 || size == 1 { // leave a batch dimension alone
					shapes[in.Name][i] = size
				}
			}
		}
	}
	return open
}

func (a *app) compareOutputs(m *berth.Model, got, want map[string]ndarray.Value, f optimizeFlags, res *optimizeJSON) {
	res.Verified = true
	tol := conformance.Tolerance{Rtol: f.rtol, Atol: f.atol}
	for _, o := range m.Outputs() {
		if d := conformance.Compare(got[o.Name], want[o.Name], tol); d != nil {
			res.Verified = false
			a.note("berth: output %q: %v", o.Name, d)
		}
		x, ok1 := got[o.Name].(*ndarray.Array)
		y, ok2 := want[o.Name].(*ndarray.Array)
		if ok1 && ok2 {
			res.MaxDiff = max(res.MaxDiff, maxAbsDiff(x, y))
		}
	}
}

// arenas fills in activation memory before and after, and the planner rows.
func (a *app) arenas(ctx context.Context, m, opt *berth.Model, shapes map[string][]int, res *optimizeJSON, f optimizeFlags) {
	if shapes == nil {
		return
	}
	bind := shapeOptions(shapes)
	for _, x := range []struct {
		m *berth.Model
		s *statsJSON
	}{{m, &res.Before}, {opt, &res.After}} {
		rows, err := x.m.Compare(ctx, berth.CompareOptions{Planners: []string{berth.DefaultPlanner()}}, bind...)
		if err != nil || len(rows) == 0 || rows[0].Err != nil {
			continue
		}
		x.s.ArenaBytes = rows[0].ArenaBytes
		x.s.PeakBytes = rows[0].ArenaBytes + x.s.WeightBytes
	}
	if f.noCompare {
		return
	}
	rows, err := opt.Compare(ctx, berth.CompareOptions{}, bind...)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			a.note("berth: warning: %v", err)
		}
		return
	}
	berth.ShareBounds(rows)
	res.Planners = plannerRows(rows)
}

func (a *app) printOptimize(res optimizeJSON) {
	t := newTable(a.out, res.Model, "before", "after", "")
	alignRight(t, 2, 3, 4)
	row := func(name string, x, y int64, show func(int64) string) {
		change := ""
		if x > 0 && y > 0 && x != y {
			change = fmt.Sprintf("%+.1f%%", 100*(float64(y)/float64(x)-1))
		}
		t.AppendRow([]any{name, dash(x, show), dash(y, show), change})
	}
	row("nodes", int64(res.Before.Nodes), int64(res.After.Nodes), countText)
	row("weights", res.Before.WeightBytes, res.After.WeightBytes, bytesText)
	row("file", res.Before.FileBytes, res.After.FileBytes, bytesText)
	row("FLOPs", res.Before.FLOPs, res.After.FLOPs, countText)
	row("activation arena", res.Before.ArenaBytes, res.After.ArenaBytes, bytesText)
	row("weights + arena", res.Before.PeakBytes, res.After.PeakBytes, bytesText)
	t.Render()
	if res.Verified {
		fmt.Fprintf(a.out, "\nverified: same outputs, largest difference %.3g\nwritten:  %s\n", res.MaxDiff, res.Output)
	} else {
		fmt.Fprintf(a.out, "\nwritten:  %s (not verified)\n", res.Output)
	}
	if len(res.Planners) > 0 {
		fmt.Fprintln(a.out, "\npeak memory of the optimized model, by planner:")
		a.printPlanners(res.Planners)
	}
}

func dash(n int64, show func(int64) string) string {
	if n == 0 {
		return "-"
	}
	return show(n)
}
