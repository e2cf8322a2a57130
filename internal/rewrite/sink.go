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
	Name: "sink-constants", Doc: "a captured constant -> a constant of the body", Required: true, every: true,
	rules: []rule{{"captured constants -> constants of the bodies", anyOp, sinkConstants}},
}

func sinkConstants(c *Context, n *ssa.Node) bool {
	drop := make([]bool, n.Captures)
	sunk := false
	for k, v := range slices.Backward(n.Captured()) {
		if c.ctx.Err() != nil {
			break
		}
		if v.Const == nil {
			continue
		}
		for _, b := range n.Bodies {
			b.ReplaceUses(captureParam(n, b, k), b.AddConst(c.fresh(v.Name), v.Const))
		}
		drop[k], sunk = true, true
	}
	if sunk {
		removeCaptures(n, drop)
	}
	return sunk
}

// HoistConstants keeps constants that several graphs share in the outermost
// graph only, captured by the bodies, so that a written file holds them once.
var HoistConstants = &Pass{
	Name: "hoist-constants", Doc: "a large constant that several graphs hold -> one, captured",
	after: hoistConstants,
}

// hoistBytes is the size up to which constants may stand in a file more than once.
const hoistBytes = 256

// hoistConstants runs once, on the model's graph with all bodies.
func hoistConstants(c *Context, g *ssa.Graph) {
	if c.top() {
		h := &hoister{c: c, holders: map[*ssa.Constant]int{}}
		h.count(g)
		h.graph(g, nil)
	}
}

type hoister struct {
	c       *Context
	holders map[*ssa.Constant]int // graphs that hold the constant
}

func (h *hoister) count(g *ssa.Graph) {
	g.Walk(func(b *ssa.Graph) {
		seen := map[*ssa.Constant]bool{}
		for _, v := range b.Values() {
			if v.Const != nil && !seen[v.Const] && isRead(b, v) {
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
				if v.Const == nil || !isRead(b, v) || h.holders[v.Const] < 2 || v.Const.StoredBytes() <= hoistBytes {
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

// bring captures a constant in all bodies of a path, and returns its value in the innermost.
func (h *hoister) bring(v *ssa.Value, path []*level) *ssa.Value {
	g := path[0].g
	values := g.Values()
	at := slices.IndexFunc(values, func(w *ssa.Value) bool { return w.Const == v.Const })
	if at < 0 {
		values, at = append(values, g.AddConst(h.c.fresh(v.Name), v.Const)), len(values)
	}
	here := values[at]
	for _, l := range path {
		here = h.captured(l, here)
	}
	return here
}

// captured returns the body's parameter for v, capturing it if it is not yet.
func (h *hoister) captured(l *level, v *ssa.Value) *ssa.Value {
	if k := slices.Index(l.owner.Captured(), v); k >= 0 {
		return captureParam(l.owner, l.owner.Bodies[l.body], k)
	}
	return h.c.addCapture(l.owner, v)[l.body]
}
