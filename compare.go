package berth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/internal/schedule"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
)

// PlanRow is one plan of a comparison: a planner's, or that of another tool's rule, for one order of the nodes.
type PlanRow struct {
	Planner  string // with what it was without: "auto without views"
	Schedule string
	// Rule: the plan follows the published rule of another tool; see [Rules].
	Rule bool
	// InPlace: results may lie over operands at their last use, and inside concatenations.
	// It is false for the planner "naive", which never lets two tensors share.
	InPlace    bool
	ArenaBytes int64 // intermediates and outputs, 64-byte aligned, no workspace
	Buffers    int   // pieces of memory that were placed
	Scratch    int64 // the largest kernel workspace; see [CompareOptions]
	// Backend is the device whose arena is planned, that of the program which runs there: operators joined
	// in kernels, workspaces included. Empty for the model's own plan.
	Backend    string
	LowerBound int64
	Proven     bool
	// OrderBound: no plan needs less in any order of the nodes. 0 if that was not
	// searched for: in rows that are not in place, and without the order "min-peak".
	OrderBound int64
	PlanNanos  int64
	// Cut: the planner ran out of time. The plan is the best that it had found,
	// verified like any other; another machine may find another one.
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
	// rule; empty if its replay finds nothing. For a plan of berth's that is an error.
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
	if r.Backend != "" {
		opts = append(opts, WithBackend(r.Backend))
	}
	return opts, true
}

// CompareOptions chooses the rows of a comparison.
type CompareOptions struct {
	Planners  []string // nil: all
	Schedules []string // nil: the default, which is called "file" where it leaves the file's order
	InPlace   []bool   // with or without in-place results, or both; nil: with
	// Progress, if set, is told which row is being computed.
	Progress func(planner, schedule string)
	// Folded, if set, is given the graph that is planned, with shapes bound and everything they determine folded, in the
	// model's order, before it is brought into an order that is compared; once for each of these. It is valid during the call.
	Folded func(g *ssa.Graph)
	// Others adds rows for berth without in-place results, without views, and for
	// the published rules of other tools; see [Rules].
	Others bool
	// Budget bounds each planner's time; 0 is none. What a planner finds does not
	// depend on the time it takes unless that is over; see [PlanRow.Cut].
	Budget time.Duration
	// Exhaustive has the exact search end with a proof or the budget, not after a fixed amount of work. What it finds
	// may then depend on the speed of the machine.
	Exhaustive bool
	// Workspace asks for [PlanRow.Scratch], for which every kernel is prepared once.
	Workspace bool
}

// Compare plans the model, as it is but with known shapes folded, with several
// planners. Each plan is verified twice before it is reported, by geometry and by
// replaying the program. With [WithParallelSafe] the plans, and the bounds, are for
// every order of the nodes at once: the heaviest set of values that are live together
// in some order. With [WithBackend] for a device, the plans are those of the program that runs there; see [PlanRow.Backend].
func (m *Model) Compare(ctx context.Context, co CompareOptions, opts ...Option) (rows []PlanRow, err error) {
	_, err = usingContext(ctx, m.lifetime(), func() (struct{}, error) {
		rows, err = m.compare(ctx, co, newConfig(opts))
		return struct{}{}, err
	})
	return rows, err // also those before a cancellation
}

func (m *Model) compare(ctx context.Context, co CompareOptions, c config) ([]PlanRow, error) {
	if co.InPlace == nil {
		co.InPlace = []bool{!c.noInPlace}
	}
	t := newComparison(c.memory.In(ctx), co, c)
	if err := t.findDevice(); err != nil {
		return nil, err
	}
	t.model = m
	orders, err := t.orders(m)
	if err != nil {
		return nil, err
	}
	for i, sched := range orders {
		g, err := t.graph(m, sched)
		if err != nil {
			return nil, err
		}
		if i == 0 && co.Workspace && t.device == nil {
			if t.scratch, err = c.workspace(t.ctx, g); err != nil {
				return nil, err
			}
		}
		if err := t.order(g, sched); err != nil {
			return t.finish(), err
		}
	}
	return t.finish(), nil
}

