package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/safefile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/train"
)

type compareFlags struct {
	instance string
	capacity int64
	run      bool
	csv      bool
	markdown bool
	rules    bool
	tape     bool
	inPlace  string
	budget   time.Duration
	write    string
	train    string
	output   string // that the loss of --train is of
	backend  string

	budgetGiven bool   // so that searches may use all of it
	advice      string // on values without a size
}

// compareLong is the help text of compare.
const compareLong = "Compare plans the model with every planner (or the one given by --planner) and prints the arena,\n" +
	"its gap to the proven lower bound, the planning time and the bytes copied per loop iteration.\n" +
	"Every plan is verified twice before it is printed: by geometry, and by replaying the program.\n" +
	"Without --schedule the order is the one that needs least (min-peak), or the file's where that is\n" +
	"as good; --schedule all tries every order, --rules the file's too. --in-place both adds the same without results\n" +
	"written over operands. (naive never lets two tensors share.)\n" +
	"A plan that is safe in any order stays right when the nodes run in another order, or\n" +
	"independent ones at the same time; --parallel-safe makes such plans.\n" +
	"The arena holds intermediates and outputs, 64-byte aligned, in the model's own layout; inputs,\n" +
	"weights and kernels' workspace are not in it. --run compiles the model under each planner, fuses\n" +
	"operators, runs it, and prints the arena that program holds, workspace included, and how far the\n" +
	"run really wrote into it.\n" +
	"--tape-machine also makes the model one of Gorgonia's expression graphs and measures passes in\n" +
	"Gorgonia's tapeMachine and in the planned machine of this module, the kernels being the same.\n" +
	"--backend cuda, or cuda-sim where there is no GPU, plans the arena on the device instead, of the program that runs there: operators\n" +
	"joined in kernels, workspaces included. Both verifiers judge that; with --run and cuda-sim the interpreter of PTX does too.\n" +
	"A bare instance counts bytes as given; its columns are id, lower, upper, size and, if need be,\n" +
	"alignment and gaps.\n" +
	"--train compares a step of training with a loss, within budgets of memory: what of the forward pass is not kept\n" +
	"is computed again in the backward pass.\n" +
	"A planner that exceeds its time (--budget) gives its best plan until then, marked as cut."

