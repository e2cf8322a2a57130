package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Chains of nodes over constants fold together where single nodes would not: results
// inside the chain may be larger than its operands, and the last one small again.
//
//	rows [16,1] ─▶ Sub [16,16] ─▶ Add ─▶ ReduceSum [16] ─▶ Gather
//	cols [1,16] ─────▲             ▲                         ▲
//	                 1 ────────────┘                         table
//
// A chain ends at a node that nodes outside of it read. The types tell how many bytes
// folding adds to the model: the results at the end, less the constants and nodes that
// no other node needs. The chain is computed only if that is allowed.

const (
	chainBytes = 1 << 20 // the largest result inside a chain, except of operands as large
	nodeBytes  = 64      // the approximate size of a node in a file
)

// chain is the nodes of a graph that depend on nothing but constants.
type chain struct {
	c    *Context
	in   map[*ssa.Node]bool
	made map[*ssa.Value]*ndarray.Array
	kept int // of these when the superfluous ones were last dropped
}

// foldChains folds what the rules of [Fold] left.
func foldChains(c *Context, g *ssa.Graph) {
	k := &chain{c: c, in: map[*ssa.Node]bool{}, made: map[*ssa.Value]*ndarray.Array{}}
	for n := range c.live(g, foldable) {
		if k.fits(n) {
			k.in[n] = true
		}
	}
	if len(k.in) == 0 {
		return
	}
	for n := range c.live(g, foldable) {
		if !k.in[n] || !k.ends(n) || !k.long(n) {
			continue
		}
		nodes, added := k.added(n)
		if added > int64(nodes)*c.opts.Growth.PerNode || !c.mayAddInAll(added) || !k.compute(n) {
			continue
		}
		c.grown += max(added, 0)
		c.patch(n, "a chain of nodes over constants -> constants")
		c.replaceResults(n, func(i int) *ssa.Value { return c.constant(n.Out[i].Name, packed(k.made[n.Out[i]])) })
		k.forget()
	}
}

// forget drops the arrays that nothing reads any more. It looks at all when they have become twice as many.
func (k *chain) forget() {
	if len(k.made) < 2*k.kept {
		return
	}
	for v := range k.made {
		if k.c.dead[v.Def] {
			delete(k.made, v)
		}
	}
	k.kept = max(len(k.made), 16)
}

// fits reports a node that may run ahead of time, with operands from constants and
// the chain, and results of small, known sizes.
func (k *chain) fits(n *ssa.Node) bool {
	if len(n.Bodies) > 0 || !foldable(ops.Of(n)) || !pure(n) {
		return false
	}
	most := chainBytes
	for _, v := range n.In {
		if v == nil {
			continue
		}
		if v.Const == nil && !k.in[v.Def] {
			return false
		}
		if size, ok := v.Type.ByteSize(); ok {
			most = max(most, size)
		}
	}
	for _, v := range n.Out {
		if v == nil {
			continue
		}
		size, ok := v.Type.ByteSize()
		if !v.Type.IsStatic() || !ok || size > most {
			return false
		}
	}
	return true
}

// ends reports that something outside of the chain reads the node.
func (k *chain) ends(n *ssa.Node) bool {
	return slices.ContainsFunc(n.Out, func(v *ssa.Value) bool { return k.c.readBesides(v, k.in) })
}

// long reports that a node before this one is in the chain, too.
func (k *chain) long(n *ssa.Node) bool {
	return slices.ContainsFunc(n.In, func(v *ssa.Value) bool { return v != nil && v.Const == nil })
}

// added is how many nodes become superfluous if the results of a node are stored, and the bytes the model grows by.
func (k *chain) added(end *ssa.Node) (nodes int, sum int64) {
	nodes, bytes := k.c.freed(nil, end)
	sum = -bytes - int64(nodes)*nodeBytes
	for i, v := range end.Out {
		if v != nil && !k.c.unreadResult(end, i) {
			b, _ := v.Type.ByteSize()
			sum += int64(b)
		}
	}
	return nodes, sum
}

// compute runs a node and what it depends on, if that is possible within the limits.
func (k *chain) compute(end *ssa.Node) bool {
	budget := k.c.opts.Growth.Ops
	opened := map[*ssa.Node]bool{} // true once what a node reads is on the stack above it
	var order []*ssa.Node
	for stack := []*ssa.Node{end}; len(stack) > 0; {
		n := stack[len(stack)-1]
		if open, met := opened[n]; met {
			stack = stack[:len(stack)-1]
			if open {
				opened[n] = false
				order = append(order, n)
			}
			continue
		}
		opened[n] = true
		cost := ops.CostOf(n)
		if budget -= cost.FLOPs + cost.Bytes; budget < 0 {
			return false
		}
		for _, v := range n.In {
			if v == nil || v.Const != nil || k.made[v] != nil {
				continue
			}
			if !k.in[v.Def] {
				return false // it could not be computed before
			}
			if _, met := opened[v.Def]; !met {
				stack = append(stack, v.Def)
			}
		}
	}
	for i, n := range order {
		out, ok := k.c.eval(n, k.made)
		if !ok {
			for _, n := range order[i:] {
				delete(k.in, n)
			}
			return false
		}
		for i, v := range n.Out {
			if v != nil {
				k.made[v] = out[i]
			}
		}
	}
	return true
}
