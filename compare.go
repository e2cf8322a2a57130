package berth

import (
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
	ParallelSafe  bool // valid for every order and for concurrent branches
	Dynamic       int  // values whose size is known only while running
	Err           error
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
// planners. Each plan is judged before it is reported.
func (m *Model) Compare(ctx context.Context, co CompareOptions, opts ...Option) ([]PlanRow, error) {
	if co.Planners == nil {
		co.Planners = Planners()
	}
	orders, standard := co.Schedules, co.Schedules == nil
	if standard {
		orders = []string{fileOrder, Schedules()[0]}
	}
	c := newConfig(opts)
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
		apart, _, err := planProblem(g, &config{noInPlace: true, copyViews: true})
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

// planProblem states the placing of a graph without kernels.
func planProblem(g *ssa.Graph, c *config) (*planner.Problem, PlanRow, error) {
	t, f, err := inplace.Lay(g, liveness.Options{CopyViews: c.copyViews}, inplace.Options{NoInPlace: c.noInPlace, NoMerge: c.noInPlace})
	if err != nil {
		return nil, PlanRow{}, err
	}
	p, _ := f.Problem(t, g.Name, program.ArenaAlign)
	row := PlanRow{LoopCopyBytes: t.CopiesPerTrip(), Dynamic: t.Dynamic()}
	return p, row, nil
}

func planRow(ctx context.Context, name string, prob *planner.Problem, base PlanRow, budget time.Duration) PlanRow {
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
	sol, err := pl.Plan(ctx, prob)
	row.PlanNanos = time.Since(start).Nanoseconds()
	if err == nil {
		err = planner.Validate(prob, sol)
	}
	if err != nil {
		row.Err = err
		return row
	}
	row.ArenaBytes, row.LowerBound, row.Proven = sol.ArenaBytes, sol.LowerBound, sol.Proven()
	row.ParallelSafe = name == "naive"
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
	var rows []PlanRow
	for _, n := range co.Planners {
		if co.Progress != nil {
			co.Progress(n, "given")
		}
		rows = append(rows, planRow(ctx, n, p, PlanRow{Schedule: "given"}, co.Budget))
	}
	return rows, nil
}
