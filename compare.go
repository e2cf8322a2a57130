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

// PlanRow is one planner's result for one model and order.
type PlanRow struct {
	Planner    string
	Schedule   string
	ArenaBytes int64 // intermediates and outputs, 64-byte aligned, no workspace
	Scratch    int64 // the largest kernel workspace
	LowerBound int64
	Proven     bool
	PlanNanos  int64
	// LoopCopyBytes is what one iteration of a loop copies, the largest loop's.
	LoopCopyBytes int64
	// ParallelSafe: the plan holds for every order of the nodes, and when
	// independent nodes run at the same time.
	ParallelSafe bool
	Dynamic      int // values whose size is known only while running
	Err          error
}

// CompareOptions chooses the rows of a comparison.
type CompareOptions struct {
	Planners  []string // nil: all
	Schedules []string // nil: the file's order and, where it needs less, the default
	// Progress, if set, is told which row is being computed.
	Progress func(planner, schedule string)
	// Others adds rows for berth without in-place results, without views, and for
	// the published rules of other tools; see [Rules].
	Others bool
	// Budget bounds each planner's time; 0 is none.
	Budget time.Duration
}

// Compare plans the model, as it is but with known shapes folded, with several
// planners. Each plan is judged before it is reported. With [WithParallelSafe] the
// plans are made for every order of the nodes at once, and so are the bounds: the
// heaviest set of values that some order has live together.
func (m *Model) Compare(ctx context.Context, co CompareOptions, opts ...Option) ([]PlanRow, error) {
	if co.Planners == nil {
		co.Planners = Planners()
	}
	c := newConfig(opts)
	orders, standard := co.Schedules, co.Schedules == nil
	if standard {
		orders = []string{fileOrder, Schedules()[0]}
	}
	if standard && c.parallelSafe { // one plan for all orders
		orders = orders[:1]
	}
	var rows []PlanRow
	var first *ssa.Graph
	for i, sched := range orders {
		g, err := m.foldedGraph(ctx, &c, sched)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			first = g
		} else if standard && sameOrder(first, g) {
			break
		}
		prob, base, err := planProblem(g, &c)
		if err != nil {
			return nil, err
		}
		base.Schedule = sched
		apart, _, err := planProblem(g, &config{noInPlace: true, copyViews: true, parallelSafe: c.parallelSafe})
		if err != nil {
			return nil, err
		}
		for _, name := range co.Planners {
			if co.Progress != nil {
				co.Progress(name, sched)
			}
			if name == "naive" { // every tensor its own memory: nothing folded either
				row := planRow(ctx, name, apart, base, co.Budget)
				row.LowerBound, row.Proven = 0, false
				rows = append(rows, row)
			} else {
				rows = append(rows, planRow(ctx, name, prob, base, co.Budget))
			}
			if err := ctx.Err(); err != nil {
				return rows, err
			}
		}
		if co.Others {
			rows = append(rows, otherRows(ctx, g, c, base, co)...)
		}
	}
	return rows, nil
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

// otherRows are the rows that are no planner of berth's on its own problem.
func otherRows(ctx context.Context, g *ssa.Graph, c config, base PlanRow, co CompareOptions) []PlanRow {
	noInPlace, noViews := c, c
	noInPlace.noInPlace, noViews.copyViews = true, true
	rows := []PlanRow{
		variantRow(ctx, g, DefaultPlanner()+" without in-place", noInPlace, base, co.Budget),
		variantRow(ctx, g, DefaultPlanner()+" without views", noViews, base, co.Budget),
	}
	for _, r := range Rules() {
		if co.Progress != nil {
			co.Progress(r.Name, base.Schedule)
		}
		rows = append(rows, ruleRow(ctx, g, r, base, co.Budget))
	}
	return rows
}

// foldedGraph binds, folds what shapes determine, and orders.
func (m *Model) foldedGraph(ctx context.Context, c *config, sched string) (*ssa.Graph, error) {
	bound, err := m.bind(c)
	if err != nil {
		return nil, err
	}
	if _, err := rewrite.Run(ctx, bound, rewrite.Options{List: &rewrite.Runtime, Only: foldingOnly, Check: c.check, MaxOpset: -1}); err != nil {
		return nil, err
	}
	return bound.Graph, schedule.Apply(ctx, bound.Graph, sched)
}

// stated is the placing of values as a problem, and how one learns whether a
// solution of it holds for every order.
type stated struct {
	*planner.Problem
	parallelSafe func(*planner.Solution) bool
}

