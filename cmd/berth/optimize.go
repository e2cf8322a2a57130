package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/onnxexport"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/internal/typecheck"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/onnximport"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// defaultModel is what the main command works on when no model is named.
const defaultModel = "builtin:mobilenetv2"

type optimizeFlags struct {
	output    string
	inputs    []string
	noVerify  bool
	unchecked bool // write although there was nothing to compare, or the model itself is not valid
	noCompare bool
	noPlan    bool
	external  sizeFlag
	keepIO    bool
	unroll    bool
	maxOpset  int
	tolerance conformance.Tolerance
	given     bool // the tolerance is, and nothing else counts
}

func (a *app) optimizeCmd() *cobra.Command {
	var f optimizeFlags
	c := &cobra.Command{Use: "optimize [MODEL] [-o OUT]", Short: "Rewrite, plan, verify and write a model; compare planners",
		Long: "Optimize rewrites a model to fewer, equivalent standard ONNX operators, plans its memory,\n" +
			"writes the result, reads it back, checks that other tools can read it, too, and that it computes\n" +
			"the same on random or given inputs, and prints what changed and the peak memory under every planner. Without MODEL it works on\n" + defaultModel + ". Without -o the result is written to NAME.opt.onnx in the current folder.\n" +
			"--shape and --dim are fixed in the result, too. If all shapes are known, the file keeps its memory plan. Where fixed inputs would show other tools\n" +
			"a branch that never runs and that they refuse, inputs and outputs stay as declared, as with --keep-io, and a warning says so.\n" +
			"Dimensions that stay open are tried with several sizes, together and each by itself, and as 0, random floats also times 1000\n" +
			"and 0.001, integers by what the model uses them for (counts, indices, sizes) and as the constants it compares them with, sequences of several lengths,\n" +
			"optional inputs present and absent, strings as those it holds, and what is recorded in test_data_set_* folders beside\n" +
			"model.onnx. Inputs that the model itself does not run with are named, and so are branches that\n" +
			"no input takes, and outputs that are empty or NaN in every run, for which further inputs are tried: they are not verified. The model\n" +
			"also runs with nothing folded, so that a wrong constant is seen; operators that only one kernel computes are named. If the outputs differ, if the model or the given\n" +
			"inputs can not be run (--allow-unverified), or if other tools would refuse the result, nothing is written\n" +
			"at OUT and the exit code is 3. The same holds if other tools would refuse the model itself: types that ONNX does not\n" +
			"allow, versions that are not known (--allow-unverified names them and writes the result).\n" +
			"Without --rtol and --atol, a model of 16-bit floats may exceed the tolerance by what rounding makes in it: the\n" +
			"result is to be as near to the original computed in float32 as 4 times the original itself, plus 8 units of\n" +
			"rounding (2^-11 for float16, 2^-8 for bfloat16) of the output's scale; computed in float32, 2 times plus 4 units.\n" +
			"With inputs times 1000 or 0.001 this holds for float32, too, against float64. Differences of float32 within the default\n" +
			"tolerance that exceed 8 units (2^-24 of an output's scale) pass if the result is as near to the original in float64 as\n" +
			"4 times the original itself, plus 8 units; that is left out, and told, above 3e9 operations.\n" +
			"Differences beyond the default tolerance pass by the same bound, up to 5e11 operations, unless rounding makes as much as the output is large.\n" +
			"Outputs that differ because selections (TopK, NonMaxSuppression, comparisons, Floor, QuantizeLinear, …) decide near ties otherwise pass if with the original's selections\n" +
			"all outputs and all that is selected from are the same by these rules; such selections are named (near ties).",
		Example: "  berth optimize model.onnx -o model.opt.onnx\n  berth optimize model.onnx -o fixed.onnx --shape x=1x3x224x224\n" +
			"  berth optimize model.onnx -o model.opt.onnx --data test_data_set_0\n  berth optimize vad.onnx --input sr=16000",
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
			f.given = c.Flags().Changed("rtol") || c.Flags().Changed("atol")
			if c.Flags().Changed("max-opset") && (f.maxOpset < 1 || f.maxOpset > berth.NewestOpset) {
				return usagef("--max-opset %d: want an operator set from 1 to %d, such as 20", f.maxOpset, berth.NewestOpset)
			}
			return atModel(model, a.optimize(c.Context(), model, f))
		}}
	c.Flags().StringVarP(&f.output, "output", "o", "", "file to write")
	c.Flags().BoolVar(&f.noVerify, "no-verify", false, "do not compare outputs before writing")
	c.Flags().BoolVar(&f.unchecked, "allow-unverified", false, "write the result although the model can not be run, so that no outputs can be compared, or other tools would refuse the model itself")
	c.Flags().BoolVar(&f.noCompare, "no-compare", false, "do not print the table of planners")
	c.Flags().BoolVar(&f.noPlan, "no-plan", false, "do not keep the memory plan in the file")
	c.Flags().BoolVar(&f.unroll, "unroll-loops", false, "write out loops of a known number of iterations, up to 64")
	c.Flags().IntVar(&f.maxOpset, "max-opset", 0, "newest operator set that the result may import (default: the model's own)")
	c.Flags().Var(&f.external, "save-external", "write weights of at least this size (bytes, or 1MB, 64KiB, …) to OUT.HASH.data, named by its content")
	c.Flags().BoolVar(&f.keepIO, "keep-io", false, "keep the declared input and output types although shapes are fixed inside")
	toleranceFlags(c, &f.tolerance, 1e-4, " of the check")
	inputFlag(c, &f.inputs)
	a.dataFlag(c)
	return c
}