func (a *app) compareCmd() *cobra.Command {
	var f compareFlags
	c := &cobra.Command{Use: "compare MODEL | --instance FILE.csv", Short: "Compare peak memory across planners",
		Long: compareLong,
		Example: "  berth compare model.onnx --shape x=1x3x224x224\n  berth compare model.onnx --train cross-entropy --of scores\n  berth compare model.onnx --schedule all --in-place both --rules --run --csv > planners.csv\n" +
			"  berth compare --instance D.csv --capacity 1048576",
		Args: func(_ *cobra.Command, args []string) error {
			if (f.instance == "") != (len(args) == 1) {
				return usagef("compare takes one model, or --instance FILE.csv")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			f.budgetGiven = c.Flags().Changed("budget")
			if err := f.check(a, c.Flags().Changed("in-place")); err != nil {
				return err
			}
			switch {
			case f.train != "":
				return atModel(args[0], a.compareTraining(c.Context(), args[0], f))
			case f.instance != "":
				return a.compareInstance(c.Context(), f)
			}
			return atModel(args[0], a.compare(c.Context(), args[0], f))
		}}
	c.Flags().StringVar(&f.instance, "instance", "", "plan a bare instance: CSV with id,lower,upper,size")
	c.Flags().Int64Var(&f.capacity, "capacity", 0, "bytes an instance should fit into")
	c.Flags().BoolVar(&f.run, "run", false, "also run the model under each planner, compare outputs, and measure the arena bytes written to")
	c.Flags().BoolVar(&f.rules, "rules", false, "add rows without in-place results and without views, and for the published rules of other tools")
	c.Flags().BoolVar(&f.tape, "tape-machine", false, "add rows for the model in Gorgonia's tapeMachine and in the planned machine: live bytes and time of a pass")
	c.Flags().StringVar(&f.inPlace, "in-place", "on", "results over operands, and operands made inside concatenations: on, off or both")
	c.Flags().DurationVar(&f.budget, "budget", defaultBudget, "time for each planner; 0 is as long as it takes; exact uses all that is given, by default a fixed amount of work")
	c.Flags().StringVar(&f.train, "train", "", "compare a step of training instead, with a loss: "+strings.Join(slices.Sorted(maps.Keys(losses)), ", "))
	outputFlag(c, &f.output, "output that the loss of --train is of")
	a.backendFlags(c, &f.backend)
	c.Flags().StringVar(&f.write, "write-instance", "", "also write the model's placement problem, with a plan, as an instance file")
	c.Flags().BoolVar(&f.csv, "csv", false, "print comma-separated values with a header line")
	c.Flags().BoolVar(&f.markdown, "markdown", false, "print a Markdown table")
	a.dataFlag(c)
	return c
}

// check reports incompatible flags.
func (f *compareFlags) check(a *app, inPlaceGiven bool) error {
	bare := f.instance != ""
	switch {
	case bare && a.parallelSafe:
		return usagef("--parallel-safe needs a model: a bare instance has one order only")
	case !slices.Contains([]string{"on", "off", "both"}, f.inPlace):
		return usagef("--in-place %q: want on, off or both", f.inPlace)
	case bare && (f.run || f.rules || f.tape || inPlaceGiven):
		return usagef("--run, --rules, --tape-machine and --in-place need a model: a bare instance has no operators")
	case f.write != "" && (bare || a.parallelSafe):
		return usagef("--write-instance needs a model and its live ranges in one order, so neither --instance nor --parallel-safe")
	case f.train != "" && (bare || f.run || f.rules || f.tape || inPlaceGiven || f.write != "" || f.csv || f.markdown || a.parallelSafe || a.schedule == "all"):
		return usagef("--train compares planners and budgets of a model's step; it takes none of the flags that choose other rows or forms")
	case f.train != "" && losses[f.train] == nil:
		return unknownChoice("train", f.train, slices.Sorted(maps.Keys(losses)))
	case f.write != "" && f.backend != "cpu":
		return usagef("--write-instance writes the model's own placement problem, which no backend changes; leave --backend out")
	case f.capacity < 0 || f.capacity > 0 && !bare:
		return usagef("--capacity %d: want bytes, for a bare instance (--instance)", f.capacity)
	case f.budget < 0:
		return usagef("--budget %v is negative", f.budget)
	case f.csv && f.markdown || a.json && (f.csv || f.markdown):
		return usagef("only one of --json, --csv and --markdown can be printed")
	}
	return a.checkBackend(f.backend)
}

// defaultBudget is the time each planner gets. Only on problems of tens of thousands
// of buffers some need more.
const defaultBudget = 10 * time.Second

// compareOptions chooses the rows by --planner and --schedule. done ends the
// progress bar.
func (a *app) compareOptions(f compareFlags) (co berth.CompareOptions, done func()) {
	planners, orders := 1, 1
	co.Others, co.Budget, co.Workspace, co.Exhaustive = f.rules, f.budget, true, f.budgetGiven
	co.InPlace = map[string][]bool{"on": {true}, "off": {false}, "both": {true, false}}[f.inPlace]
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
	bar := a.newProgress(planners * orders * max(1, len(co.InPlace)))
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
	co, done := a.compareOptions(f)
	defer done()
	shared := *a // every planner and order is asked for by itself
	shared.planner, shared.schedule = "", ""
	m, have, opts, err := a.loadSized(ctx, model, shared, f.write)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := a.checkSeed(m, have); err != nil {
		return err
	}
	from, err := a.originOf(model, m, have) // before what may be interrupted: rows that are done are printed
	if err != nil {
		return err
	}
	rows, err := m.Compare(ctx, co, append(opts, a.on(f.backend)...)...)
	done()
	if err != nil && (ctx.Err() == nil || len(rows) == 0) {
		return err
	}
	out := newRows(rows)
	if f.write != "" && ctx.Err() == nil {
		if err := a.writeInstance(ctx, m, co, append(opts, berth.WithSchedule(out[0].Schedule)), f); err != nil {
			return err
		}
	}
	if f.run && ctx.Err() == nil {
		if err := a.runRows(ctx, m, have, out, f.backend); err != nil {
			return err
		}
	}
	if f.tape && ctx.Err() == nil {
		if err := a.machineRows(ctx, m, have, &out); err != nil {
			return err
		}
	}
	if !a.guessed {
		f.advice = a.sizeAdvice(m, have)
	}
	a.ending.printing.Lock()
	defer a.ending.printing.Unlock()
	if err := a.report(from, out, f); err != nil {
		return err
	}
	return ctx.Err()
}

// sized adds sizes for open dimensions: the first of real inputs with which shapes can be inferred.
func (a *app) sized(ctx context.Context, m *berth.Model, have map[string]ndarray.Value, opts []berth.Option) ([]berth.Option, error) {
	cases := a.realisticSizes(m, have)
	if len(cases) < 2 { // nothing is open
		return opts, nil
	}
	for _, c := range cases {
		bound := append(shapeOptions(c.shapes), opts...)
		if _, err := m.Folded(ctx, bound...); err == nil {
			a.noteSizes(c.shapes)
			a.guessed = true
			return bound, nil
		}
	}
	return opts, ctx.Err()
}

// loadSized opens a model with the options of other flags, and sizes for what is open.
func (a *app) loadSized(ctx context.Context, model string, flags app, outputs ...string) (*berth.Model, map[string]ndarray.Value, []berth.Option, error) {
	opts, err := flags.options(outputs...)
	if err != nil {
		return nil, nil, nil, err
	}
	a.dump, a.outputs = flags.dump, flags.outputs
	m, have, err := a.load(model, false)
	if err != nil {
		return nil, nil, nil, err
	}
	if opts, err = a.sized(ctx, m, have, append(shapesIn(have), opts...)); err != nil {
		m.Close()
		return nil, nil, nil, err
	}
	return m, have, opts, nil
}

// writeInstance writes the placement problem of the first order compared.
func (a *app) writeInstance(ctx context.Context, m *berth.Model, co berth.CompareOptions, opts []berth.Option, f compareFlags) error {
	if len(co.Planners) > 0 {
		opts = append(opts, berth.WithPlanner(co.Planners[0]))
	}
	if !co.InPlace[0] {
		opts = append(opts, berth.WithoutInPlace())
	}
	return safefile.Write(f.write, func(w io.Writer) error { return m.WriteInstance(ctx, w, opts...) })
}

func (a *app) compareInstance(ctx context.Context, f compareFlags) error {
	if err := a.checkChoices(true); err != nil {
		return err
	}
	file, err := conformance.OpenRegular(f.instance)
	if err != nil {
		return modelError(f.instance, err)
	}
	defer file.Close()
	co, done := a.compareOptions(f)
	rows, err := berth.CompareInstance(a.memory.In(ctx), f.instance, file, co)
	done()
	if err != nil && (ctx.Err() == nil || len(rows) == 0) {
		return modelError(f.instance, err)
	}
	out, none := newRows(rows), false
	if f.capacity > 0 {
		fits := false
		for i := range out {
			keeps := out[i].Err == nil && out[i].ArenaBytes <= f.capacity
			out[i].Fits = &keeps
			fits = fits || keeps
		}
		none = !fits
	}
	from, err := a.originOf(f.instance, nil, nil)
	if err != nil {
		return err
	}
	if err := a.report(from, out, f); err != nil {
		return err
	}
	if none && ctx.Err() == nil {
		return differs(fmt.Errorf("%s: no planner fits %d bytes", f.instance, f.capacity))
	}
	return ctx.Err()
}

// runRows runs the model once per row and compares outputs with the first.
func (a *app) runRows(ctx context.Context, m *berth.Model, have map[string]ndarray.Value, rows planRows, backend string) error {
	shapes := a.bindShapes(m, have)
	in, err := a.randomInputs(m, shapes, have)
	if err != nil {
		return err
	}
	a.tellDrawn(m, have, in)
	var want map[string]ndarray.Value
	for i := range rows {
		r := &rows[i]
		how, runs := r.Options()
		if r.Err != nil || !runs {
			continue
		}
		got, p, s, err := runPlanned(ctx, m, in, true, slices.Concat(shapeOptions(shapes), how, a.kernels(), a.on(backend)))
		if p != nil {
			r.ProgramBytes = p.Plan().ArenaBytes
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			r.RunErr = err
			continue
		case want == nil:
			want = map[string]ndarray.Value{}
			for name, v := range got { // copies, so that the arena need not be kept
				want[name] = ndarray.CloneValue(v)
			}
		}
		if r.Backend == "" { // a device's arena is not that of the host
			r.WrittenBytes = s.Written()
		}
		r.compare(m, got, want)
	}
	return nil
}

// compare says whether the outputs of a row's run are those wanted.
func (r *planRow) compare(m *berth.Model, got, want map[string]ndarray.Value) {
	r.Outputs = "same outputs"
	for _, o := range m.Outputs() {
		if d := conformance.Compare(got[o.Name], want[o.Name], conformance.Tolerance{Rtol: 1e-3, Atol: 1e-5}); d != nil {
			r.Outputs, r.Differ = fmt.Sprintf("differ: %s: %v", o.Name, d), true
		}
	}
}

// runPlanned compiles the model and runs it once in an arena of its own, filled with garbage if poison is set. The
// outputs are in the session's arena.
func runPlanned(ctx context.Context, m *berth.Model, in map[string]ndarray.Value, poison bool, opts []berth.Option) (map[string]ndarray.Value, *berth.Program, *berth.Session, error) {
	p, err := m.Compile(ctx, opts...)
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := p.NewSessionContext(ctx)
	if err != nil {
		return nil, p, nil, err
	}
	s.Poison(poison)
	out, err := s.RunValues(ctx, in)
	return out, p, s, err
}

// report prints the rows in the form asked for; outputs that differ are an error
// with exit code 3.
func (a *app) report(from origin, rows planRows, f compareFlags) error {
	var err error
	s := shown{instance: f.instance != "", capacity: f.capacity > 0, inPlace: f.inPlace != "on", run: f.run, rules: f.rules, machines: f.tape, budget: f.budget, advice: f.advice,
		ordered: slices.ContainsFunc(rows, func(r planRow) bool { return r.OrderBound > 0 }),
		moved:   a.schedule == "" && slices.ContainsFunc(rows, func(r planRow) bool { return r.Schedule == berth.Schedules()[0] })}
	switch {
	case a.json:
		out := struct {
			origin
			Planners planRows     `json:"planners"`
			Rules    []berth.Rule `json:"rules,omitempty"`
		}{origin: from, Planners: rows}
		if f.rules {
			out.Rules = berth.Rules()
		}
		err = a.printJSON(out)
	case f.csv:
		err = rows.csv(a.out, &from)
	case f.markdown:
		rows.table(a.out, s).RenderMarkdown()
		a.printf("\n%s\n", from.markdown())
	default:
		rows.print(a.out, s)
	}
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.Differ {
			return differs(fmt.Errorf("%s: planner %s: outputs %s", from.Model, r.Planner, r.Outputs))
		}
	}
	return rows.noneRan()
}

