package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Dead drops what nobody reads: nodes, optional results of nodes, results and
// captures of bodies, and values carried around a loop that only feed themselves.
//
//	x ─▶ f ─▶ g ─▶ (nobody)      g goes, and then f: nodes are visited from the end, so
//	└──▶ h ─▶ y                  one walk takes a whole chain
//
// Loops need more than reader counts, see deadloop.go.
var Dead = &Pass{
	Name: "dead", Doc: "nodes, results, captures and carried values nobody reads -> nothing",
	run: runDead,
}

func runDead(c *Context, g *ssa.Graph) error {
	for _, n := range slices.Backward(slices.Clone(g.Nodes)) {
		if c.alive(n) && c.unread(n) && removable(n) && c.patch(n, "nobody reads it") {
			c.killIfUnread(n)
		}
	}
	for _, n := range slices.Clone(g.Nodes) {
		if !c.alive(n) || n.Opaque {
			continue
		}
		c.dropResults(n)
		switch {
		case is(n, "If"):
			c.trimIf(n)
		case is(n, "Loop"), is(n, "Scan"):
			c.trimLoop(n)
		}
		if c.alive(n) {
			c.trimCaptures(n)
		}
	}
	return nil
}

// dropResults marks optional results that nobody reads as absent.
func (c *Context) dropResults(n *ssa.Node) {
	o := ops.Of(n)
	if o == nil || o.MaxOut < 0 {
		return
	}
	for i := o.MinOut; i < len(n.Out); i++ {
		v := n.Out[i]
		if v == nil || len(v.Uses()) > 0 || c.graph.IsResult(v) || !c.patch(n, "nobody reads result %d", i) {
			continue
		}
		n.Out[i] = nil
	}
	for len(n.Out) > o.MinOut && n.Out[len(n.Out)-1] == nil {
		n.Out = n.Out[:len(n.Out)-1]
	}
}

// unreadResult reports that result i of a node is absent or not read.
func (c *Context) unreadResult(n *ssa.Node, i int) bool {
	v := n.Output(i)
	return v == nil || len(v.Uses()) == 0 && !c.graph.IsResult(v)
}

// trimIf drops results that nobody reads from the node and both branches, and
// passes on what both branches pass on.
func (c *Context) trimIf(n *ssa.Node) {
	for i := len(n.Out) - 1; i >= 0; i-- {
		if v := c.passedThrough(n, i); v != nil && n.Out[i] != nil && !c.unreadResult(n, i) && c.patch(n, "both branches give capture %s", v.Name) {
			c.replace(n.Out[i], v)
			if !c.alive(n) {
				return
			}
		}
		if len(n.Out) == 1 || !c.unreadResult(n, i) || !c.patch(n, "nobody reads result %d", i) {
			continue
		}
		setOut(n, slices.Delete(slices.Clone(n.Out), i, i+1))
		for _, b := range n.Bodies {
			b.Results = slices.Delete(b.Results, i, i+1)
			sweepBody(b)
		}
	}
}

// passedThrough returns the captured operand that every branch gives as result
// i, nil if there is none.
func (c *Context) passedThrough(n *ssa.Node, i int) *ssa.Value {
	k := slices.Index(n.Bodies[0].Params, n.Bodies[0].Results[i])
	if k < 0 {
		return nil
	}
	for _, b := range n.Bodies[1:] {
		if b.Results[i] != b.Params[k] {
			return nil
		}
	}
	return n.Captured()[k]
}

// trimCaptures drops captures that no body reads and merges equal ones.
func (c *Context) trimCaptures(n *ssa.Node) {
	for k := n.Captures - 1; k >= 0; k-- {
		caps := n.Captured()
		if first := slices.Index(caps, caps[k]); first < k && captureRead(n, k) && c.patch(n, "captures %s twice", caps[k].Name) {
			for _, b := range n.Bodies {
				b.ReplaceUses(captureParam(n, b, k), captureParam(n, b, first))
			}
		}
		if !captureRead(n, k) && c.patch(n, "no body reads capture %s", caps[k].Name) {
			v := caps[k]
			removeCapture(n, k)
			c.killIfUnread(v.Def)
		}
	}
}

func captureRead(n *ssa.Node, k int) bool {
	for _, b := range n.Bodies {
		p := captureParam(n, b, k)
		if len(p.Uses()) > 0 || b.IsResult(p) {
			return true
		}
	}
	return false
}

// sweepBody removes nodes of a body that nobody reads.
func sweepBody(b *ssa.Graph) {
	for i := len(b.Nodes) - 1; i >= 0; i-- {
		n := b.Nodes[i]
		if !removable(n) || slices.ContainsFunc(n.Out, func(v *ssa.Value) bool { return v != nil && (len(v.Uses()) > 0 || b.IsResult(v)) }) {
			continue
		}
		n.TruncateInputs(0)
		b.Nodes = slices.Delete(b.Nodes, i, i+1)
	}
}
