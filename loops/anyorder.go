package loops

import "github.com/berth-onnx/berth/ssa"

// Rotation without an order. When the nodes of a body may run in any order, or at
// once, a value needs as many slots as in the worst order. For the slots of one
// value that is the order which makes it as early as can be: what then still reads
// an older one afterwards does not have to read it before, and so might not.
//
//	q = f(p)      m = g(p)      p <= q
//
//	f, g        q is made while m is yet to read the q before: two slots
//	g, f        one would do, but nothing asks for this order
//	m = g(p), q = f(m)          g surely comes first: one slot
//
// Each value is judged in its own worst order; the ring is a common multiple of
// all of them, as in any other loop.

// earliest is a legal order of a body that brings a node as far to the front as
// its operands allow; otherwise the nodes keep their order.
func earliest(body *ssa.Graph, first *ssa.Node) []*ssa.Node {
	nodes, needed := body.Nodes, make([]bool, body.NumNodeIDs())
	needed[first.ID] = true
	for i := len(nodes) - 1; i >= 0; i-- {
		if !needed[nodes[i].ID] {
			continue
		}
		for _, v := range nodes[i].In {
			if v != nil && v.Def != nil {
				needed[v.Def.ID] = true
			}
		}
	}
	front, back := make([]*ssa.Node, 0, len(nodes)), []*ssa.Node(nil)
	for _, n := range nodes {
		if needed[n.ID] {
			front = append(front, n)
		} else {
			back = append(back, n)
		}
	}
	return append(front, back...)
}
