package inplace

import (
	"github.com/berth-onnx/berth/liveness"
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
}

// State lays a graph out, folds it and states the placing of what is left: for the
// order that the nodes stand in, or, with AnyOrder, for every schedule at once. A plan
// for every schedule is carried over to the timeline of the present order, which is
// what runs and what judges replay.
func State(g *ssa.Graph, lo liveness.Options, o Options) (*Stated, error) {
	if lo.AnyOrder {
		return stateAnyOrder(g, lo, o)
	}
	t, f, err := Lay(g, lo, o)
	if err != nil {
		return nil, err
	}
	p, ids := f.Problem(g.Name)
	offsets := func(s *planner.Solution) ([]int64, []bool, error) {
		at, inside := f.OffsetsIn(ids, s)
		return at, inside, nil
	}
	return &Stated{t, p, offsets, f.Folds, f.Merges}, nil
}

func stateAnyOrder(g *ssa.Graph, lo liveness.Options, o Options) (*Stated, error) {
	f, err := LayParallel(g, lo, o)
	if err != nil {
		return nil, err
	}
	p, err := f.Problem(g.Name)
	if err != nil {
		return nil, err
	}
	lo.Windows = f.Windows
	t, err := liveness.Build(g, lo)
	if err != nil {
		return nil, err
	}
	offsets := func(s *planner.Solution) ([]int64, []bool, error) { return f.OffsetsIn(t, s) }
	return &Stated{t, p, offsets, f.Folds, f.Merges}, nil
}
