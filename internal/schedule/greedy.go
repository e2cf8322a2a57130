package schedule

import (
	"context"

	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// greedy is list scheduling by memory: of the nodes that can run, the one after
// which the least is in use, and of equals the one that comes first in the present
// order. Bodies are ordered already.
//
//	ready    after it in use
//	a        12                 b runs next; then its readers may be ready, too
//	b         8
func greedy(ctx context.Context, g *ssa.Graph) error {
	if err := sortedGraph(g); err != nil {
		return err
	}
	control := map[*ssa.Node]*inner{}
	for _, n := range g.Nodes {
		if ops.IsControl(n) {
			in, err := measure(ctx, n, g)
			if err != nil {
				return err
			}
			control[n] = in
		}
	}
	if nodes := greedyOrder(ctx, g, nil, control); nodes != nil {
		g.Nodes = nodes
	}
	return ctx.Err()
}

// greedyOrder is the greedy order of a graph whose control flow is measured. When
// enough nodes have been tried in all, the first that can run comes next. It is nil if the context ends before.
func greedyOrder(ctx context.Context, g *ssa.Graph, rot *loops.Rotation, control map[*ssa.Node]*inner) []*ssa.Node {
	s := newSim(ctx, newModel(ctx, g, rot, control, counting{estimate: true}))
	out := make([]*ssa.Node, 0, len(g.Nodes))
	for len(out) < len(g.Nodes) {
		if ctx.Err() != nil {
			return nil
		}
		best, low := int32(-1), int64(0)
		s.eachReady(func(n int32) bool {
			s.run(n)
			live := s.live
			s.rollback(len(s.trail) - 1)
			if best < 0 || live < low {
				best, low = n, live
			}
			return s.steps < allWork
		})
		s.run(best)
		out = append(out, g.Nodes[best])
	}
	return out
}