// optimizeJSON is the object printed with --json.
type optimizeJSON struct {
	Model  string           `json:"model"`
	Output string           `json:"output"` // "" if nothing was written
	Data   []string         `json:"data_files,omitempty"`
	Before statsJSON        `json:"before"`
	After  statsJSON        `json:"after"`
	Shapes map[string][]int `json:"shapes,omitempty"` // of the inputs that FLOPs and arenas are for

	Tried    []map[string][]int `json:"tried,omitempty"`    // shapes of the inputs that outputs were compared for, where some are open
	Variants []string           `json:"variants,omitempty"` // other inputs that outputs were compared for
	Drawn    []string           `json:"drawn,omitempty"`    // values of inputs that were drawn by what the model uses them for, in the first comparison
	Refused  []refusal          `json:"refused,omitempty"`  // inputs that were tried and with which the original does not run
	Folding  foldingJSON        `json:"folding"`
	NotRun   []string           `json:"not_run,omitempty"`          // branches and loop bodies that no input entered: nothing is known of them
	Empty    []string           `json:"not_compared,omitempty"`     // outputs that had no element but NaN in any comparison
	Selected []string           `json:"compared_instead,omitempty"` // what selections read, compared because an output is in not_compared
	Ties     []string           `json:"near_ties,omitempty"`        // selections that decided near ties otherwise; with those of the original all else is the same
	NaN      int                `json:"nan"`                        // elements of the original's outputs that are NaN, the same ones in the result's
	Inf      int                `json:"inf"`                        // the same for infinities
	Elements int                `json:"elements"`                   // of all outputs compared
	Verified bool               `json:"verified"`
	MaxDiff  number             `json:"max_abs_diff"` // null where it is infinite
	Note     string             `json:"note,omitempty"`
	decide   []string           // inputs that decide about NotRun
	single   []string           // sizes tried, by dimension, of shapes that differ from the first ones in one dimension
	together int                // how many of Tried come before those
	copy     string             // the file that is verified
	untested bool               // differences within the tolerance were not compared with float64
	failure  error              // of the optimized model's run
	differed bool               // outputs did, and rounding does not explain it

	OpsetBefore int              `json:"opset_before"` // the default operator set that the model imports
	Opset       int              `json:"opset"`        // and the result
	Raised      string           `json:"opset_raised_by,omitempty"`
	Withheld    []berth.Withheld `json:"opset_withholds,omitempty"` // what --max-opset would allow to fuse
	Violations  []string         `json:"type_violations,omitempty"` // versions that are not known and types that ONNX does not allow, in the model as in the result

	Corrected []string `json:"corrected,omitempty"` // what the model violates and the result does not

	Kept string `json:"declared_shapes_kept,omitempty"` // why inputs and outputs stay as declared although shapes are given

	Unplanned string `json:"plan_left_out,omitempty"` // why the file has no memory plan, where memory for it was lacking

	Planners planRows `json:"planners,omitempty"`
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
	a.replaces = output
	opts, err := a.options(output)
	if err != nil {
		return err
	}
	if f.unroll {
		opts = append(opts, berth.WithUnrolledLoops())
	}
	opts = append(opts, berth.WithMaxOpset(f.maxOpset))
	m, have, err := a.load(model, false)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := a.readInputs(m, f.inputs, new(imageFlags), have); err != nil {
		return err
	}
	if err := cmp.Or(a.checkGiven(m, have), a.checkSeed(m, have), f.checkUnread(a, m)); err != nil {
		return err
	}
	res := optimizeJSON{Model: model, Output: output}
	twin, done, err := a.rewrite(ctx, m, have, opts, &res, f)
	if shown := a.shownByPorts(err, f); shown != nil {
		f.keepIO = true
		res = optimizeJSON{Model: model, Output: output, Kept: shown.Error()}
		twin, done, err = a.rewrite(ctx, m, have, opts, &res, f)
	}
	if err != nil {
		return err
	}
	defer done()
	if res.Kept != "" {
		a.note("berth: warning: %s: shapes are fixed inside only, inputs and outputs stay as declared, as with --keep-io: else other tools would refuse the result, since %s", model, res.Kept)
	}
	if err := a.arenas(ctx, m, twin, &res, f); err != nil {
		a.note("berth: %s is complete; the comparison of planners is not", res.Output)
		return err
	}
	if a.json {
		return a.printJSON(res)
	}
	a.printOptimize(res)
	return nil
}

