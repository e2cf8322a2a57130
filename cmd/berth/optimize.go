package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/conformance"
)

// defaultModel is what the main command works on when no model is named.
const defaultModel = "builtin:mobilenetv2"

type optimizeFlags struct {
	output    string
	noVerify  bool
	noCompare bool
	noPlan    bool
	external  int64
	keepIO    bool
	unroll    bool
	maxOpset  int
	tolerance conformance.Tolerance
}

func (a *app) optimizeCmd() *cobra.Command {
	var f optimizeFlags
	c := &cobra.Command{Use: "optimize [MODEL] [-o OUT]", Short: "Rewrite, plan, verify and write a model; compare planners",
		Long: "Optimize rewrites a model to fewer, equivalent standard ONNX operators, plans its memory,\n" +
			"checks that the result computes the same on random or given inputs, writes it, and prints\n" +
			"what changed and the peak memory under every planner. Without MODEL it works on\n" + defaultModel + ". Without -o the result is written to NAME.opt.onnx in the current folder.\n" +
			"--shape and --dim are fixed in the result, too. If all shapes are known, the file keeps its memory plan.\n" +
			"If the outputs differ, nothing is written and the exit code is 3.",
		Example: "  berth optimize model.onnx -o model.opt.onnx\n  berth optimize model.onnx -o fixed.onnx --shape x=1x3x224x224\n" +
			"  berth optimize model.onnx -o model.opt.onnx --data test_data_set_0",
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
			return about(model, a.optimize(c.Context(), model, f))
		}}
	c.Flags().StringVarP(&f.output, "output", "o", "", "file to write")
	c.Flags().BoolVar(&f.noVerify, "no-verify", false, "do not compare outputs before writing")
	c.Flags().BoolVar(&f.noCompare, "no-compare", false, "do not print the table of planners")
	c.Flags().BoolVar(&f.noPlan, "no-plan", false, "do not keep the memory plan in the file")
	c.Flags().BoolVar(&f.unroll, "unroll-loops", false, "write out loops of a known number of iterations, up to 64")
	c.Flags().IntVar(&f.maxOpset, "max-opset", 0, "operator set that new nodes may need (default: the model's own)")
	c.Flags().Int64Var(&f.external, "save-external", 0, "write weights of at least this many bytes to OUT.data (OUT.1.data where the model that is replaced reads that one)")
	c.Flags().BoolVar(&f.keepIO, "keep-io", false, "keep the declared input and output types although shapes are fixed inside")
	toleranceFlags(c, &f.tolerance, 1e-4, " of the check")
	a.dataFlag(c)
	return c
}

// optimizeJSON is the object printed with --json.
type optimizeJSON struct {
	Model    string           `json:"model"`
	Output   string           `json:"output"` // "" if nothing was written
	Before   statsJSON        `json:"before"`
	After    statsJSON        `json:"after"`
	Shapes   map[string][]int `json:"shapes,omitempty"` // of the inputs that FLOPs, arenas and check are for
	Verified bool             `json:"verified"`
	MaxDiff  float64          `json:"max_abs_diff"`
	Note     string           `json:"note,omitempty"`
	Planners planRows         `json:"planners,omitempty"`
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
	output := outputName(model, f.output)
	files := []string{output}
	if f.external > 0 {
		files = append(files, berth.DataFiles(output)...)
	}
	opts, err := a.options(files...)
	if err != nil {
		return err
	}
	if f.unroll {
		opts = append(opts, berth.WithUnrolledLoops())
	}
	if f.maxOpset < 0 {
		return usagef("--max-opset %d: want an operator set, such as 20", f.maxOpset)
	}
	opts = append(opts, berth.WithMaxOpset(f.maxOpset))
	m, have, err := a.load(model)
	if err != nil {
		return err
	}
	defer m.Close()
	opt, rep, err := m.Optimize(ctx, opts...)
	if err != nil {
		return err
	}
	if f.keepIO {
		opt.KeepPorts(m)
	}
	res := optimizeJSON{Model: model, Output: output, Before: statsOf(rep.Before), After: statsOf(rep.After)}
	v := verification{a: a, m: m, opt: opt, have: have, f: f, res: &res}
	if err := v.run(ctx); err != nil {
		return err
	}
	if err := a.verdict(&res, f); err != nil {
		return err
	}
	metadata, err := a.metadata(ctx, opt, f)
	if err != nil {
		return err
	}
	if err := opt.Save(res.Output, berth.SaveOptions{External: f.external, Metadata: metadata}); err != nil {
		return err
	}
	if res.Before.FileBytes, err = sizeBefore(model, m); err != nil {
		return err
	}
	res.After.FileBytes = fileSize(res.Output)
	if err := a.arenas(ctx, m, opt, &res, f); err != nil {
		a.note("berth: %s is complete; the comparison of planners is not", res.Output)
		return err
	}
	if a.json {
		return a.printJSON(res)
	}
	a.printOptimize(res)
	return nil
}

