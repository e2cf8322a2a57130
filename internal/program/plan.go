package program

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/internal/slab"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
)

// From a graph to offsets: lay out, fold, plan, and turn the plan's offsets into
// offsets of the timeline's variables.
//
//	graph ──▶ timeline ──▶ classes of blocks ──▶ problem ──▶ solution ──▶ offset by variable
//	          liveness     inplace                        planner
//
// A plan for every order comes from a layout without times; its offsets carry over to
// the timeline of the order the nodes are listed in, which is what runs.

// plan lays the graph out, folds its blocks and gives them offsets.
func (c *compiler) plan(ctx context.Context, g *ssa.Graph) (*Program, error) {
	start := time.Now()
	workspace := func(n *ssa.Node) int64 {
		if p, _ := c.prepared.Get(n.ID, n); p != nil {
			return p.Scratch
		}
		return 0
	}
	l, err := inplace.State(ctx, g, liveness.Options{Scratch: workspace,
		CopyViews: c.opts.CopyViews, AnyOrder: c.opts.ParallelSafe, Outside: c.outside(g)}, c.opts.InPlace)
	if err != nil {
		return nil, err
	}
	sol, err := c.solve(ctx, l.Problem)
	if err != nil {
		return nil, err
	}
	if c.offsets, c.inside, err = l.OffsetsOf(sol); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.classOf, c.inClass = l.Of, l.Offset
	c.scratch = slab.NewTable[*ssa.Node, int64](g.NumNodeIDs())
	for _, s := range l.Timeline.Steps {
		if s.Scratch != liveness.None {
			c.scratch.Put(s.Node.ID, s.Node, c.offsets[s.Scratch])
		}
	}
	p := &Program{Graph: g, stickyDigit: map[int]int{}, ArenaBytes: sol.ArenaBytes, Timeline: l.Timeline, Problem: l.Problem, Solution: sol}
	r := &p.Report
	r.Planner, r.ArenaBytes, r.LowerBound, r.Proven = sol.Planner, sol.ArenaBytes, sol.LowerBound, sol.Proven()
	r.Folds, r.Merges, r.Blocks, r.PlanNanos = l.Folds, l.Merges, len(l.Problem.Buffers), time.Since(start).Nanoseconds()
	for _, b := range l.Problem.Buffers {
		r.NaiveBytes += b.Size
	}
	return p, nil
}

// solve plans, or takes a saved plan of the same problem; the plan is verified.
func (c *compiler) solve(ctx context.Context, prob *planner.Problem) (*planner.Solution, error) {
	pl := c.opts.Planner
	if pl == nil {
		names := planner.Names()
		var err error
		if pl, err = planner.Get(names[len(names)-1]); err != nil {
			return nil, err
		}
	}
	sol := savedPlan(ctx, c.opts.Saved, prob)
	if sol == nil || planner.ValidateContext(ctx, prob, sol) != nil {
		var err error
		if sol, err = pl.Plan(ctx, prob); err != nil {
			return nil, fmt.Errorf("planner %s: %w", pl.Name(), err)
		}
	}
	err := planner.ValidateContext(ctx, prob, sol)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil && !c.opts.noValidate {
		return nil, fmt.Errorf("planner %s made an invalid plan: %w", pl.Name(), err)
	}
	return sol, nil
}
