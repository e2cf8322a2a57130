package berth

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/program"
	"github.com/berth-onnx/berth/rewrite"
	"github.com/berth-onnx/berth/schedule"
	"github.com/berth-onnx/berth/ssa"
)

// PlanRow is one plan of a comparison: a planner's, or that of another tool's rule, for one order of the nodes.
type PlanRow struct {
	Planner  string // with what it was without: "auto without views"
	Schedule string
	// Rule: the plan follows the published rule of another tool; see [Rules].
	Rule bool
	// InPlace: results may lie over operands that die, and inside concatenations.
	// It is false for the planner "naive", which never lets two tensors share.
	InPlace    bool
	ArenaBytes int64 // intermediates and outputs, 64-byte aligned, no workspace
	Buffers    int   // pieces of memory that were placed
	Scratch    int64 // the largest kernel workspace; see [CompareOptions]
	LowerBound int64
	Proven     bool
	// OrderBound: no plan needs less in any order of the nodes. 0 if that was not
	// searched for: in rows that are not in place, and without the order "min-peak".
	OrderBound int64
	PlanNanos  int64
	// Cut: the planner's time was over before it was done. The plan is its best by
	// then, judged like any other, and another machine may find another.
	Cut bool
	// By is the planner that the plan comes from where that is another one: of auto,
	// which runs several, and of planners that were cut before they had a plan.
	By string
	// LoopCopyBytes is what one iteration of a loop copies, the largest loop's.
	LoopCopyBytes int64
	// ParallelSafe: the plan holds for every order of the nodes, and when
	// independent nodes run at the same time.
	ParallelSafe bool
	Dynamic      int // values whose size is known only while running
	// Unsound says what is overwritten too early in a plan made by another tool's
	// rule; empty if its replay finds nothing. Plans of berth's are errors then.
	Unsound string
	Err     error

	problem      int    // rows of one number plan the same blocks under the same order
	name         string // of the planner; "" for a rule
	copyViews    bool
	parallelSafe bool
}

// Options returns the options under which a program has the memory plan of a model's row; a rule of another tool has none.
func (r PlanRow) Options() (opts []Option, runs bool) {
	if r.Rule {
		return nil, false
	}
	opts = []Option{WithPlanner(r.name), WithSchedule(r.Schedule)}
	if !r.InPlace {
		opts = append(opts, WithoutInPlace())
	}
	if r.copyViews {
		opts = append(opts, WithoutViews())
	}
	if r.parallelSafe {
		opts = append(opts, WithParallelSafe())
	}
	return opts, true
}

// CompareOptions chooses the rows of a comparison.
type CompareOptions struct {
	Planners  []string // nil: all
	Schedules []string // nil: the default, which is called "file" where it leaves the file's order
	InPlace   []bool   // with or without in-place results, or one after the other; nil: with
	// Progress, if set, is told which row is being computed.
	Progress func(planner, schedule string)
	// Others adds rows for berth without in-place results, without views, and for
	// the published rules of other tools; see [Rules].
	Others bool
	// Budget bounds each planner's time; 0 is none. What a planner finds does not
	// depend on the time it takes unless that is over; see [PlanRow.Cut].
	Budget time.Duration
	// Workspace asks for [PlanRow.Scratch], for which every kernel is prepared once.
	Workspace bool
}

// Compare plans the model, as it is but with known shapes folded, with several
// planners. Each plan is judged twice before it is reported, by geometry and by
// replaying the program. With [WithParallelSafe] the
// plans are made for every order of the nodes at once, and so are the bounds: the
// heaviest set of values that some order has live together.
func (m *Model) Compare(ctx context.Context, co CompareOptions, opts ...Option) ([]PlanRow, error) {
	c := newConfig(opts)
	if co.InPlace == nil {
		co.InPlace = []bool{!c.noInPlace}
	}
	t := newComparison(ctx, co, c)
	orders, err := t.orders(m)
	if err != nil {
		return nil, err
	}
	for i, sched := range orders {
		g, err := t.graph(m, sched)
		if err != nil {
			return nil, err
		}
		if i == 0 && co.Workspace {
			if t.scratch, err = c.workspace(ctx, g); err != nil {
				return nil, err
			}
		}
		if err := t.order(g, sched); err != nil {
			return t.finish(), err
		}
	}
	return t.finish(), nil
}

