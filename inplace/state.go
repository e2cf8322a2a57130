package inplace

import (
	"cmp"
	"context"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
)

// Stated is the placing of a graph's blocks as a problem.
type Stated struct {
	Timeline *liveness.Timeline // in the order that the nodes stand in
	Problem  *planner.Problem
	// OffsetsOf carries a solution over to the timeline's blocks: by variable, where it
	// begins in the arena, and whether it lies inside a larger class away from its start.
	OffsetsOf     func(*planner.Solution) (offsets []int64, inside []bool, err error)
	Folds, Merges int
	// Of is the class of each variable, -1 for one that owns no bytes, and Offset where it
	// begins inside its class. They are nil for plans for every schedule.
	Of     []int
	Offset []int64
}

// State lays a graph out, folds it and states the placing of what is left: for the
// order that the nodes stand in, or, with AnyOrder, for every schedule at once. A plan
// for every schedule is carried over to the timeline of the present order, which is
// what runs and what verifiers replay.
func State(ctx context.Context, g *ssa.Graph, lo liveness.Options, o Options) (_ *Stated, err error) {
	defer rescue.Into(&err)
	if lo.AnyOrder {
		return stateAnyOrder(ctx, g, lo, o)
	}
	t, f, err := Lay(ctx, g, lo, o)
	if err != nil {
		return nil, err
	}
	return StateOf(ctx, g.Name, t, f)
}

// StateOf is [State] of what [Lay] made of a graph.
func StateOf(ctx context.Context, name string, t *liveness.Timeline, f *Folding) (_ *Stated, err error) {
	defer rescue.Into(&err)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, ids, err := f.Problem(ctx, name)
	if err := cmp.Or(err, ctx.Err(), ndarray.BudgetOf(ctx).CheckContext(ctx, "the planning problem")); err != nil {
		return nil, err
	}
	offsets := func(s *planner.Solution) ([]int64, []bool, error) {
		at, inside := f.OffsetsIn(ids, s)
		return at, inside, nil
	}
	return &Stated{t, p, offsets, f.Folds, f.Merges, f.Of, f.Offset}, nil
}

func stateAnyOrder(ctx context.Context, g *ssa.Graph, lo liveness.Options, o Options) (*Stated, error) {
	f, err := LayParallel(ctx, g, lo, o)
	if err != nil {
		return nil, err
	}
	p, err := f.Problem(ctx, g.Name)
	if err = cmp.Or(ctx.Err(), err); err != nil {
		return nil, err
	}
	lo.Windows = f.Windows
	t, err := liveness.Build(ctx, g, lo)
	if err != nil {
		return nil, err
	}
	offsets := func(s *planner.Solution) ([]int64, []bool, error) { return f.OffsetsIn(t, s) }
	return &Stated{Timeline: t, Problem: p, OffsetsOf: offsets, Folds: f.Folds, Merges: f.Merges}, nil
}
