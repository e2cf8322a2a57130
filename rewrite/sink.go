package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// SinkConstants gives every body its own reference to the constants it captured,
// so that folding sees them inside. The elements are shared, not copied.
//
//	k = const; Loop(… | k) { p: f(p) }   ->   Loop(…) { k = const; f(k) }
var SinkConstants = &Pass{
	Name: "sink-constants", Doc: "a captured constant -> a constant of the body", Required: true, Makes: ConstSunk, every: true,
	rules: []rule{{"captured constants -> constants of the bodies", anyOp, sinkConstants}},
}

func sinkConstants(c *Context, n *ssa.Node) bool {
	captured := n.Captures
	for k := n.Captures - 1; k >= 0; k-- {
		v := n.Captured()[k]
		if v.Const == nil {
			continue
		}
		for _, b := range n.Bodies {
			b.ReplaceUses(captureParam(n, b, k), b.AddConst(c.fresh(v.Name), v.Const))
		}
		removeCapture(n, k)
	}
	return n.Captures < captured
}

// HoistConstants keeps constants that several graphs share in the outermost
// graph only, captured by the bodies, so that a written file holds them once.
var HoistConstants = &Pass{
	Name: "hoist-constants", Doc: "a large constant that several graphs hold -> one, captured", Breaks: ConstSunk,
	after: hoistConstants,
}

// hoistBytes is the size from which a second copy in the file matters.
const hoistBytes = 256

// hoistConstants does its work once, from the model's graph.
func hoistConstants(c *Context, g *ssa.Graph) {
	if !c.top() {
		return
	}
	h := &hoister{c: c, holders: map[*ssa.Constant]int{}}
	h.count(g)
	h.graph(g, nil)
}

type hoister struct {
	c       *Context
	holders map[*ssa.Constant]int // graphs that hold the constant
}

func (h *hoister) count(g *ssa.Graph) {
	g.Walk(func(b *ssa.Graph) {
		seen := map[*ssa.Constant]bool{}
		for _, v := range b.Values() {
			if v.Const != nil && !seen[v.Const] && (len(v.Uses()) > 0 || b.IsResult(v)) {
				seen[v.Const] = true
				h.holders[v.Const]++
			}
		}
	})
}

// graph replaces shared constants in the bodies below g. outer leads from the
// model's graph down to g.
func (h *hoister) graph(g *ssa.Graph, outer []*level) {
	for _, n := range g.Nodes {
		for i, b := range n.Bodies {
			path := append(outer[:len(outer):len(outer)], &level{g, n, i})
			if n.Opaque {
				continue
			}
			for _, v := range b.Values() {
				if v.Const == nil || len(v.Uses()) == 0 && !b.IsResult(v) || h.holders[v.Const] < 2 || v.Const.StoredBytes() <= hoistBytes {
					continue
				}
				b.ReplaceUses(v, h.bring(v, path))
				h.c.patch(n, "constants of several graphs -> one, captured")
			}
			h.graph(b, path)
		}
	}
}

// level is one step down: body index body of node owner in graph g.
type level struct {
	g     *ssa.Graph
	owner *ssa.Node
	body  int
}

// bring makes a constant available in the innermost body of path by captures.
func (h *hoister) bring(v *ssa.Value, path []*level) *ssa.Value {
	here := h.holder(path[0].g, v)
	for _, l := range path {
		here = h.captured(l, here)
	}
	return here
}

// holder returns the value of g that is the constant.
func (h *hoister) holder(g *ssa.Graph, v *ssa.Value) *ssa.Value {
	for _, w := range g.Values() {
		if w.Const == v.Const {
			return w
		}
	}
	return g.AddConst(h.c.fresh(v.Name), v.Const)
}

// captured returns the body's parameter for v, capturing it if it is not yet.
func (h *hoister) captured(l *level, v *ssa.Value) *ssa.Value {
	if k := slices.Index(l.owner.Captured(), v); k >= 0 {
		return captureParam(l.owner, l.owner.Bodies[l.body], k)
	}
	return h.c.addCapture(l.owner, v)[l.body]
}
