package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Transposes moves transposes towards each other, where that leaves fewer:
//
//	Transpose(p), f, g, Transpose(q)      -> f, g, Transpose(p∘q)      f, g elementwise
//	Transpose(p) and Transpose(p), Add    -> Add, Transpose(p)
//	Transpose(p)s, Concat                 -> Concat on the other axis, Transpose(p)
//
// Every patch takes at least one transpose away; nothing else gets dearer, because
// elementwise operators do not mind the order of dimensions.
var Transposes = &Pass{
	Name: "transposes", Doc: "transposes around elementwise nodes and Concat -> fewer",
	run: func(c *Context, g *ssa.Graph) error {
		for _, n := range slices.Clone(g.Nodes) {
			if !c.alive(n) || n.Opaque || n.Domain != "" || len(n.Out) == 0 || c.unread(n) {
				continue
			}
			var err error
			switch {
			case n.Op == "Transpose":
				err = c.sinkTranspose(n)
			case n.Op == "Concat":
				err = c.joinTransposes(n, true)
			case len(n.In) > 1 && pure(n) && ops.Of(n).Facts.Elementwise:
				err = c.joinTransposes(n, false)
			}
			if err != nil {
				return err
			}
		}
		return nil
	},
}

// carriesOver reports an elementwise node with one tensor operand, v; its other
// operands are single elements, which broadcast the same in any order.
func carriesOver(n *ssa.Node, v *ssa.Value) bool {
	o := ops.Of(n)
	if o == nil || !o.Facts.Elementwise || !pure(n) || len(n.Out) != 1 || n.Op == "BitCast" || n.Op == "PRelu" || n.Has("axis") {
		return false
	}
	seen := 0
	for _, w := range n.In {
		switch {
		case w == nil:
		case w == v:
			seen++
		case w.Const == nil || w.Const.Len() != 1 || len(w.Const.Shape()) > v.Type.Rank():
			return false
		}
	}
	return seen > 0
}

// sinkTranspose follows the single readers of a transpose to the next transpose.
func (c *Context) sinkTranspose(n *ssa.Node) error {
	p := permOf(n)
	if p == nil {
		return nil
	}
	v := n.Out[0]
	var row []*ssa.Node
	for {
		m := soleReader(c, v)
		if m == nil {
			return nil
		}
		if is(m, "Transpose") {
			if len(row) == 0 {
				return nil // neighbours: merged by views
			}
			return c.carryTranspose(n, row, m, p)
		}
		if !carriesOver(m, v) {
			return nil
		}
		row = append(row, m)
		v = m.Out[0]
	}
}

// soleReader returns the only node that reads v (in whatever places), nil if
// there are several, none, or v leaves the graph.
func soleReader(c *Context, v *ssa.Value) *ssa.Node {
	if len(v.Uses()) == 0 || !c.only(v, v.Uses()[0].Node) {
		return nil
	}
	return v.Uses()[0].Node
}

// carryTranspose rebuilds the row on the operand of the first transpose and puts
// both permutations at its end.
func (c *Context) carryTranspose(first *ssa.Node, row []*ssa.Node, last *ssa.Node, p []int64) error {
	q := permOf(last)
	if q == nil || len(q) != len(p) || !c.patch(first, "moves down to %s", last) {
		return nil
	}
	v, old := first.In[0], first.Out[0]
	for _, n := range row {
		m, err := c.copyNode(n, swapped(n.In, old, v))
		if err != nil {
			return err
		}
		v, old = m.Out[0], n.Out[0]
	}
	r := make([]int64, len(p))
	for i, x := range q {
		r[i] = p[x]
	}
	if isIdentityPerm(r) {
		c.replace(last.Out[0], v)
		return nil
	}
	t, err := c.node(last, last.Out[0].Name, "Transpose", []*ssa.Value{v}, 1, ssa.IntsAttr("perm", r...))
	if err != nil {
		return err
	}
	c.replace(last.Out[0], t.Out[0])
	return nil
}

// swapped returns operands with one value in the place of another.
func swapped(in []*ssa.Value, old, v *ssa.Value) []*ssa.Value {
	out := slices.Clone(in)
	for i, w := range out {
		if w == old {
			out[i] = v
		}
	}
	return out
}

// joinTransposes: all operands are transposed alike (single elements aside) and
// nobody else reads them.
func (c *Context) joinTransposes(n *ssa.Node, concat bool) error {
	var p []int64
	count := 0
	in := slices.Clone(n.In)
	for i, v := range n.In {
		if v != nil && !concat && v.Const != nil && v.Const.Len() == 1 && len(v.Const.Shape()) <= n.Out[0].Type.Rank() {
			continue
		}
		t := def(v, "Transpose")
		if t == nil || !c.only(v, n) || permOf(t) == nil || p != nil && !slices.Equal(p, permOf(t)) {
			return nil
		}
		p, in[i] = permOf(t), t.In[0]
		count++
	}
	if count < 2 || len(p) != n.Out[0].Type.Rank() || len(n.Out) != 1 || n.Op == "PRelu" || n.Has("axis") && !concat {
		return nil
	}
	if !concat && !sameRanks(in, len(p)) || !c.patch(n, "its %d operands are transposed alike", count) {
		return nil
	}
	m, err := c.copyNodeWith(n, in, func(m *ssa.Node) {
		if concat {
			m.SetAttr(ssa.IntAttr("axis", p[normalAxis(n, len(p))]))
		}
	})
	if err != nil {
		return err
	}
	t, err := c.node(n, n.Out[0].Name, "Transpose", []*ssa.Value{m.Out[0]}, 1, ssa.IntsAttr("perm", p...))
	if err != nil {
		return err
	}
	c.replace(n.Out[0], t.Out[0])
	return nil
}

// sameRanks reports that operands that are no single elements have the rank.
func sameRanks(in []*ssa.Value, rank int) bool {
	return !slices.ContainsFunc(in, func(v *ssa.Value) bool {
		return v != nil && v.Type.Rank() != rank && (v.Const == nil || v.Const.Len() != 1)
	})
}
