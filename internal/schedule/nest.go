package schedule

import (
	"slices"
	"sort"

	"github.com/berth-onnx/berth/alias"
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
// results first. What may be placed there without a decision of this level
// becomes ambiguous: results of control flow, values that a loop carries.
func (c *counter) operands() []operand {
	var out []operand
	index, seen := map[*ssa.Value]int{}, map[[2]*ssa.Value]bool{}
	for _, x := range c.concats() {
		v, r := x.node.In[x.In], x.node.Out[x.Out]
		p := c.place[v.ID]
		switch {
		case v.Const != nil || !c.place[r.ID].whole():
			continue
		case p.root == nil:
			for _, q := range p.regions {
				c.ambiguousRegions[q] = true
			}
			continue
		case !p.whole() || p.root == r || x.Offset < 0 || x.Offset+p.n > sizeOf(r):
			continue
		case p.root.Def == nil:
			c.ambiguous[p.root] = true
			continue
		}
		if p := c.carriedBy[p.root]; p != nil {
			c.ambiguous[p] = true // may lie in the result, too
		}
		k, ok := index[p.root]
		if !ok {
			k = len(out)
			index[p.root] = k
			out = append(out, operand{root: p.root})
		}
		if at := [2]*ssa.Value{p.root, r}; !seen[at] {
			seen[at] = true
			out[k].homes = append(out[k].homes, member{of: r, off: x.Offset})
		}
	}
	return out
}

// joined is an operand of a concatenation.
type joined struct {
	alias.Part
	node *ssa.Node
}

// concats lists the operands that could lie in results, largest result first.
func (c *counter) concats() []joined {
	var out []joined
	for _, n := range c.g.Nodes {
		if c.control[n] == nil {
			for _, p := range alias.Parts(n) {
				out = append(out, joined{p, n})
			}
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return sizeOf(out[i].node.Out[0]) > sizeOf(out[j].node.Out[0]) })
	return out
}

// nestConcats puts operands of concatenations inside the results.
//
// Left open, an operand with one home shares its bytes with that, as contents: it
// is counted once whether it is copied or not. With several homes only one of them
// can share; which one is open, so its readers keep no block live.
func (c *counter) nestConcats() {
	for _, o := range c.operands() {
		home, decided := c.how.decided[o.root]
		switch {
		case decided:
			for _, m := range o.homes {
				if m.of == home {
					c.nest(o.root, m, true)
				}
			}
		case len(o.homes) == 1:
			c.nest(o.root, o.homes[0], false)
			c.unround(o.root)
		default:
			c.ambiguous[o.root] = true
			c.unround(o.root)
		}
	}
}

func (c *counter) nest(v *ssa.Value, m member, fixed bool) {
	m.fixed = fixed
	c.inside[v] = m
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
// else) it lies inside as well. Where it is not sure, x may be there and cost
// nothing: it becomes ambiguous.
func (c *counter) nestChain(v *ssa.Value) {
	n := v.Def
	if n == nil || c.control[n] != nil {
		return
	}
	roots := c.overwritten(v, c.staying(n, v.DefIndex, ops.InPlacePairs(n)))
	for _, x := range roots {
		_, taken := c.inside[x]
		if !taken && len(roots) == 1 && x.Def != nil && !c.ambiguous[x] && c.soleReader(x, x, n) {
			c.nest(x, member{of: v}, true)
		} else {
			c.makeAmbiguous(x)
		}
	}
}

// unround notes that the blocks which a block may be written over may lie inside of
// another one with it: there they take no more than their bytes.
func (c *counter) unround(v *ssa.Value) {
	if c.exact[v] || v.Def == nil || c.control[v.Def] != nil {
		return
	}
	c.exact[v] = true
	for _, x := range c.overwritten(v, nil) {
		c.unround(x)
	}
}

// overwritten lists the blocks of v's size that v may be written over, but for those that stay. What control
// flow left behind becomes ambiguous.
func (c *counter) overwritten(v *ssa.Value, stays []*ssa.Value) []*ssa.Value {
	var roots []*ssa.Value
	for _, a := range ops.InPlacePairs(v.Def) {
		x := v.Def.Input(a.In)
		if a.Out != v.DefIndex || x == nil || x.Const != nil || sizeOf(x) != sizeOf(v) {
			continue
		}
		p := c.place[x.ID]
		for _, q := range p.regions {
			c.ambiguousRegions[q] = true
		}
		if p.whole() && !slices.Contains(roots, p.root) && !slices.Contains(stays, p.root) {
			roots = append(roots, p.root)
		}
	}
	return roots
}

// makeAmbiguous makes a block ambiguous, and all that it may be written over.
func (c *counter) makeAmbiguous(v *ssa.Value) {
	if c.ambiguous[v] {
		return
	}
	c.ambiguous[v] = true
	if v.Def == nil || c.control[v.Def] != nil {
		return
	}
	for _, x := range c.overwritten(v, nil) {
		c.makeAmbiguous(x)
	}
}

// soleReader reports whether nothing but n reads v, which shows all of a block,
// views aside.
func (c *counter) soleReader(v, root *ssa.Value, n *ssa.Node) bool {
	if c.g.IsResult(v) {
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