// orders lists the orders to compare: those asked for, or else the default. Where that
// leaves the file's order, it goes by that name; where it does not, the file's order
// goes before it if there are rows for other tools, which plan that one.
func (t *comparison) orders(m *Model) ([]string, error) {
	switch {
	case t.co.Schedules != nil:
		return t.co.Schedules, nil
	case t.c.parallelSafe: // one plan for all orders
		return []string{fileOrder}, nil
	}
	searched, err := t.graph(m, Schedules()[0])
	if err != nil {
		return nil, err
	}
	file, err := t.graph(m, fileOrder)
	switch {
	case err != nil:
		return nil, err
	case sameOrder(file, searched):
		return []string{fileOrder}, nil
	case t.co.Others:
		return []string{fileOrder, Schedules()[0]}, nil
	}
	return Schedules()[:1], nil
}

// graph returns the model in an order, made once.
func (t *comparison) graph(m *Model, sched string) (*ssa.Graph, error) {
	if g := t.graphs[sched]; g != nil {
		return g, nil
	}
	g, best, err := m.foldedGraph(t.ctx, &t.c, sched)
	if err != nil {
		return nil, err
	}
	if best != nil {
		t.best = best
	}
	t.graphs[sched] = g
	return g, nil
}

// comparison gathers rows.
type comparison struct {
	ctx      context.Context
	co       CompareOptions
	c        config
	scratch  int64
	graphs   map[string]*ssa.Graph // by order
	problems int                   // so far
	best     *schedule.Result      // of the search for the best order, if there was one
	rows     []PlanRow
}

func newComparison(ctx context.Context, co CompareOptions, c config) *comparison {
	if co.Planners == nil {
		co.Planners = Planners()
	}
	return &comparison{ctx: ctx, co: co, c: c, graphs: map[string]*ssa.Graph{}}
}

// naive is the planner that gives everything memory of its own.
const naive = "naive"

// order adds the rows of one order of the nodes.
func (t *comparison) order(g *ssa.Graph, sched string) error {
	for k, inPlace := range t.co.InPlace {
		how := t.c
		how.noInPlace = !inPlace
		prob, base, err := t.problem(g, sched, how)
		if err != nil {
			return err
		}
		for _, name := range t.co.Planners {
			switch {
			case name != naive:
				err = t.plan(name, prob, base)
			case k == 0: // in place or not is nothing to it
				err = t.unshared(g, sched, base.problem)
			}
			if err != nil {
				return err
			}
		}
	}
	if t.co.Others {
		return t.others(g, sched)
	}
	return nil
}

// problem lays a graph out. The row has what all its plans share.
func (t *comparison) problem(g *ssa.Graph, sched string, how config) (placing, PlanRow, error) {
	prob, row, err := planProblem(g, &how)
	row.Schedule, row.Scratch, row.problem = sched, t.scratch, t.problems
	t.problems++
	return prob, row, err
}

// plan adds the row of one planner. Its error is a cancellation.
func (t *comparison) plan(name string, prob placing, row PlanRow) error {
	row.name, row.Planner = name, name+row.Planner
	return t.timed(row, func(ctx context.Context, row *PlanRow) error { return prob.plan(ctx, row) })
}

// timed adds a row with what fill puts into it, in at most the planner's time, and the time it took.
func (t *comparison) timed(row PlanRow, fill func(ctx context.Context, row *PlanRow) error) error {
	if t.co.Progress != nil {
		t.co.Progress(row.Planner, row.Schedule)
	}
	ctx, cancel := t.ctx, func() {}
	if t.co.Budget > 0 {
		ctx, cancel = context.WithTimeout(ctx, t.co.Budget)
	}
	row.Err = fill(ctx, &row)
	cancel()
	t.rows = append(t.rows, row)
	return t.ctx.Err()
}

// unshared adds the row in which every tensor, views and in-place results included, has memory of its own. The bound of the
// folded problem, whose number is given, holds for it, too.
func (t *comparison) unshared(g *ssa.Graph, sched string, folded int) error {
	prob, row, err := t.problem(g, sched, config{noInPlace: true, noMerge: true, copyViews: true, parallelSafe: t.c.parallelSafe})
	if err != nil {
		return err
	}
	err = t.plan(naive, prob, row)
	last := &t.rows[len(t.rows)-1]
	last.LowerBound, last.Proven, last.problem = 0, false, folded
	return err
}