// trainRow is a step of training planned by one planner within one budget.
type trainRow struct {
	Planner     string `json:"planner"`
	Budget      int64  `json:"budget_bytes"` // 0: none
	ArenaBytes  int64  `json:"arena_bytes"`
	Activations int64  `json:"activation_bytes"` // in it, as [train.Trainer.Activations] counts them
	LowerBound  int64  `json:"lower_bound_bytes"`
	Proven      bool   `json:"proven"`
	Kept        string `json:"kept"` // from the forward pass to the backward pass
	Error       string `json:"error"`
}

// trainRowsJSON is the object printed by compare --train.
type trainRowsJSON struct {
	Model    string     `json:"model"`
	Loss     string     `json:"loss"`
	Of       string     `json:"of,omitempty"` // with --of
	Training []trainRow `json:"training"`
}

// trainBudgets are the budgets of a planner's rows, by the row without one: the arena less a half of its activations, and half the arena. The least
// arena that was found comes after them.
func trainBudgets(free trainRow) []int64 {
	return []int64{max(1, free.ArenaBytes-free.Activations/2), max(1, free.ArenaBytes/2)}
}

// compareTraining plans steps by every planner, or the one given, without a budget and within ever smaller ones.
func (a *app) compareTraining(ctx context.Context, model string, f compareFlags) error {
	planners := berth.Planners()
	if a.planner != "" && a.planner != "all" {
		planners = []string{a.planner}
	}
	shared := *a
	shared.planner = ""
	m, _, opts, err := a.loadSized(ctx, model, shared)
	if err != nil {
		return err
	}
	defer m.Close()
	bar := a.newProgress(len(planners) * (2 + len(trainBudgets(trainRow{}))))
	defer bar.done()
	var rows []trainRow
	for _, p := range planners {
		o := train.Options{Loss: losses[f.train], Output: f.output, Compile: append(opts[:len(opts):len(opts)], berth.WithPlanner(p))}
		more, err := trainRows(ctx, m, p, o, bar)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	bar.done()
	if a.json {
		return a.printJSON(trainRowsJSON{model, f.train, f.output, rows})
	}
	t := newTable(a.out, "planner", "budget", "arena", "bytes", "activations", "over bound", "kept")
	for _, r := range rows {
		budget, over, kept := "none", "", r.Kept
		if r.Budget > 0 {
			budget = bytesText(r.Budget)
		}
		if r.Error != "" {
			t.AppendRow([]any{r.Planner, budget, "", "", "", "", r.Error})
			continue
		}
		if r.LowerBound > 0 {
			over = fmt.Sprintf("%.2f %%", 100*(float64(r.ArenaBytes)/float64(r.LowerBound)-1))
		}
		if r.Budget == 0 {
			kept = "all"
		}
		t.AppendRow([]any{r.Planner, budget, bytesText(r.ArenaBytes), r.ArenaBytes, r.Activations, over, kept})
	}
	t.Render()
	return nil
}

// trainRows are the rows of a planner.
func trainRows(ctx context.Context, m *berth.Model, planner string, o train.Options, bar *progress) (rows []trainRow, err error) {
	plan := func(budget int64) (row trainRow, short *train.BudgetError, err error) {
		bar.step(fmt.Sprintf("%s, budget %d", planner, budget))
		o.Budget = budget
		t, err := train.New(ctx, m, o)
		row = trainRow{Planner: planner, Budget: budget}
		if errors.As(err, &short) {
			row.Error = err.Error()
			return row, short, nil
		}
		if err == nil {
			p := t.Plan()
			row.ArenaBytes, row.Activations, row.LowerBound, row.Proven, row.Kept = p.ArenaBytes, t.Activations(), p.LowerBound, p.Proven, t.Kept()
		}
		return row, nil, err
	}
	free, _, err := plan(0)
	if err != nil {
		return nil, err
	}
	rows = append(rows, free)
	least := int64(0)
	for _, budget := range trainBudgets(free) {
		row, short, err := plan(budget)
		if err != nil {
			return nil, err
		}
		if short != nil {
			least = short.Least
		}
		rows = append(rows, row)
	}
	if least == 0 {
		_, short, err := plan(1)
		if err != nil || short == nil {
			return rows, err
		}
		least = short.Least
	}
	row, _, err := plan(least)
	return append(rows, row), err
}
