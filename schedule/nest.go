package schedule

import (
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// operand is a block that concatenations read whole, and the places in their
// results where it could be made instead.
type operand struct {
	root  *ssa.Value
	homes []member
}

// operands lists what could be made inside the results of concatenations, larger
// results first. Bytes that may be made so in a way that no choice of this level
// speaks of become loose: windows that may be copies, results of control flow.
func (c *counter) operands() []operand {
	var out []operand
	index := map[*ssa.Value]int{}
	for _, n := range c.concatNodes() {
		for _, a := range ops.Aliases(n) {
			v, r := n.Input(a.In), n.Output(a.Out)
			if !a.Concat || v == nil || r == nil || v.Const != nil || !c.place[r.ID].whole() {
				continue
			}
			p := c.place[v.ID]
			switch {
			case p.root == nil:
				for _, q := range p.regions {
					c.adrift[q] = c.how.least
				}
				continue
			case !p.whole():
				c.loose[p.spot] = c.how.least && c.how.windows == open
				continue
			case p.root.Def == nil || p.root == r || c.spans[p.root] != nil || c.spans[r] != nil:
				continue
			case a.Offset < 0 || a.Offset+p.n > sizeOf(r):
				continue
			}
			k, ok := index[p.root]
			if !ok {
				k = len(out)
				index[p.root] = k
				out = append(out, operand{root: p.root})
			}
			if !slices.ContainsFunc(out[k].homes, func(m member) bool { return m.of == r }) {
				out[k].homes = append(out[k].homes, member{of: r, off: a.Offset})
			}
		}
	}
	return out
}

// concatNodes lists the nodes with operands that lie in results, largest result
// first.
func (c *counter) concatNodes() []*ssa.Node {
	var nodes []*ssa.Node
	for _, n := range c.g.Nodes {
		if c.control[n] == nil && static(n) && slices.ContainsFunc(ops.Aliases(n), func(a ops.Alias) bool { return a.Concat }) {
			nodes = append(nodes, n)
		}
	}
	slices.SortStableFunc(nodes, func(a, b *ssa.Node) int {
		x, y := sizeOf(a.Out[0]), sizeOf(b.Out[0])
		return int(min(max(y-x, -1), 1))
	})
	return nodes
}

// nestConcats puts operands of concatenations inside the results.
//
// Left open, an operand with one home shares its bytes with that, as contents: it
// is counted once whether it is copied or not. With several homes only one of them
// can share, nobody knows which, and so its readers count nothing.
func (c *counter) nestConcats() {
	for _, o := range c.operands() {
		home, decided := c.how.decided[o.root]
		switch {
		case c.how.concats == yes:
			c.nest(o.root, o.homes[0], true)
		case decided && home != nil:
			for _, m := range o.homes {
				if m.of == home {
					c.nest(o.root, m, true)
				}
			}
		case decided:
		case len(o.homes) == 1:
			c.nest(o.root, o.homes[0], false)
		default:
			c.loose[wholeOf(o.root)] = true
		}
	}
}

func (c *counter) nest(v *ssa.Value, m member, fixed bool) {
	m.fixed = fixed
	c.inside[v] = m
	c.hosts[m.of] = true
	if fixed {
		c.nestChain(v)
	}
}

// nestChain follows a block that lies inside another back over results written
// over operands: the relu between a convolution and a concatenation.
//
//	conv ─x─▶ relu ─v─▶ concat       v is made inside the concatenation's result,
//	                                 so x, which v is written over, is too
//
// If x surely is written over (only this node reads it, and v can go nowhere
// else) it lies inside as well. Where the least counts and it is not sure, x may be
// there and cost nothing: it becomes loose.
func (c *counter) nestChain(v *ssa.Value) {
	n := v.Def
	if n == nil || c.control[n] != nil {
		return
	}
	pairs := ops.InPlacePairs(n)
	var roots []*ssa.Value
	for _, a := range pairs {
		x := n.Input(a.In)
		if a.Out != v.DefIndex || x == nil || x.Const != nil || sizeOf(x) != sizeOf(v) {
			continue
		}
		p := c.place[x.ID]
		if p.root == nil {
			for _, q := range p.regions {
				c.adrift[q] = c.adrift[q] || c.how.least
			}
		} else if p.whole() && !slices.Contains(roots, p.root) && c.through(n, p.root, a.Out, pairs) {
			roots = append(roots, p.root)
		}
	}
	for _, x := range roots {
		_, taken := c.inside[x]
		if !taken && len(roots) == 1 && x.Def != nil && !c.loose[wholeOf(x)] && c.soleReader(x, x, n) {
			c.nest(x, member{of: v}, true)
		} else if c.how.least {
			c.loosen(x)
		}
	}
}

// loosen makes a block loose, and all that it may be written over.
func (c *counter) loosen(v *ssa.Value) {
	if c.loose[wholeOf(v)] {
		return
	}
	c.loose[wholeOf(v)] = true
	if v.Def == nil || c.control[v.Def] != nil {
		return
	}
	for _, a := range ops.InPlacePairs(v.Def) {
		x := v.Def.Input(a.In)
		if a.Out != v.DefIndex || x == nil || x.Const != nil || sizeOf(x) != sizeOf(v) {
			continue
		}
		p := c.place[x.ID]
		if p.root == nil {
			for _, q := range p.regions {
				c.adrift[q] = true
			}
		} else if p.whole() {
			c.loosen(p.root)
		}
	}
}

// soleReader reports whether nothing but n reads v, which shows all of a block,
// views aside.
func (c *counter) soleReader(v, root *ssa.Value, n *ssa.Node) bool {
	if c.spans[root] != nil || c.g.IsResult(v) {
		return false
	}
	for _, u := range v.Uses() {
		if u.Node == n {
			continue
		}
		for _, o := range u.Node.Out {
			if o == nil || c.place[o.ID].root != root || !c.soleReader(o, root, n) {
				return false
			}
		}
	}
	return true
}

// static reports whether all types of a node are known.
func static(n *ssa.Node) bool {
	for _, vs := range [2][]*ssa.Value{n.In, n.Out} {
		for _, v := range vs {
			if v != nil && !v.Type.IsStatic() {
				return false
			}
		}
	}
	return true
}
