package schedule

import (
	"context"

	"github.com/berth-onnx/berth/ssa"
)

// depthFirst orders the nodes depth first from the results: a node runs right before the
// first of those that need it, so that its results do not wait.
//
//	a ──▶ b ──▶ e        breadth first   a c b d e     b and c wait for each other
//	c ──▶ d ───▲         depth first     a b c d e     one branch is finished first
//
// Results are visited in their order, operands of a node in theirs; nodes that no
// result needs come last, in the old order.
// The order is nil if there is a cycle, or once the context has ended.
func depthFirst(ctx context.Context, g *ssa.Graph) []*ssa.Node {
	const (
		waiting = iota
		open
		done
	)
	state := make([]uint8, g.NumNodeIDs())
	type frame struct {
		n    *ssa.Node
		next int // operand to visit
	}
	var stack []frame
	out := make([]*ssa.Node, 0, len(g.Nodes))
	enter := func(n *ssa.Node) bool {
		if state[n.ID] == waiting {
			state[n.ID] = open
			stack = append(stack, frame{n, 0})
			return true
		}
		return state[n.ID] == done
	}
	visit := func(n *ssa.Node) bool {
		if !enter(n) {
			return false
		}
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if f.next == len(f.n.In) {
				if len(out)%lookEvery == lookEvery-1 && ctx.Err() != nil {
					return false
				}
				state[f.n.ID] = done
				out = append(out, f.n)
				stack = stack[:len(stack)-1]
				continue
			}
			v := f.n.In[f.next]
			f.next++
			if v != nil && v.Def != nil && !enter(v.Def) {
				return false
			}
		}
		return true
	}
	for _, v := range g.Results {
		if v.Def != nil && !visit(v.Def) {
			return nil
		}
	}
	for _, n := range g.Nodes {
		if !visit(n) {
			return nil
		}
	}
	return out
}
