package rules

import (
	"context"
	"fmt"

	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
)

// Plan is a graph planned by a tool's rule.
type Plan struct {
	Arena   int64 // bytes, bodies included
	Buffers int   // bodies included

	share   *sharing
	offsets []int64
	own     []*ssa.Value // parameters that take memory here
	bodies  []*Plan      // in order of their nodes
}

// Unsound replays the plan and says which value of the graph or of a body is
// overwritten before it is read; "" if none is.
func (p *Plan) Unsound() string {
	for _, b := range p.bodies {
		if bad := b.Unsound(); bad != "" {
			return bad
		}
	}
	return p.replay()
}

// Plan plans a graph, whose types must be inferred, and its bodies. It ends early,
// with a plan that is not done, only where the context does.
func (t *Tool) Plan(ctx context.Context, g *ssa.Graph) (*Plan, error) { return t.plan(ctx, g, nil) }

// plan plans one graph. own are the parameters that take memory in it.
func (t *Tool) plan(ctx context.Context, g *ssa.Graph, own []*ssa.Value) (*Plan, error) {
	out := &Plan{own: own}
	bodies := map[*ssa.Node]*Plan{}
	var beside int64
	for _, n := range g.Nodes {
		sum := &Plan{}
		for _, b := range n.Bodies {
			p, err := t.plan(ctx, b, b.Params[:len(b.Params)-n.Captures])
			if err != nil {
				return nil, err
			}
			if t.bodies == oneAtATime {
				sum.Arena = max(sum.Arena, p.Arena)
			} else {
				sum.Arena += p.Arena
			}
			out.Buffers += p.Buffers
			out.bodies = append(out.bodies, p)
		}
		if len(n.Bodies) > 0 {
			bodies[n] = sum
		}
		if t.bodies == separate {
			beside += sum.Arena
		}
	}
	out.share = share(t, g, own, bodies)
	if err := t.place(ctx, out); err != nil {
		return nil, err
	}
	out.Buffers += len(out.share.buffers)
	out.Arena += beside
	return out, nil
}

// place gives the buffers their offsets.
func (t *Tool) place(ctx context.Context, p *Plan) error {
	if t.planner == "" {
		p.offsets, p.Arena = tokens(p.share.buffers, t.align)
		return nil
	}
	pl, err := planner.Get(t.planner)
	if err != nil {
		return err
	}
	prob := &planner.Problem{Name: p.share.g.Name, Align: t.align}
	for _, b := range p.share.buffers {
		prob.Buffers = append(prob.Buffers, planner.Buffer{Size: alignUp(b.size, t.align), Lo: b.lo, Hi: b.hi})
	}
	sol, err := pl.Plan(ctx, prob)
	if err != nil {
		return err
	}
	if err := planner.Validate(prob, sol); err != nil {
		return fmt.Errorf("graph %s: %w", p.share.g.Name, err)
	}
	p.offsets, p.Arena = sol.Offsets, sol.ArenaBytes
	return nil
}

func alignUp(n, a int64) int64 { return (n + a - 1) / a * a }
