package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Dead drops what nothing reads: nodes, optional results of nodes, results and
// captures of bodies, and values carried around a loop that only feed themselves.
//
//	x ─▶ f ─▶ g ─▶ (nothing)      g goes, and then f: nodes are visited from the end, so
//	└──▶ h ─▶ y                  one walk takes a whole chain
//
// Loops need more than reader counts, see deadloop.go.
var Dead = &Pass{
	Name: "dead", Doc: "nodes, results, captures and carried values that nothing reads -> nothing", backward: true, every: true,
	rules: []rule{
		{"an unread node -> nothing", anyOp, dropUnread},
		{"an unread optional result -> nothing", anyOp, dropResults},
		{"results of branches that nothing reads, or that are captures -> nothing", named("If"), trimIf},
		{"carried values that no result needs -> nothing", named("Loop", "Scan"), trimLoop},
		{"captures no body reads -> nothing", anyOp, trimCaptures},
	},
}

func dropUnread(c *Context, n *ssa.Node) bool {
	c.killIfUnread(n)
	return !c.alive(n)
}

// dropResults marks optional results that nothing reads as absent.
func dropResults(c *Context, n *ssa.Node) (done bool) {
	o := ops.Of(n)
	if o.MaxOut < 0 || o.Facts.Whole {
		return false
	}
	for i := o.MinOut; i < len(n.Out); i++ {
		if n.Out[i] != nil && c.unreadResult(n, i) {
			n.Out[i], done = nil, true
		}
	}
	for len(n.Out) > o.MinOut && n.Out[len(n.Out)-1] == nil {
		n.Out = n.Out[:len(n.Out)-1]
	}
	return done
}

// unreadResult reports that result i of a node is absent or not read.
func (c *Context) unreadResult(n *ssa.Node, i int) bool {
	return !isRead(c.graph, n.Output(i))
}

// trimIf drops results that nothing reads from the node and both branches, and
// passes on what both branches pass on.
func trimIf(c *Context, n *ssa.Node) (done bool) {
	passes := passedThrough(n)
	for i := len(n.Out) - 1; i >= 0; i-- {
		if v := passes(i); v != nil && !c.unreadResult(n, i) {
			c.replace(n.Out[i], v)
			done = true
			if !c.alive(n) {
				return true
			}
		}
	}
	drop, left := make([]bool, len(n.Out)), len(n.Out)
	for i := len(n.Out) - 1; i >= 0 && left > 1; i-- {
		if drop[i] = c.unreadResult(n, i); drop[i] {
			left--
		}
	}
	if left == len(n.Out) {
		return done
	}
	setOut(n, leavingOut(n.Out, 0, drop))
	for _, b := range n.Bodies {
		b.Results = leavingOut(b.Results, 0, drop)
		sweepBody(b)
	}
	return true
}

// passedThrough returns the captured operand that every branch gives as a result, nil if there is none.
func passedThrough(n *ssa.Node) func(i int) *ssa.Value {
	params := map[*ssa.Value]int{}
	for k, p := range n.Bodies[0].Params {
		params[p] = k
	}
	return func(i int) *ssa.Value {
		k, is := params[n.Bodies[0].Results[i]]
		if !is {
			return nil
		}
		for _, b := range n.Bodies[1:] {
			if b.Results[i] != b.Params[k] {
				return nil
			}
		}
		return n.Captured()[k]
	}
}

// trimCaptures drops captures that no body reads and merges equal ones.
func trimCaptures(c *Context, n *ssa.Node) bool {
	first := make(map[*ssa.Value]int, n.Captures) // place of a value
	for k, v := range slices.Backward(n.Captured()) {
		first[v] = k
	}
	drop := make([]bool, n.Captures)
	var gone []*ssa.Value
	for k, v := range slices.Backward(n.Captured()) {
		if first := first[v]; first < k {
			for _, b := range n.Bodies {
				b.ReplaceUses(captureParam(n, b, k), captureParam(n, b, first))
			}
		}
		if drop[k] = !captureRead(n, k); drop[k] {
			gone = append(gone, v)
		}
	}
	if len(gone) == 0 {
		return false
	}
	removeCaptures(n, drop)
	for _, v := range gone {
		c.killIfUnread(v.Def)
	}
	return true
}

func captureRead(n *ssa.Node, k int) bool {
	return slices.ContainsFunc(n.Bodies, func(b *ssa.Graph) bool { return isRead(b, captureParam(n, b, k)) })
}

// sweepBody removes nodes of a body that nothing reads.
func sweepBody(b *ssa.Graph) {
	dead := map[*ssa.Node]bool{}
	for _, n := range slices.Backward(b.Nodes) {
		if removable(n) && !isRead(b, n.Out...) {
			n.TruncateInputs(0)
			dead[n] = true
		}
	}
	if len(dead) > 0 {
		b.RemoveNodes(func(n *ssa.Node) bool { return dead[n] })
	}
}