// rewrite optimizes the model, verifies a copy of the result, and writes the result. The copy stays open until done.
func (a *app) rewrite(ctx context.Context, m *berth.Model, have map[string]ndarray.Value, opts []berth.Option, res *optimizeJSON, f optimizeFlags) (twin *berth.Model, done func(), err error) {
	bar := a.newProgress(3)
	defer bar.done()
	bar.step("rewriting")
	opt, rep, err := a.smallest(ctx, m, opts, f)
	if err != nil {
		return nil, nil, err
	}
	if f.unroll && !unrolled(rep) {
		a.note("berth: warning: --unroll-loops: no loop has a known number of iterations from 2 to 64 and few enough nodes")
	}
	res.OpsetBefore, res.Raised, res.Withheld = opsetOf(m), rep.Raised, rep.Withheld
	if f.keepIO {
		if opt, err = opt.KeepPorts(m); err != nil {
			return nil, nil, err
		}
	}
	save := berth.SaveOptions{External: int64(f.external), Context: ctx, MaxMemory: int64(a.memory)}
	if save.Metadata, err = a.metadata(ctx, opt, f, res); err != nil {
		return nil, nil, err
	}
	bar.step("writing a copy and reading it back")
	if twin, done, err = a.readBack(opt, save, f, res); err != nil {
		return nil, nil, err
	}
	res.Opset = opsetOf(twin)
	res.Before, res.After = statsOf(m.Contents()), statsOf(twin.Contents())
	if res.Violations, err = a.checkValid(ctx, m, twin, f); err != nil {
		done()
		if a.shownByPorts(err, f) == nil {
			err = a.refuse(res, err)
		}
		return nil, nil, err
	}
	if res.Corrected, err = a.corrected(ctx, res.Model, m, res.copy); err != nil {
		done()
		return nil, nil, err
	}
	if res.Before.FileBytes, err = a.sizeBefore(ctx, res.Model, m); err == nil {
		bar.step(f.judging())
		err = a.newVerification(m, twin, have, f, res).run(ctx)
	}
	if err == nil {
		err = a.verdict(res, f)
	}
	if err == nil {
		res.Data, err = onnxexport.Copy(a.memory.In(ctx), res.copy, res.Output)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	res.After.FileBytes = fileSize(append(slices.Clip(res.Data), res.Output)...)
	return twin, done, nil
}

// smallest optimizes the model. What is fixed may show that a branch is for other shapes, which is then left as the model has it. What open shapes allow
// may be less: of it the shapes are fixed if other tools read that, and with --keep-io it is the result itself.
func (a *app) smallest(ctx context.Context, m *berth.Model, opts []berth.Option, f optimizeFlags) (*berth.Model, *berth.OptimizeReport, error) {
	opt, rep, err := m.Optimize(ctx, opts...)
	if err != nil || len(a.shapes)+len(a.dims) == 0 || m.Contents().Operators["If"] == 0 {
		return opt, rep, err
	}
	base := append(a.limits(), berth.WithMaxOpset(f.maxOpset))
	if f.unroll {
		base = append(base, berth.WithUnrolledLoops())
	}
	other, otherRep, err := m.Optimize(ctx, base...)
	if err == nil && !f.keepIO {
		open := other
		other, otherRep, err = open.Optimize(ctx, opts...)
		open.Close()
		if err == nil {
			err = other.CheckPortable(a.memory.In(ctx))
		}
	}
	if err == nil && other.Contents().Nodes < opt.Contents().Nodes && otherRep.Raised == rep.Raised {
		opt.Close()
		return other, otherRep, nil
	}
	if other != nil {
		other.Close()
	}
	if lacksMemory(err) { // what is written does not depend on what else is in memory
		opt.Close()
		return nil, nil, err
	}
	return opt, rep, ctx.Err()
}

// unrolled reports whether a pass has unrolled a loop.
func unrolled(rep *berth.OptimizeReport) bool {
	return slices.ContainsFunc(rep.Passes, func(p berth.PassStat) bool { return p.Pass == "unroll" && p.Patches > 0 })
}

// readBack writes the optimized model to a temporary folder, under the name of the result, and opens it: what is verified is the file, which is copied
// to where the result belongs. done closes it and removes it. The error of a file that other tools refuse has exit code 3.
func (a *app) readBack(opt *berth.Model, save berth.SaveOptions, f optimizeFlags, res *optimizeJSON) (*berth.Model, func(), error) {
	dir, remove, err := a.temporary.make(a.ctx)
	if err != nil {
		return nil, nil, err
	}
	res.copy = filepath.Join(dir, filepath.Base(res.Output))
	twin, err := a.twin(opt, res.copy, save, f)
	if err != nil {
		remove()
		return nil, nil, err
	}
	return twin, func() { twin.Close(); remove() }, nil
}

// twin writes the optimized model to a path, opens it, and checks what does not depend on inputs.
func (a *app) twin(opt *berth.Model, path string, save berth.SaveOptions, f optimizeFlags) (*berth.Model, error) {
	save.Temporary = true
	if err := opt.Save(path, save); err != nil {
		return nil, err
	}
	twin, err := berth.Open(path, a.openOptions()...)
	if imp := (*onnximport.ImportError)(nil); errors.As(err, &imp) {
		imp.File = "" // a temporary one
	}
	if full := (*ops.MemoryError)(nil); errors.As(err, &full) {
		return nil, fmt.Errorf("reading the result back: %w", full)
	}
	if err != nil && a.ctx.Err() != nil {
		return nil, err
	}
	if err != nil {
		return nil, differs(fmt.Errorf("other tools would refuse the result, as berth does: %w; nothing was written", err))
	}
	for _, o := range twin.Metadata().Opsets {
		if o.Domain == "" && f.maxOpset > 0 && o.Version > f.maxOpset {
			err = &exitError{exitModel, fmt.Errorf("the result needs operator set %d, --max-opset is %d; nothing was written", o.Version, f.maxOpset)}
		}
	}
	if err != nil {
		twin.Close()
		return nil, err
	}
	return twin, nil
}

// branchError is a branch that never runs and that other tools refuse.
type branchError struct {
	why string // they look at it
	err error
}

func (e *branchError) Error() string { return e.why + ": " + e.err.Error() }
func (e *branchError) Unwrap() error { return e.err }

// shownByPorts returns the branch that other tools refuse because inputs and outputs have the shapes given: with declared ones they may accept it.
func (a *app) shownByPorts(err error, f optimizeFlags) (shown *branchError) {
	if f.keepIO || len(a.shapes)+len(a.dims) == 0 || !errors.As(err, &shown) {
		return nil
	}
	return shown
}

// checkBranches looks for branches that never run and that other tools refuse: a [branchError] with exit code 3. Not every tool
// folds as much as berth, so what only folding shows is told of, and allowed, where the model itself has it.
func (a *app) checkBranches(ctx context.Context, m, twin *berth.Model) error {
	err := twin.CheckPortable(ctx)
	ne, full := (*ops.NodeError)(nil), (*ops.MemoryError)(nil)
	if ctx.Err() != nil || !errors.As(err, &ne) || errors.As(err, &full) {
		return err
	}
	why := "they infer branches that never run"
	if ne.Stage == "folded branches" {
		why = "they fold constants and infer branches that never run"
		if own := m.CheckPortable(ctx); errors.As(own, &full) {
			return own
		} else if own != nil {
			a.note("berth: warning: other tools may refuse the result, as the model itself, if %s: %v", why, err)
			return ctx.Err()
		}
	}
	return differs(fmt.Errorf("other tools would refuse the result, since %w; nothing was written", &branchError{why, err}))
}

// checkValid looks for what other tools refuse: versions that are not known, operands and results of types that ONNX does not
// allow. The error has exit code 3. What the model has, too, is returned and told of if that is allowed; what rewriting made
// never is.
func (a *app) checkValid(ctx context.Context, m, twin *berth.Model, f optimizeFlags) (old []string, err error) {
	ctx = a.memory.In(ctx)
	if err = a.checkBranches(ctx, m, twin); err != nil {
		return nil, err
	}
	old, err = a.violations(ctx, m, twin)
	if err != nil || len(old) == 0 {
		return nil, err
	}
	if !f.unchecked {
		return nil, differs(fmt.Errorf("other tools would refuse the result, as they refuse the model itself: %s; nothing was written (--allow-unverified writes it all the same)",
			strings.Join(old[:min(len(old), 3)], "; ")))
	}
	for _, v := range old {
		a.note("berth: warning: other tools may refuse the result, as the model itself: %s", v)
	}
	return old, nil
}

// refuse tells, with --json, of a result that other tools would refuse.
func (a *app) refuse(res *optimizeJSON, err error) error {
	if e := (*exitError)(nil); !errors.As(err, &e) || e.code != exitDiffers {
		return err
	}
	out := *res
	out.Output, out.Note = "", err.Error()
	if a.json {
		if failed := a.printJSON(out); failed != nil {
			return failed
		}
	}
	return differs(fmt.Errorf("%s: %w", res.Model, err))
}

// violations lists what other tools refuse in the model as in the result. It is an error if the result alone has it.
func (a *app) violations(ctx context.Context, m, twin *berth.Model) (old []string, err error) {
	meta := twin.Metadata()
	old = onnximport.UnknownVersions(meta.IR, meta.Opsets)
	after, err := twin.TypeViolations(ctx)
	if err != nil || len(after) == 0 {
		return old, err
	}
	before, err := m.TypeViolations(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range after {
		if !slices.ContainsFunc(before, v.SameKind) {
			return nil, differs(fmt.Errorf("other tools would refuse the result: %v; nothing was written; no node of the model has such a type", v))
		}
		old = append(old, v.String())
	}
	return old, nil
}

// corrected lists what other tools hold against the model's file and not against the result.
func (a *app) corrected(ctx context.Context, model string, m *berth.Model, copy string) ([]string, error) {
	if info, err := os.Stat(model); strings.HasPrefix(model, "builtin:") || err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	before, err := onnxwire.OpenWith(a.memory.In(ctx), model, onnxwire.MapFile)
	if err != nil {
		return nil, err
	}
	defer before.Close()
	after, err := onnxwire.OpenWith(a.memory.In(ctx), copy, onnxwire.MapFile)
	if err != nil {
		return nil, err
	}
	defer after.Close()
	return typecheck.Corrected(a.memory.In(ctx), before.Model, after.Model, read(m, elementTypes))
}

// elementTypes are those of tensors by name; undefined for names of several graphs.
func elementTypes(g *ssa.Graph) map[string]onnxwire.DataType {
	types := map[string]onnxwire.DataType{}
	g.Walk(func(b *ssa.Graph) {
		for _, v := range b.Values() {
			t := onnxwire.DataType(v.Type.DType)
			if old, twice := types[v.Name]; v.Type.Kind != ssa.KindTensor || twice && old != t {
				t = onnxwire.TypeUndefined
			}
			types[v.Name] = t
		}
	})
	return types
}

// metadata is what the file says about its making. A model whose shapes are all
// known keeps its memory plan for one thread, so that a program need not search for it again.
func (a *app) metadata(ctx context.Context, opt *berth.Model, f optimizeFlags, res *optimizeJSON) (map[string]string, error) {
	meta := map[string]string{"berth.optimized": "1"}
	for _, in := range opt.Inputs() {
		if !in.Type.IsStatic() {
			return meta, nil
		}
	}
	if f.noPlan {
		return meta, nil
	}
	opts := []berth.Option{berth.WithMaxMemory(int64(a.memory)), berth.WithPlanner(a.planner)} // for one thread, so that the bytes do not depend on --threads
	if a.parallelSafe {
		opts = append(opts, berth.WithParallelSafe())
	}
	p, err := opt.Compile(ctx, opts...)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if lacksMemory(err) { // with more the file would be another one
		res.Unplanned = err.Error()
		a.note("berth: warning: the file is written without its memory plan: %v", err)
	}
	if err == nil { // what can not be compiled can still be written
		meta[berth.PlanKey] = p.SavePlan()
	}
	return meta, nil
}

// verdict turns a difference, and a model that could not be run, into exit code 3 before anything is written.
func (a *app) verdict(res *optimizeJSON, f optimizeFlags) error {
	reason := fmt.Errorf("%s: the optimized model's outputs differ (largest difference %.3g); nothing was written", res.Model, res.MaxDiff)
	if res.Folding.wrong {
		reason = fmt.Errorf("%s: with nothing folded, the model itself gives other outputs than folded (largest difference %.3g): constants of the result would be wrong; nothing was written", res.Model, res.MaxDiff)
	}
	switch {
	case f.noVerify || res.Verified:
		return nil
	case lacksMemory(res.failure): // no difference: with more memory it may be verified
		return fmt.Errorf("%s: the result was not verified: %w; nothing was written", res.Model, res.failure)
	case res.failure != nil:
		reason = fmt.Errorf("%s: the optimized model fails: %w; nothing was written", res.Model, res.failure)
	case res.differed: // whatever was noted of other inputs
	case res.Note != "" && f.unchecked:
		a.note("berth: warning: not verified: %s", res.Note)
		return nil
	case res.Note != "":
		reason = fmt.Errorf("%s: not verified: %s; nothing was written (--allow-unverified writes it all the same)", res.Model, res.Note)
	}
	if a.json {
		out := *res
		out.Output = ""
		if err := a.printJSON(out); err != nil {
			return err
		}
	}
	return differs(reason)
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

// fileSize is the size of files together.
func fileSize(paths ...string) (bytes int64) {
	for _, p := range paths {
		if st, err := os.Stat(p); err == nil {
			bytes += st.Size()
		}
	}
	return bytes
}

// sizeBefore is the size of the model's file; a built-in model is written to find
// out.
func (a *app) sizeBefore(ctx context.Context, model string, m *berth.Model) (int64, error) {
	if !strings.HasPrefix(model, "builtin:") {
		weights, err := onnxexport.DataFiles(a.memory.In(ctx), model)
		return fileSize(append(weights, model)...), err
	}
	dir, remove, err := a.temporary.make(ctx)
	if err != nil {
		return 0, err
	}
	defer remove()
	path := filepath.Join(dir, "model.onnx")
	if err := m.Save(path, berth.SaveOptions{Context: ctx, MaxMemory: int64(a.memory), Temporary: true}); err != nil {
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
	bind := append(a.limits(), shapeOptions(res.Shapes)...)
	for _, x := range []struct {
		m *berth.Model
		s *statsJSON
	}{{m, &res.Before}, {opt, &res.After}} {
		row, err := a.planOf(ctx, x.m, bind, func(g *ssa.Graph) { x.s.FLOPs = berth.StatsOf(g).FLOPs })
		if err == nil {
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
	t := newTable(a.out, filepath.Base(res.Model), "before", "after", "")
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
	a.printf("\nopset:    %s\n", res.opsetText())
	if len(res.Corrected) > 0 {
		a.printf("corrected: %s\n", strings.Join(res.Corrected, "; "))
	}
	a.printf("inputs:   %s\n", res.inputsText())
	if len(res.Drawn) > 0 {
		a.printf("drawn:    %s\n", strings.Join(res.Drawn, "; "))
	}
	if len(res.single) > 0 {
		a.printf("singly:   %s\n", strings.Join(res.single, "; "))
	}
	if len(res.Variants) > 0 {
		a.printf("also:     %s\n", strings.Join(res.Variants, "; "))
	}
	if len(res.Refused) > 0 {
		a.printf("refused:  %s\n", refusedText(res.Refused))
	}
	if res.NaN+res.Inf > 0 {
		a.printf("outputs:  %d of %d elements are NaN, %d infinite\n", res.NaN, res.Elements, res.Inf)
	}
	if text := res.Folding.text(); text != "" {
		a.printf("folding:  %s\n", text)
	}
	a.printOutcome(res)
	if len(res.Planners) > 0 {
		a.printf("\npeak memory of the optimized model, by planner:\n")
		res.Planners.print(a.out, shown{budget: defaultBudget})
	}
}

// printOutcome says what was verified, what was not, and where the result is.
func (a *app) printOutcome(res optimizeJSON) {
	written := strings.Join(append([]string{res.Output}, res.Data...), " and ")
	said := fmt.Sprintf("same outputs, largest difference %.3g", res.MaxDiff)
	if res.untested {
		said += " (within the tolerance; not compared with float64)"
	}
	if res.Note != "" {
		said = res.Note
	}
	switch {
	case res.Verified && len(res.NotRun)+len(res.Empty) > 0:
		a.printf("verified: in part: %s\n", said)
		if len(res.NotRun) > 0 {
			a.printf("not run:  %s\n", res.hiddenText())
		}
		if len(res.Empty) > 0 {
			a.printf("not compared: %s: empty or NaN with all inputs tried; others can be given with --input or --data\n", someOf(res.Empty))
			if len(res.Selected) > 0 {
				a.printf("compared instead: %s: what is selected from; what follows the selections is not verified\n", someOf(res.Selected))
			}
		}
		a.printf("written:  %s\n", written)
	case res.Verified:
		a.printf("verified: %s\nwritten:  %s\n", said, written)
	default:
		a.printf("written:  %s (not verified)\n", written)
	}
	if len(res.Ties) > 0 {
		a.printf("near ties: %d decided otherwise than in the original: %s; what they select from is the same, and with what the original selects so is all else\n", len(res.Ties), someOf(res.Ties))
	}
}

// opsetOf is the version of the default operator set that a model imports.
func opsetOf(m *berth.Model) int {
	for _, o := range m.Metadata().Opsets {
		if o.Domain == "" {
			return o.Version
		}
	}
	return 0
}

// opsetText says which operator set the result imports, what raised it, and what a newer one would allow.
func (res *optimizeJSON) opsetText() string {
	text := fmt.Sprint(res.Opset)
	switch {
	case res.Raised != "":
		text = fmt.Sprintf("%d -> %d, needed by %s", res.OpsetBefore, res.Opset, res.Raised)
	case res.Opset == res.OpsetBefore:
		text += " kept"
	case res.OpsetBefore > 0:
		text = fmt.Sprintf("%d -> %d", res.OpsetBefore, res.Opset)
	}
	if len(res.Withheld) == 0 {
		return text
	}
	var more []string
	for _, w := range res.Withheld {
		more = append(more, fmt.Sprintf("--max-opset %d fuses %d more %s", w.Opset, w.Count, w.Op))
	}
	return text + "; " + strings.Join(more, ", ")
}

// inputsText lists the shapes of the inputs for which outputs were compared, those of the table first.
func (res *optimizeJSON) inputsText() string {
	texts := []string{allShapesText(res.Shapes)}
	together := res.Tried
	if len(res.single) > 0 {
		together = together[:res.together]
	}
	for _, shapes := range together {
		if text := allShapesText(shapes); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}

// refusedText names the first inputs with which the original does not run, and why.
func refusedText(all []refusal) string {
	const most, length = 3, 160
	var texts []string
	for _, r := range all[:min(len(all), most)] {
		why := []rune(r.Why)
		if len(why) > length {
			why = append(why[:length], '…')
		}
		texts = append(texts, fmt.Sprintf("%s (%s)", r.Inputs, string(why)))
	}
	if len(all) > most {
		texts = append(texts, fmt.Sprintf("%d more (--json lists them)", len(all)-most))
	}
	return strings.Join(texts, "; ")
}

func dash(n int64, show func(int64) string) string {
	if n == 0 {
		return "-"
	}
	return show(n)
}