// finish puts bounds into the rows that they hold for: what no order can do without, and for plans of the same blocks in the
// same order the best bound that any planner proved.
func (t *comparison) finish() []PlanRow {
	best := map[int]int64{}
	for i := range t.rows {
		r := &t.rows[i]
		if t.best != nil && !t.c.parallelSafe && r.InPlace && !r.copyViews && !r.Rule && r.LowerBound > 0 {
			r.OrderBound = t.best.LowerBound
		}
		if r.Err == nil && !r.Rule {
			best[r.problem] = max(best[r.problem], r.LowerBound)
		}
	}
	for i := range t.rows {
		if r := &t.rows[i]; r.Err == nil && !r.Rule {
			r.LowerBound = best[r.problem]
			r.Proven = r.ArenaBytes == r.LowerBound
		}
	}
	return t.rows
}

// fileOrder is the schedule that leaves a model as it is.
const fileOrder = "file"

// sameOrder reports whether two copies of a model run their nodes in one order.
func sameOrder(a, b *ssa.Graph) bool {
	ids := func(g *ssa.Graph) (out []int) {
		g.Walk(func(g *ssa.Graph) {
			for _, n := range g.Nodes {
				out = append(out, n.ID)
			}
		})
		return out
	}
	return slices.Equal(ids(a), ids(b))
}

// others adds the rows that are no planner of berth's on its own problem: the default planner with a part of the folding
// switched off, which shows what that part saves, and the rules of other tools.
func (t *comparison) others(g *ssa.Graph, sched string) error {
	without := func(part string, how config) error {
		prob, row, err := t.problem(g, sched, how)
		if err != nil {
			return err
		}
		row.Planner = " without " + part
		return t.plan(DefaultPlanner(), prob, row)
	}
	noInPlace, noViews := t.c, t.c
	noInPlace.noInPlace, noViews.copyViews = true, true
	if !slices.Contains(t.co.InPlace, false) {
		if err := without("in-place", noInPlace); err != nil {
			return err
		}
	}
	if err := without("views", noViews); err != nil {
		return err
	}
	dynamic := t.rows[len(t.rows)-1].Dynamic
	for _, r := range Rules() {
		row := PlanRow{Planner: r.Name, Schedule: sched, Rule: true, InPlace: r.tool.InPlace(), Dynamic: dynamic}
		if err := t.timed(row, func(ctx context.Context, row *PlanRow) error { return r.plan(ctx, g, row) }); err != nil {
			return err
		}
	}
	return nil
}

// foldedGraph binds, folds what shapes determine, and orders. best is what the
// search for an order says, nil for orders that are not searched for.
func (m *Model) foldedGraph(ctx context.Context, c *config, sched string) (g *ssa.Graph, best *schedule.Result, err error) {
	bound, err := m.bind(c)
	if err != nil {
		return nil, nil, err
	}
	if _, err := rewrite.Run(ctx, bound, rewrite.Options{List: &rewrite.Runtime, Only: foldingOnly, Check: c.check, MaxOpset: -1}); err != nil {
		return nil, nil, err
	}
	best, err = schedule.Apply(ctx, bound.Graph, sched)
	return bound.Graph, best, err
}

// workspace is the most that one kernel of the chosen backend needs beside its
// operands and results. It depends on neither order nor planner.
func (c *config) workspace(ctx context.Context, g *ssa.Graph) (int64, error) {
	be, err := c.backendOf()
	if err != nil {
		return 0, err
	}
	return program.Workspace(ctx, g, be, c.threads, c.maxMemory), nil
}

// placing is the planning problem of a graph, and the second verifier of its plans, after geometry: the program is replayed
// with them. It also says whether a plan holds for every order.
type placing struct {
	*planner.Problem
	verify func(*planner.Solution) (parallelSafe bool, err error)
}

