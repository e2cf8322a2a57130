package program

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
)

// From a graph to places: lay out, fold, plan, and turn the plan's offsets into
// offsets of the timeline's variables.
//
//	graph ──▶ timeline ──▶ classes of blocks ──▶ problem ──▶ solution ──▶ offset by variable
//	          liveness     inplace                        planner
//
// A plan for every order comes from a layout without times; its places are carried
// over to the timeline of the order the nodes stand in, which is what runs.

// plan lays the graph out, folds and places its blocks.
func (c *compiler) plan(ctx context.Context, g *ssa.Graph) (*Program, error) {
	start := time.Now()
	o := liveness.Options{Scratch: c.scratchOf, CopyViews: c.opts.CopyViews}
	lay := c.layInOrder
	if c.opts.ParallelSafe {
		lay = c.layParallel
	}
	l, err := lay(g, o)
	if err != nil {
		return nil, err
	}
	sol, err := c.solve(ctx, l.problem)
	if err != nil {
		return nil, err
	}
	if err := c.settle(l, sol); err != nil {
		return nil, err
	}
	p := &Program{Graph: g, stickyDigit: map[int]int{}, ArenaBytes: sol.ArenaBytes, Timeline: l.timeline, Problem: l.problem, Solution: sol}
	r := &p.Report
	r.Planner, r.ArenaBytes, r.LowerBound, r.Proven = sol.Planner, sol.ArenaBytes, sol.LowerBound, sol.Proven()
	r.Folds, r.Merges, r.Blocks, r.PlanNanos = l.folds, l.merges, len(l.problem.Buffers), time.Since(start).Nanoseconds()
	for _, b := range l.problem.Buffers {
		r.NaiveBytes += b.Size
	}
	return p, nil
}

// scratchOf is the workspace of a node's kernel.
func (c *compiler) scratchOf(n *ssa.Node) int64 {
	if p := c.prepared[n]; p != nil {
		return p.Scratch
	}
	return 0
}

// layout is a graph laid out in time, the placing of its blocks as a problem, and
// how a solution of that becomes offsets of the timeline's variables.
type layout struct {
	timeline      *liveness.Timeline
	problem       *planner.Problem
	offsetsOf     func(*planner.Solution) (offsets []int64, inside []bool, err error)
	folds, merges int
}

func (c *compiler) layInOrder(g *ssa.Graph, o liveness.Options) (*layout, error) {
	t, f, err := inplace.Lay(g, o, c.opts.InPlace)
	if err != nil {
		return nil, err
	}
	prob, ids := f.Problem(t, g.Name, ArenaAlign)
	offsets := func(s *planner.Solution) ([]int64, []bool, error) {
		at, inside := f.OffsetsIn(t, ids, s)
		return at, inside, nil
	}
	return &layout{t, prob, offsets, f.Folds, f.Merges}, nil
}

func (c *compiler) layParallel(g *ssa.Graph, o liveness.Options) (*layout, error) {
	f, err := inplace.LayParallel(g, o, c.opts.InPlace)
	if err != nil {
		return nil, err
	}
	prob, err := f.Problem(g.Name, ArenaAlign)
	if err != nil {
		return nil, err
	}
	o.AnyOrder, o.Windows = true, f.Windows
	t, err := liveness.Build(g, o)
	if err != nil {
		return nil, err
	}
	offsets := func(s *planner.Solution) ([]int64, []bool, error) { return f.OffsetsIn(t, s) }
	return &layout{t, prob, offsets, f.Folds, f.Merges}, nil
}

// solve plans, or takes a saved plan of the same problem; the plan is judged.
func (c *compiler) solve(ctx context.Context, prob *planner.Problem) (*planner.Solution, error) {
	pl := c.opts.Planner
	if pl == nil {
		names := planner.Names()
		var err error
		if pl, err = planner.Get(names[len(names)-1]); err != nil {
			return nil, err
		}
	}
	sol := savedPlan(c.opts.Saved, prob)
	if sol == nil || planner.Validate(prob, sol) != nil {
		var err error
		if sol, err = pl.Plan(ctx, prob); err != nil {
			return nil, fmt.Errorf("planner %s: %w", pl.Name(), err)
		}
	}
	if err := planner.Validate(prob, sol); err != nil && !c.opts.noValidate {
		return nil, fmt.Errorf("planner %s made an invalid plan: %w", pl.Name(), err)
	}
	return sol, nil
}

// settle gives the timeline's variables and the nodes' workspaces their offsets.
func (c *compiler) settle(l *layout, sol *planner.Solution) (err error) {
	if c.offsets, c.inside, err = l.offsetsOf(sol); err != nil {
		return err
	}
	c.scratch = map[*ssa.Node]int64{}
	for _, s := range l.timeline.Steps {
		if s.Scratch != liveness.None {
			c.scratch[s.Node] = c.offsets[s.Scratch]
		}
	}
	return nil
}
