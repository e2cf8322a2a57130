package schedule

import (
	"context"
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// breadthFirst is the symbolic compiler's order. Every storage unit moves through four
// sets:
//
//	unknown ──▶ act ──▶ hot ──▶ rec
//	            │       │       └ recycled: everyone that reads it has run
//	            │       └ computed, its memory in use
//	            └ activated: all it depends on is hot
//
// The node at the head of the queue of activated ones runs next, so nodes run in
// the order in which they became ready: breadth first. (The original picks from
// act at random; first come, first served makes the order reproducible.) The
// hot set at each step is what liveness later finds from the order alone.
//
// Source: S. Zhu, N. Xu, Buffer allocation algorithm for Symbolic Compiler, 2016.
// The order is nil if there is a cycle, or once the context has ended.
func breadthFirst(ctx context.Context, g *ssa.Graph) []*ssa.Node {
	waiting := make([]int, g.NumNodeIDs()) // operands that are still unknown
	var act []*ssa.Node
	for i, n := range g.Nodes {
		if i%lookEvery == 0 && ctx.Err() != nil {
			return nil
		}
		for _, v := range n.In {
			if v != nil && v.Def != nil {
				waiting[n.ID]++
			}
		}
		if waiting[n.ID] == 0 {
			act = append(act, n)
		}
	}
	done := make([]*ssa.Node, 0, len(g.Nodes))
	for len(act) > 0 {
		if len(done)%lookEvery == 0 && ctx.Err() != nil {
			return nil
		}
		n := act[0]
		act = act[1:]
		done = append(done, n)
		for _, v := range n.Out {
			if v == nil {
				continue
			}
			for _, reader := range inOrder(v) {
				if waiting[reader.ID]--; waiting[reader.ID] == 0 {
					act = append(act, reader)
				}
			}
		}
	}
	if len(done) != len(g.Nodes) {
		return nil
	}
	return done
}

// inOrder returns the node of each of a value's uses, sorted by id, so that the order does not
// depend on the history of the graph.
func inOrder(v *ssa.Value) []*ssa.Node {
	readers := make([]*ssa.Node, 0, len(v.Uses()))
	for _, u := range v.Uses() {
		readers = append(readers, u.Node)
	}
	slices.SortFunc(readers, func(a, b *ssa.Node) int { return a.ID - b.ID })
	return readers
}
