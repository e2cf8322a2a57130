package gradient

import (
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// formula writes what a node computes with operators that have rules, nil for results that it leaves out.
type formula func(g *builder, n *ssa.Node) []*ssa.Value

// byFormula makes the rule of an operator that stands for a formula: the formula is written out from the
// node's operands and differentiated. The node itself stays; what the derivative needs of the
// formula's values is computed in the backward pass.
func byFormula(f formula) rule {
	return func(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
		outer := g.made
		g.made = nil
		results := f(g, n)
		path := slices.Clone(g.made)
		g.made = append(outer, g.made...)
		if g.err != nil {
			return nil
		}
		inner := newBuilder(g.ctx, g.graph, g.before)
		inner.last, inner.entered = g.last, g.entered
		for i, v := range n.In {
			if g.wants(n, i) {
				inner.active[v] = true
			}
		}
		inner.markActive(path)
		for i, d := range dy {
			switch {
			case d == nil:
			case i >= len(results) || results[i] == nil:
				g.refuse(n, "the derivative of one of its results is not known", "leave that result out")
				return nil
			case inner.active[results[i]]:
				inner.send(results[i], d)
			}
		}
		inner.reverse(path)
		g.made = append(g.made, inner.made...)
		if inner.err != nil {
			g.fail(n, inner.err)
			return nil
		}
		return inner.adjointsOnce(n.In)
	}
}

// adjointsOnce lists the adjoints of operands; that of a value among them several times comes once.
func (g *builder) adjointsOnce(in []*ssa.Value) []*ssa.Value {
	out := make([]*ssa.Value, len(in))
	for i, v := range in {
		if v != nil && !slices.Contains(in[:i], v) {
			out[i] = g.adj[v]
		}
	}
	return out
}