// planProblem states the placing of a graph without kernels.
func planProblem(g *ssa.Graph, c *config) (stated, PlanRow, error) {
	lo, fo := liveness.Options{CopyViews: c.copyViews}, inplace.Options{NoInPlace: c.noInPlace, NoMerge: c.noInPlace}
	t, f, err := inplace.Lay(g, lo, fo)
	if err != nil {
		return stated{}, PlanRow{}, err
	}
	row := PlanRow{LoopCopyBytes: t.CopiesPerTrip(), Dynamic: t.Dynamic()}
	if c.parallelSafe {
		s, err := parallelProblem(g, lo, fo)
		return s, row, err
	}
	return orderedProblem(t, f, program.ArenaAlign), row, nil
}

// orderedProblem states the placing for the one order a graph is laid out in.
func orderedProblem(t *liveness.Timeline, f *inplace.Folding, align int64) stated {
	p, ids := f.Problem(t, t.Graph.Name, align)
	return stated{p, func(s *planner.Solution) bool {
		offsets, _ := f.OffsetsIn(t, ids, s)
		return program.JudgeParallel(t, offsets, s.ArenaBytes) == nil
	}}
}

// parallelProblem states the placing of a graph for every order at once. Its plans
// are judged a second time, by replay.
func parallelProblem(g *ssa.Graph, lo liveness.Options, fo inplace.Options) (stated, error) {
	f, err := inplace.LayParallel(g, lo, fo)
	if err != nil {
		return stated{}, err
	}
	p, err := f.Problem(g.Name, program.ArenaAlign)
	if err != nil {
		return stated{}, err
	}
	lo.AnyOrder, lo.Windows = true, f.Windows
	t, err := liveness.Build(g, lo)
	if err != nil {
		return stated{}, err
	}
	return stated{p, func(s *planner.Solution) bool {
		offsets, _, err := f.OffsetsIn(t, s)
		return err == nil && program.JudgeParallel(t, offsets, s.ArenaBytes) == nil
	}}, nil
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

func planRow(ctx context.Context, name string, prob stated, base PlanRow, budget time.Duration) PlanRow {
	row := base
	row.Planner = name
	pl, err := planner.Get(name)
	if err != nil {
		row.Err = err
		return row
	}
	if budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, budget)
		defer cancel()
	}
	start := time.Now()
	sol, err := pl.Plan(ctx, prob.Problem)
	row.PlanNanos = time.Since(start).Nanoseconds()
	if err == nil {
		err = planner.Validate(prob.Problem, sol)
	}
	if err != nil {
		row.Err = err
		return row
	}
	row.ArenaBytes, row.LowerBound, row.Proven = sol.ArenaBytes, sol.LowerBound, sol.Proven()
	row.ParallelSafe = prob.parallelSafe(sol)
	return row
}

// own reports whether a row plans the same problem as the other planners: a
// planner of berth's, nothing switched off. (naive plans more memory, which the
// bound holds for as well.)
func (r PlanRow) own() bool { _, err := planner.Get(r.Planner); return err == nil }

// ShareBounds gives every row the best lower bound any of them proved for the
// same order: a bound holds whoever found it.
func ShareBounds(rows []PlanRow) {
	best := map[string]int64{}
	for _, r := range rows {
		if r.Err == nil && r.own() {
			best[r.Schedule] = max(best[r.Schedule], r.LowerBound)
		}
	}
	for i := range rows {
		if r := &rows[i]; r.Err == nil && r.own() {
			r.LowerBound = best[r.Schedule]
			r.Proven = r.ArenaBytes == r.LowerBound
		}
	}
}

// CompareInstance plans a bare instance with several planners. Bytes count as
// given. capacity, if positive, is what a plan should fit into; it is not
// enforced.
func CompareInstance(ctx context.Context, name string, r io.Reader, co CompareOptions) ([]PlanRow, error) {
	p, _, err := planner.ReadCSV(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if co.Planners == nil {
		co.Planners = Planners()
	}
	prob := stated{p, func(s *planner.Solution) bool { return disjoint(p, s) }}
	var rows []PlanRow
	for _, n := range co.Planners {
		if co.Progress != nil {
			co.Progress(n, "given")
		}
		rows = append(rows, planRow(ctx, n, prob, PlanRow{Schedule: "given"}, co.Budget))
	}
	return rows, nil
}