// planProblem states the placing of a graph without kernels. In the row is what
// all plans of the problem share.
func planProblem(g *ssa.Graph, c *config) (placing, PlanRow, error) {
	lo, fo := liveness.Options{CopyViews: c.copyViews, AnyOrder: c.parallelSafe}, inplace.Options{NoInPlace: c.noInPlace, NoMerge: c.noMerge}
	st, err := inplace.State(g, lo, fo)
	if err != nil {
		return placing{}, PlanRow{}, err
	}
	row := PlanRow{LoopCopyBytes: st.Timeline.CopiesPerTrip(), Dynamic: st.Timeline.Dynamic(), InPlace: !c.noInPlace, copyViews: c.copyViews, parallelSafe: c.parallelSafe}
	return placing{st.Problem, func(s *planner.Solution) (bool, error) {
		offsets, _, err := st.OffsetsOf(s)
		if err != nil {
			return false, err
		}
		err = program.JudgeParallel(st.Timeline, offsets, s.ArenaBytes)
		if err == nil || c.parallelSafe {
			return err == nil, err
		}
		return false, program.Judge(st.Timeline, offsets, s.ArenaBytes)
	}}, row, nil
}

// disjoint reports whether no two buffers share bytes: of a bare instance, whose
// graph is not known, only such a plan surely holds for every order.
func disjoint(p *planner.Problem, s *planner.Solution) bool {
	ids := make([]int, 0, len(p.Buffers))
	for i, b := range p.Buffers {
		if b.Size > 0 {
			ids = append(ids, i)
		}
	}
	slices.SortFunc(ids, func(a, b int) int { return cmp.Compare(s.Offsets[a], s.Offsets[b]) })
	for k := range len(ids) - 1 {
		if s.Offsets[ids[k]]+p.Buffers[ids[k]].Size > s.Offsets[ids[k+1]] {
			return false
		}
	}
	return true
}

// plan plans with the row's planner and verifies the plan.
func (s placing) plan(ctx context.Context, row *PlanRow) error {
	pl, err := planner.Get(row.name)
	if err != nil {
		return err
	}
	start := time.Now()
	sol, err := pl.Plan(ctx, s.Problem)
	row.PlanNanos, row.Cut = time.Since(start).Nanoseconds(), ctx.Err() != nil
	if err == nil {
		err = planner.Validate(s.Problem, sol)
	}
	if err == nil {
		row.ParallelSafe, err = s.verify(sol)
	}
	if err != nil {
		return err
	}
	row.Buffers = len(s.Buffers)
	row.ArenaBytes, row.LowerBound, row.Proven = sol.ArenaBytes, sol.LowerBound, sol.Proven()
	row.Cut = row.Cut && !row.Proven
	if w := sol.Stats.Winner; w != row.name {
		row.By = w
	}
	return nil
}

// WriteInstance writes the placing of the model's values, as [Model.Compare] states it
// for the chosen order (without a choice, the file's), as an instance file, with the
// offsets of the chosen planner's plan. Other tools read these files, and so does
// [CompareInstance]. A placing for every order at once has no such form.
func (m *Model) WriteInstance(ctx context.Context, w io.Writer, opts ...Option) error {
	c := newConfig(opts)
	if c.parallelSafe {
		return fmt.Errorf("an instance file has lives in one order; plans for every order need none")
	}
	if c.schedule == "" {
		c.schedule = fileOrder
	}
	g, _, err := m.foldedGraph(ctx, &c, c.schedule)
	if err != nil {
		return err
	}
	prob, _, err := planProblem(g, &c)
	if err != nil {
		return err
	}
	pl, err := c.plannerOf()
	if err != nil {
		return err
	}
	sol, err := pl.Plan(ctx, prob.Problem)
	if err != nil {
		return err
	}
	return planner.WriteCSV(w, prob.Problem, sol.Offsets)
}

// CompareInstance plans a bare instance with several planners. Bytes count as
// given; a buffer's alignment and the points at which it holds nothing are kept.
// What a bare instance does not tell (orders, in place, loops) is left zero.
func CompareInstance(ctx context.Context, name string, r io.Reader, co CompareOptions) ([]PlanRow, error) {
	p, _, err := planner.ReadCSV(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	prob := placing{p, func(s *planner.Solution) (bool, error) { return disjoint(p, s), nil }}
	t := newComparison(ctx, co, config{})
	for _, name := range t.co.Planners {
		if err := t.plan(name, prob, PlanRow{Schedule: "given"}); err != nil {
			return t.finish(), err
		}
	}
	return t.finish(), nil
}
