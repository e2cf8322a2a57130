package schedule

import (
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// nestConcats puts operands of concatenations inside the results, larger results
// first; a block goes into one at most.
func (c *counter) nestConcats() {
	var nodes []*ssa.Node
	for _, n := range c.g.Nodes {
		if c.control[n] == nil && static(n) && slices.ContainsFunc(ops.Aliases(n), func(a ops.Alias) bool { return a.Concat }) {
			nodes = append(nodes, n)
		}
	}
	slices.SortStableFunc(nodes, func(a, b *ssa.Node) int {
		x, y := sizeOf(a.Out[0]), sizeOf(b.Out[0])
		if x == y {
			return 0
		} else if x > y {
			return -1
		}
		return 1
	})
	for _, n := range nodes {
		for _, a := range ops.Aliases(n) {
			if !a.Concat || n.Output(a.Out) == nil || n.Input(a.In) == nil {
				continue
			}
			v, r := n.In[a.In], c.place[n.Out[a.Out].ID]
			p := c.place[v.ID]
			if !p.whole() || !r.whole() || v.IsParam() || c.spans[p.root] != nil || c.spans[r.root] != nil {
				continue
			}
			if _, taken := c.inside[p.root]; !taken && p.root != r.root && a.Offset >= 0 && a.Offset+p.n <= r.n {
				c.nest(p.root, r.root, a.Offset)
			}
		}
	}
}

// nestChains puts a block whose only reader writes over it where that reader's
// result lies: the relu between a convolution and a concatenation.
func (c *counter) nestChains() {
	for i := len(c.g.Nodes) - 1; i >= 0; i-- {
		n := c.g.Nodes[i]
		if c.control[n] != nil {
			continue
		}
		for _, a := range ops.InPlacePairs(n) {
			x, y := n.In[a.In], n.Output(a.Out)
			if y == nil || x == nil {
				continue
			}
			p := c.place[x.ID]
			_, nested := c.inside[y]
			_, taken := c.inside[p.root]
			if nested && !taken && p.whole() && p.root.Def != nil && p.n == sizeOf(y) && c.soleReader(p.root, p.root, n) {
				c.nest(p.root, y, 0)
			}
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

func (c *counter) nest(v, of *ssa.Value, off int64) {
	c.inside[v] = member{of, off}
	c.hosts[of] = true
}

// top follows a block to the outermost one that it lies in.
func (c *counter) top(root *ssa.Value) (*ssa.Value, int64) {
	var off int64
	for {
		m, ok := c.inside[root]
		if !ok {
			return root, off
		}
		root, off = m.of, off+m.off
	}
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
