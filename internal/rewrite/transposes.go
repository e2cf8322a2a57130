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
// Every patch removes at least one transpose. Other nodes cost the same, because
// elementwise operators do not depend on the order of dimensions.
var Transposes = &Pass{
	Name: "transposes", Doc: "transposes around elementwise nodes and Concat -> fewer",
	rules: []rule{
		{"Transpose, elementwise nodes, Transpose -> the nodes, one Transpose", named("Transpose"), sinkTranspose},
		{"Transposes, Concat -> Concat, Transpose", named("Concat"), joinTransposes},
		{"Transposes, elementwise node -> the node, Transpose", with(anyLayout), joinTransposes},
	},
}

// anyLayout reports an operator that commutes with the transposition of all its operands.
func anyLayout(f *ops.Facts) bool {
	return f.Access == ops.Elementwise && f.Randomness == ops.Deterministic
}

// carriesOver reports an elementwise node with one tensor operand, v; its other
// operands are single elements, which broadcast the same in any order.
func carriesOver(n *ssa.Node, v *ssa.Value) bool {
	o := ops.Of(n)
	if o == nil || !anyLayout(&o.Facts) || len(n.Out) != 1 {
		return false
	}
	return !slices.ContainsFunc(n.In, func(w *ssa.Value) bool { return w != nil && w != v && !isElement(w, v.Type.Rank()) })
}

// isElement reports a constant of one element that broadcasts to a rank without
// changing it.
func isElement(v *ssa.Value, rank int) bool {
	return v != nil && v.Const != nil && v.Const.Len() == 1 && len(v.Const.Shape()) <= rank
}

// sinkTranspose follows the single readers of a transpose to the next transpose.
func sinkTranspose(c *Context, n *ssa.Node) bool {
	v := n.Out[0]
	var row []*ssa.Node
	for {
		m := soleReader(c, v)
		switch {
		case m == nil:
			return false
		case is(m, "Transpose"):
			return len(row) > 0 && c.carryTranspose(n, row, m) // neighbours are merged by views
		case !carriesOver(m, v):
			return false
		}
		row = append(row, m)
		v = m.Out[0]
	}
}

// soleReader returns the only node that reads v (as any operand), nil if
// there are several, none, or v leaves the graph.
func soleReader(c *Context, v *ssa.Value) *ssa.Node {
	if len(v.Uses()) == 0 || !c.only(v, v.Uses()[0].Node) {
		return nil
	}
	return v.Uses()[0].Node
}

// carryTranspose rebuilds the row on the operand of the first transpose, and composes
// both permutations behind it.
func (c *Context) carryTranspose(first *ssa.Node, row []*ssa.Node, last *ssa.Node) bool {
	p, q := permOf(first), permOf(last)
	if p == nil || len(q) != len(p) {
		return false
	}
	v, old := first.In[0], first.Out[0]
	for _, n := range row {
		v, old = c.copyNode(n, swapped(n.In, old, v)).Out[0], n.Out[0]
	}
	return c.becomeTranspose(last, v, composed(q, p))
}

// swapped returns operands with one value replaced by another.
func swapped(in []*ssa.Value, old, v *ssa.Value) []*ssa.Value {
	out := slices.Clone(in)
	for i, w := range out {
		if w == old {
			out[i] = v
		}
	}
	return out
}

// joinTransposes: all operands are transposed alike (for elementwise operators, single
// elements aside) and no other node reads them.
func joinTransposes(c *Context, n *ssa.Node) bool {
	var p []int64
	count, concat := 0, is(n, "Concat")
	var in []*ssa.Value
	for i, v := range n.In {
		if !concat && isElement(v, n.Out[0].Type.Rank()) {
			continue
		}
		t := def(v, "Transpose")
		if t == nil || !c.only(v, n) || permOf(t) == nil || p != nil && !slices.Equal(p, permOf(t)) {
			return false
		}
		if in == nil {
			in = slices.Clone(n.In)
		}
		p, in[i] = permOf(t), t.In[0]
		count++
	}
	if count < 2 || len(p) != n.Out[0].Type.Rank() || len(n.Out) != 1 || !concat && !sameRanks(in, len(p)) {
		return false
	}
	m := c.copyNode(n, in, func(m *ssa.Node) {
		if concat {
			m.SetAttr(ssa.IntAttr("axis", p[normalAxis(n, len(p))]))
		}
	})
	return c.becomeTranspose(n, m.Out[0], p)
}

// sameRanks reports that operands that are no single elements have the rank.
func sameRanks(in []*ssa.Value, rank int) bool {
	return !slices.ContainsFunc(in, func(v *ssa.Value) bool {
		return v != nil && v.Type.Rank() != rank && (v.Const == nil || v.Const.Len() != 1)
	})
}