// orders lists the orders to compare: those asked for, or else the default. If the default
// is the file's order, it has that name; if it is not, and there are rows for other tools,
// which plan the file's order, that comes first.
func (t *comparison) orders(m *Model) ([]string, error) {
	switch {
	case t.co.Schedules != nil:
		return t.co.Schedules, nil
	case t.c.parallelSafe: // one plan for all orders
		return []string{fileOrder}, nil
	case t.device != nil: // orders are those of the model's nodes before they are joined
		return Schedules()[:1], nil
	}
	searched, err := t.graph(m, Schedules()[0])
	switch {
	case err != nil:
		return nil, err
	case t.unmoved:
		t.graphs = map[string]*ssa.Graph{fileOrder: searched}
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
	if t.device != nil {
		how := t.c
		how.schedule = sched
		g, err := m.lower(t.ctx, &how)
		t.graphs[sched] = g
		return g, rescue.WithCause(t.ctx, err)
	}
	var before []int
	g, best, err := m.foldedGraph(t.ctx, &t.c, sched, func(g *ssa.Graph) {
		before = nodeIDs(g)
		if t.co.Folded != nil {
			t.co.Folded(g)
		}
	})
	if err != nil {
		return nil, err
	}
	t.unmoved = t.unmoved || sched == Schedules()[0] && slices.Equal(before, nodeIDs(g))
	t.best, t.graphs[sched] = cmp.Or(best, t.best), g
	t.oneOrder = t.oneOrder || best == nil && sched == Schedules()[0]
	return g, nil
}

// comparison collects rows.
type comparison struct {
	ctx      context.Context
	co       CompareOptions
	c        config
	scratch  int64
	model    *Model
	device   backend.Remote        // nil: the model's own plans
	graphs   map[string]*ssa.Graph // by order
	problems int                   // so far
	best     *schedule.Result      // of the search for the best order, if there was one
	oneOrder bool                  // there was none to search for: the nodes have one order only
	unmoved  bool                  // the default order is the file's
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
			case k == 0: // the same in place or not
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
	var spaces map[*ssa.Node]int64
	if t.device != nil {
		var err error
		if g, spaces, err = t.lowered(how, sched); err != nil {
			return placing{}, PlanRow{}, err
		}
	}
	best := t.best
	if sched != Schedules()[0] {
		best = nil
	}
	prob, row, err := planProblem(t.ctx, g, &how, best, spaces)
	if t.device != nil {
		row.Backend = t.c.backend
	}
	row.Schedule, row.Scratch, row.problem = sched, t.scratch, t.problems
	t.problems++
	return prob, row, err
}

// plan adds the row of one planner. Its error is a cancellation.
func (t *comparison) plan(name string, prob placing, row PlanRow) error {
	row.name, row.Planner = name, name+row.Planner
	prob.exhaustive = t.co.Exhaustive
	return t.timed(row, func(ctx context.Context, row *PlanRow) error { return prob.plan(ctx, row) })
}

// timed adds a row with what fill puts into it, in at most the planner's time, and the time it took.
func (t *comparison) timed(row PlanRow, fill func(ctx context.Context, row *PlanRow) error) error {
	if t.co.Progress != nil {
		rescue.Call("CompareOptions.Progress", func() { t.co.Progress(row.Planner, row.Schedule) })
	}
	ctx, cancel := t.ctx, func() {}
	if t.co.Budget > 0 {
		ctx, cancel = context.WithTimeout(ctx, t.co.Budget)
	}
	ctx = ndarray.BudgetOf(ctx).In(ctx) // what takes too much memory is an error of its row
	row.Err = fill(ctx, &row)
	if full := (*MemoryError)(nil); row.Err == nil && errors.As(ctx.Err(), &full) {
		row.Err = full // what was found before is not the plan
	}
	cancel()
	t.rows = append(t.rows, row)
	return rescue.WithCause(t.ctx, t.ctx.Err())
}

// unshared adds the row in which every tensor, views and in-place results included, has memory of its own. The bound of the
// folded problem, whose number is given, holds for it, too.
func (t *comparison) unshared(g *ssa.Graph, sched string, folded int) error {
	how := t.c
	how.noInPlace, how.noMerge, how.copyViews = true, true, true
	prob, row, err := t.problem(g, sched, how)
	if err != nil {
		return err
	}
	err = t.plan(naive, prob, row)
	last := &t.rows[len(t.rows)-1]
	last.LowerBound, last.Proven, last.problem = 0, false, folded
	return err
}

// finish completes the rows by bounds: the one of every order, and for plans of the same blocks in the same order the best
// bound that any planner proved.
func (t *comparison) finish() []PlanRow {
	best := map[int]int64{}
	for i := range t.rows {
		r := &t.rows[i]
		if t.best != nil && t.boundsOrders(r) {
			r.OrderBound = t.best.LowerBound
		}
		if r.Err == nil && !r.Rule {
			best[r.problem] = max(best[r.problem], r.LowerBound)
		}
	}
	for i := range t.rows {
		if r := &t.rows[i]; r.Err == nil && !r.Rule {
			r.LowerBound = best[r.problem]
			r.Proven = r.ArenaBytes == r.LowerBound && r.Dynamic == 0
		}
		if r := &t.rows[i]; t.oneOrder && t.boundsOrders(r) {
			r.OrderBound = r.LowerBound
		}
	}
	return t.rows
}

// boundsOrders reports a row whose plan is of the kind that the search for an order bounds.
func (t *comparison) boundsOrders(r *PlanRow) bool {
	return !t.c.parallelSafe && r.Backend == "" && r.InPlace && !r.copyViews && !r.Rule && r.LowerBound > 0
}

// fileOrder is the schedule that leaves a model as it is.
const fileOrder = "file"

// nodeIDs are the numbers of the nodes of a graph and of its bodies in their order.
func nodeIDs(g *ssa.Graph) (ids []int) {
	g.Walk(func(b *ssa.Graph) {
		for _, n := range b.Nodes {
			ids = append(ids, n.ID)
		}
	})
	return ids
}

// others adds the default planner with a part of the folding switched off, which shows what that part saves, and the rules
// of other tools.
func (t *comparison) others(g *ssa.Graph, sched string) error {
	without := func(part string, change func(*config)) error {
		how := t.c
		change(&how)
		prob, row, err := t.problem(g, sched, how)
		if err != nil {
			return err
		}
		row.Planner = " without " + part
		return t.plan(DefaultPlanner(), prob, row)
	}
	if !slices.Contains(t.co.InPlace, false) {
		if err := without("in-place", func(c *config) { c.noInPlace = true }); err != nil {
			return err
		}
	}
	if err := without("views", func(c *config) { c.copyViews = true }); err != nil {
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
// search for an order says, nil for orders that are not searched for, and where there is one order only. shown, if set, is given the
// graph before it is ordered.
func (m *Model) foldedGraph(ctx context.Context, c *config, sched string, shown func(*ssa.Graph)) (g *ssa.Graph, best *schedule.Result, err error) {
	defer func() { err = rescue.WithCause(ctx, err) }()
	ctx = c.memory.In(ctx)
	bound, err := m.bind(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if _, err := rewrite.Run(ctx, bound, rewrite.Options{List: &rewrite.Runtime, Inferred: true, Only: foldingOnly, Check: c.check, Dump: c.dump, MaxOpset: -1}); err != nil {
		return nil, nil, err
	}
	c.dump = nil // once
	if err := rewrite.RunFurther(ctx, bound.Graph, c.leavesOut); err != nil {
		return nil, nil, err
	}
	if shown != nil {
		rescue.Call("CompareOptions.Folded", func() { shown(bound.Graph) })
	}
	best, err = schedule.Order(ctx, bound.Graph, sched)
	return bound.Graph, best, err
}

// workspace is the most that one kernel of the chosen backend needs beside its
// operands and results. It depends on neither order nor planner.
func (c *config) workspace(ctx context.Context, g *ssa.Graph) (int64, error) {
	be, err := c.backendOf()
	if err != nil {
		return 0, err
	}
	spaces, err := program.Workspaces(ctx, g, be, c.threads, c.memory)
	return largest(spaces), err
}

func largest(spaces map[*ssa.Node]int64) (most int64) {
	for _, n := range spaces {
		most = max(most, n)
	}
	return most
}

// findDevice notes the backend if it is a device, whose plans are those of lowered graphs.
func (t *comparison) findDevice() error {
	be, err := t.c.backendOf()
	if d, ok := be.(backend.Remote); ok && err == nil {
		t.device = d
		return d.Ready(t.ctx)
	}
	return err
}

// lowered is the graph that runs on the device in an order, with its workspaces.
func (t *comparison) lowered(how config, sched string) (*ssa.Graph, map[*ssa.Node]int64, error) {
	how.schedule, how.dump = sched, nil
	g, err := t.model.lower(t.ctx, &how)
	if err != nil {
		return nil, nil, rescue.WithCause(t.ctx, err)
	}
	spaces, err := program.Workspaces(t.ctx, g, t.device, how.threads, how.memory)
	t.scratch = largest(spaces)
	return g, spaces, cmp.Or(err, t.device.Ready(t.ctx))
}

// placing is the planning problem of a graph, and the second verifier of its plans, after geometry: the program is replayed
// with them. It also says whether a plan holds for every order.
type placing struct {
	*planner.Problem
	exhaustive bool // no limit of work; see [CompareOptions.Exhaustive]
	verify     func(*planner.Solution) (parallelSafe bool, err error)
}

// planProblem makes the planning problem of a graph, without workspaces if spaces is nil and as a device needs it if not. best is what
// the search for its order says, if there was one. The row has what all plans of the problem share.
func planProblem(ctx context.Context, g *ssa.Graph, c *config, best *schedule.Result, spaces map[*ssa.Node]int64) (placing, PlanRow, error) {
	lo, fo := liveness.Options{CopyViews: c.copyViews, AnyOrder: c.parallelSafe}, inplace.Options{NoInPlace: c.noInPlace, NoMerge: c.noMerge, NoSmaller: spaces != nil}
	if spaces != nil {
		lo.Scratch = func(n *ssa.Node) int64 { return spaces[n] }
	}
	var st *inplace.Stated
	var err error
	if best != nil && best.Timeline != nil && !c.copyViews && !c.parallelSafe && fo == (inplace.Options{}) && spaces == nil {
		st, err = inplace.StateOf(ctx, g.Name, best.Timeline, best.Folding)
	} else {
		st, err = inplace.State(ctx, g, lo, fo)
	}
	if err != nil {
		return placing{}, PlanRow{}, rescue.WithCause(ctx, err)
	}
	row := PlanRow{LoopCopyBytes: st.Timeline.CopiesPerTrip(), Dynamic: st.Timeline.Dynamic(), InPlace: !c.noInPlace, copyViews: c.copyViews, parallelSafe: c.parallelSafe}
	return placing{Problem: st.Problem, verify: func(s *planner.Solution) (bool, error) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		offsets, _, err := st.OffsetsOf(s)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return false, err
		}
		p, err := program.ForPlan(ctx, st.Timeline, offsets, s.ArenaBytes)
		if err != nil {
			return false, err
		}
		if err = program.CheckParallel(ctx, p); err == nil || c.parallelSafe {
			return err == nil, err
		}
		return false, program.Check(ctx, p)
	}}, row, nil
}

// disjoint reports whether no two buffers share bytes. The graph of a bare instance is not
// known, so only such a plan certainly holds for every order.
func disjoint(p *planner.Problem, s *planner.Solution) bool {
	var ids []int
	for i, b := range p.Buffers {
		if b.Size > 0 {
			ids = append(ids, i)
		}
	}
	slices.SortFunc(ids, func(a, b int) int { return cmp.Compare(s.Offsets[a], s.Offsets[b]) })
	end := int64(0)
	for _, i := range ids {
		if s.Offsets[i] < end {
			return false
		}
		end = s.Offsets[i] + p.Buffers[i].Size
	}
	return true
}

// plan plans with the row's planner and verifies the plan.
func (s placing) plan(ctx context.Context, row *PlanRow) error {
	pl, err := planner.Get(row.name)
	if err != nil {
		return err
	}
	if _, exact := pl.(planner.Exact); exact && s.exhaustive {
		pl = planner.Exact{Budget: planner.NoLimit}
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

// WriteInstance writes the planning problem of the model, that of [Model.Compare] for the
// chosen order (without a choice, the file's), as an instance file, with the offsets of the
// chosen planner's plan. Other tools read these files, and so does [CompareInstance]. The
// problem for every order at once has no such form.
func (m *Model) WriteInstance(ctx context.Context, w io.Writer, opts ...Option) error {
	_, err := usingContext(ctx, m.lifetime(), func() (struct{}, error) { return struct{}{}, m.writeInstance(ctx, w, newConfig(opts)) })
	return err
}

func (m *Model) writeInstance(ctx context.Context, w io.Writer, c config) error {
	if c.parallelSafe {
		return &OptionError{Option: "WithParallelSafe", Want: "a plan for one order, whose live ranges an instance file has"}
	}
	if c.schedule == "" {
		c.schedule = fileOrder
	}
	g, best, err := m.foldedGraph(ctx, &c, c.schedule, nil)
	if err != nil {
		return err
	}
	prob, _, err := planProblem(ctx, g, &c, best, nil)
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

// CompareInstance plans a bare instance with several planners, with the sizes,
// alignments and holes of the file. Fields that an instance does not determine (orders,
// in place, loops) are zero. Memory is within the budget that ctx carries ([ndarray.Budget]).
func CompareInstance(ctx context.Context, name string, r io.Reader, co CompareOptions) (_ []PlanRow, err error) {
	defer rescue.Into(&err)
	if ctx == nil {
		return nil, errNilContext
	}
	memory := ndarray.BudgetOf(ctx)
	p, _, err := planner.ReadCSV(budgetReader{rescue.Reader(r), memory})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	prob := placing{Problem: p, verify: func(s *planner.Solution) (bool, error) { return disjoint(p, s), nil }}
	t := newComparison(ctx, co, config{})
	for _, pl := range t.co.Planners {
		if err := cmp.Or(t.plan(pl, prob, PlanRow{Schedule: "given"}), memory.Check("planning "+name)); err != nil {
			return t.finish(), err
		}
	}
	return t.finish(), nil
}

// budgetReader reads as long as what is made of it is within a budget.
type budgetReader struct {
	io.Reader
	memory ndarray.Budget
}

func (r budgetReader) Read(p []byte) (int, error) {
	if err := r.memory.Check("the instance"); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
