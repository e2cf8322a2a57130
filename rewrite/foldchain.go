package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Chains of nodes over constants fold together where one at a time would not: the
// results on the way may be larger than what they are made of, and the last one
// small again.
//
//	rows [16,1] ─▶ Sub [16,16] ─▶ Add ─▶ ReduceSum [16] ─▶ Gather
//	cols [1,16] ─────▲             ▲                         ▲
//	                 1 ────────────┘                         table
//
// A chain ends where a node outside of it reads. What it would add to the model is
// known from the types: the results at its end, less the constants and the nodes
// that nobody else needs. Only then is it computed.

const (
	chainBytes = 1 << 20 // the largest result inside a chain, except of operands as large
	nodeBytes  = 64      // about what a node takes in a file
)

// chain is the nodes of a graph that depend on nothing but constants.
type chain struct {
	c    *Context
	in   map[*ssa.Node]bool
	made map[*ssa.Value]*ndarray.Array
}

// foldChains folds what [runFold] left.
func (c *Context) foldChains(g *ssa.Graph) {
	k := &chain{c: c, in: map[*ssa.Node]bool{}, made: map[*ssa.Value]*ndarray.Array{}}
	order := slices.Clone(g.Nodes)
	for _, n := range order {
		if c.alive(n) && k.fits(n) {
			k.in[n] = true
		}
	}
	for _, n := range order {
		if !k.in[n] || !c.alive(n) || !k.ends(n) || !k.long(n) {
			continue
		}
		added := k.added(n)
		if added > c.opts.Growth.PerNode || added > 0 && c.grown+added > c.opts.Growth.Total {
			c.skip(n, "would add %d bytes, with all before it", added)
			continue
		}
		if why := k.compute(n); why != "" {
			c.skip(n, "%s", why)
			continue
		}
		if !c.patch(n, "depends on constants alone, %+d bytes", added) {
			return
		}
		c.grown += max(added, 0)
		for i, v := range n.Out {
			if v != nil && c.alive(n) && !c.unreadResult(n, i) {
				c.replace(v, c.constant(v.Name, packed(k.made[v])))
			}
		}
		for v := range k.made {
			if c.dead[v.Def] {
				delete(k.made, v)
			}
		}
	}
}

// fits reports a node that may run ahead of time, with operands from constants and
// the chain, and results of small, known sizes.
func (k *chain) fits(n *ssa.Node) bool {
	if len(n.Bodies) > 0 || len(n.Out) == 0 || !mayFold(n) {
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
	for _, v := range n.Out {
		if v == nil {
			continue
		}
		if k.c.graph.IsResult(v) || slices.ContainsFunc(v.Uses(), func(u ssa.Use) bool { return !k.in[u.Node] }) {
			return true
		}
	}
	return false
}

// long reports that a node before this one is in the chain, too.
func (k *chain) long(n *ssa.Node) bool {
	return slices.ContainsFunc(n.In, func(v *ssa.Value) bool { return v != nil && v.Const == nil })
}

// added is what the model grows by if the results of a node are stored.
func (k *chain) added(end *ssa.Node) int64 {
	var sum int64
	for i, v := range end.Out {
		if v != nil && !k.c.unreadResult(end, i) {
			b, _ := v.Type.ByteSize()
			sum += int64(b)
		}
	}
	gone := map[*ssa.Node]bool{end: true}
	counted := map[*ssa.Value]bool{}
	for stack := []*ssa.Node{end}; len(stack) > 0; {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		sum -= nodeBytes
		for _, v := range n.In {
			switch {
			case v == nil || counted[v] || !k.readBy(v, gone):
			case v.Const != nil:
				counted[v] = true
				sum -= v.Const.StoredBytes()
			case !gone[v.Def] && !slices.ContainsFunc(v.Def.Out, func(o *ssa.Value) bool { return o != nil && !k.readBy(o, gone) }):
				gone[v.Def] = true
				stack = append(stack, v.Def)
			}
		}
	}
	return sum
}

// readBy reports that a value has no readers but these.
func (k *chain) readBy(v *ssa.Value, nodes map[*ssa.Node]bool) bool {
	return !k.c.graph.IsResult(v) && !slices.ContainsFunc(v.Uses(), func(u ssa.Use) bool { return !nodes[u.Node] })
}

// compute runs a node and what it depends on; why says why not.
func (k *chain) compute(end *ssa.Node) (why string) {
	var need []*ssa.Node
	seen := map[*ssa.Node]bool{end: true}
	for stack := []*ssa.Node{end}; len(stack) > 0; {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		need = append(need, n)
		for _, v := range n.In {
			if v != nil && v.Const == nil && k.made[v] == nil && !seen[v.Def] {
				seen[v.Def] = true
				stack = append(stack, v.Def)
			}
		}
	}
	budget := k.c.opts.Growth.Ops
	for _, n := range need {
		cost := ops.CostOf(n)
		if budget -= cost.FLOPs + cost.Bytes; budget < 0 {
			return "takes too many operations, with all before it"
		}
	}
	for _, n := range k.c.graph.Nodes {
		if seen[n] {
			if why := k.run(n); why != "" {
				return why
			}
		}
	}
	return ""
}

// run computes one node from what is made.
func (k *chain) run(n *ssa.Node) (why string) {
	in := make([]ndarray.Value, len(n.In))
	for i, v := range n.In {
		if v == nil {
			continue
		}
		if a := k.made[v]; a != nil {
			in[i] = a
			continue
		}
		a, err := constArray(v)
		if err != nil {
			return err.Error()
		}
		in[i] = a
	}
	out, why := k.c.eval(n, in)
	for i, v := range n.Out {
		if v != nil && why == "" {
			k.made[v] = out[i]
		}
	}
	return why
}