// metadata is what the file says about its making. A model whose shapes are all
// known keeps its memory plan, so that a program need not search for it again.
func (a *app) metadata(ctx context.Context, opt *berth.Model, f optimizeFlags) (map[string]string, error) {
	meta := map[string]string{"berth.optimized": "1"}
	for _, in := range opt.Inputs() {
		if !in.Type.IsStatic() {
			return meta, nil
		}
	}
	if f.noPlan {
		return meta, nil
	}
	opts := []berth.Option{berth.WithThreads(a.threads)}
	if a.parallelSafe {
		opts = append(opts, berth.WithParallelSafe())
	}
	p, err := opt.Compile(ctx, opts...)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err == nil { // what can not be compiled can still be written
		meta[berth.PlanKey] = p.SavePlan()
	}
	return meta, nil
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
	if a.json {
		out := *res
		out.Output, out.MaxDiff = "", min(res.MaxDiff, math.MaxFloat64)
		if err := a.printJSON(out); err != nil {
			return err
		}
	}
	return differs(fmt.Errorf("%s: the optimized model's outputs differ (largest difference %.3g); nothing was written", res.Model, res.MaxDiff))
}

func outputName(model, out string) string {
	if out != "" {
		return out
	}
	base := strings.TrimPrefix(filepath.Base(model), "builtin:")
	if base == "model.onnx" {
		if dir, err := filepath.Abs(filepath.Dir(model)); err == nil {
			base = filepath.Base(dir)
		}
	}
	return strings.TrimSuffix(base, ".onnx") + ".opt.onnx"
}

// fileSize is the size of a model file and the data file that berth writes
// beside it, 0 if there is none.
func fileSize(path string) int64 {
	var n int64
	for _, p := range append(berth.DataFiles(path), path) {
		if st, err := os.Stat(p); err == nil {
			n += st.Size()
		}
	}
	return n
}

// sizeBefore is the size of the model's file; a built-in model is written to find
// out.
func sizeBefore(model string, m *berth.Model) (int64, error) {
	if !strings.HasPrefix(model, "builtin:") {
		return fileSize(model), nil
	}
	dir, err := os.MkdirTemp("", "berth-*")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.onnx")
	if err := m.Save(path, berth.SaveOptions{}); err != nil {
		return 0, err
	}
	return fileSize(path), nil
}

func statsOf(s berth.Stats) statsJSON {
	return statsJSON{Nodes: s.Nodes, WeightBytes: s.WeightBytes, FLOPs: s.FLOPs}
}

// arenas fills in what depends on the shapes that ran: arithmetic and activation
// memory before and after, and the planner rows.
func (a *app) arenas(ctx context.Context, m, opt *berth.Model, res *optimizeJSON, f optimizeFlags) error {
	if res.Shapes == nil {
		return nil
	}
	bind := shapeOptions(res.Shapes)
	for _, x := range []struct {
		m *berth.Model
		s *statsJSON
	}{{m, &res.Before}, {opt, &res.After}} {
		if g, err := x.m.Folded(ctx, bind...); err == nil {
			x.s.FLOPs = berth.StatsOf(g).FLOPs
		}
		if row, ok := planOf(ctx, x.m, cmp.Or(a.planner, berth.DefaultPlanner()), "file", bind); ok {
			x.s.ArenaBytes, x.s.PeakBytes = row.ArenaBytes, row.ArenaBytes+x.s.WeightBytes
		}
	}
	if f.noCompare {
		return ctx.Err()
	}
	co, done := a.compareOptions(compareFlags{budget: defaultBudget})
	co.Workspace = false
	rows, err := opt.Compare(ctx, co, bind...)
	done()
	if err != nil {
		if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
			a.note("berth: warning: %v", err)
		}
		return ctx.Err()
	}
	res.Planners = newRows(rows)
	return nil
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
	fmt.Fprintf(a.out, "\ninputs:   %s\n", allShapesText(res.Shapes))
	switch {
	case res.Verified && res.Note != "":
		fmt.Fprintf(a.out, "verified: %s\nwritten:  %s\n", res.Note, res.Output)
	case res.Verified:
		fmt.Fprintf(a.out, "verified: same outputs, largest difference %.3g\nwritten:  %s\n", res.MaxDiff, res.Output)
	default:
		fmt.Fprintf(a.out, "written:  %s (not verified)\n", res.Output)
	}
	if len(res.Planners) > 0 {
		fmt.Fprintln(a.out, "\npeak memory of the optimized model, by planner:")
		res.Planners.print(a.out, shown{budget: defaultBudget})
	}
}

func dash(n int64, show func(int64) string) string {
	if n == 0 {
		return "-"
	}
	return show(n)
}
