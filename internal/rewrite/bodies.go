package rewrite

import (
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Changes of the operands and results that control flow shares with its bodies.
// Layouts are those of package ssa: captures are the last operands of the node
// and the last parameters of every body.

// captureParam returns the parameter of a body for capture k.
func captureParam(n *ssa.Node, b *ssa.Graph, k int) *ssa.Value {
	return b.Params[len(b.Params)-n.Captures+k]
}

// removeCaptures drops the captures for which drop is set from the node and all bodies. Nothing in the
// bodies may read them any more.
func removeCaptures(n *ssa.Node, drop []bool) {
	first := len(n.In) - n.Captures
	for _, b := range n.Bodies {
		b.Params = leavingOut(b.Params, len(b.Params)-n.Captures, drop)
	}
	in := leavingOut(n.In, first, drop)
	n.Captures = len(in) - first
	n.SetInputs(in)
}

// leavingOut copies a list but for the elements at+i for which drop[i] is set. Lists of a node may be as long
// as the model is large, so what goes is taken out of them all at once.
//
//go:noinline
func leavingOut(list []*ssa.Value, at int, drop []bool) []*ssa.Value {
	out := make([]*ssa.Value, 0, len(list))
	for i, v := range list {
		if i < at || i >= at+len(drop) || !drop[i-at] {
			out = append(out, v)
		}
	}
	return out
}

// addCapture makes the node capture v; the parameter of body i is result i.
func (c *Context) addCapture(n *ssa.Node, v *ssa.Value) []*ssa.Value {
	params := make([]*ssa.Value, len(n.Bodies))
	for i, b := range n.Bodies {
		p := b.AddParam(c.fresh(v.Name), v.Type)
		p.Content = v.Content
		params[i] = p
	}
	n.AddInput(v)
	n.Captures++
	return params
}

// setOut gives a node a new list of results.
func setOut(n *ssa.Node, out []*ssa.Value) {
	n.Out = out
	for i, v := range out {
		if v != nil {
			v.DefIndex = i
		}
	}
}

// padOut extends the list of results with absent ones.
func padOut(n *ssa.Node, size int) {
	for len(n.Out) < size {
		n.Out = append(n.Out, nil)
	}
}

// tripsOf is the number of iterations of a Loop or Scan, the unknown dimension where
// operands decide it.
func tripsOf(n *ssa.Node) ssa.Dim {
	if is(n, "Loop") {
		if s, err := ops.LoopOf(n); err == nil {
			return s.Trips(n)
		}
	} else if s, err := ops.ScanOf(n); err == nil {
		t := n.In[s.States].Type
		if axis, err := ops.NormAxis(s.InAxes[0], max(t.Rank(), 0)); err == nil {
			return t.Shape[axis]
		}
	}
	return ssa.Dim{}
}

// carriedLayout says where a Loop or Scan keeps carried value i: operand In+i,
// parameter Param+i, body result Result+i, node result i.
type carriedLayout struct {
	body              *ssa.Graph
	count             int
	in, param, result int
}

// removeCarried drops the carried values for which drop is set everywhere. Nothing may read their parameters
// or their results any more.
func removeCarried(n *ssa.Node, l carriedLayout, drop []bool) {
	n.SetInputs(leavingOut(n.In, l.in, drop))
	l.body.Params = leavingOut(l.body.Params, l.param, drop)
	l.body.Results = leavingOut(l.body.Results, l.result, drop)
	setOut(n, leavingOut(n.Out, 0, drop))
}

// carriedToCaptures turns the carried values for which turn is set, which no iteration changes, into captures.
func carriedToCaptures(n *ssa.Node, l carriedLayout, turn []bool) {
	moved := make([]*ssa.Value, 2*len(turn)) // values, parameters
	k := 0
	for i := len(turn) - 1; i >= 0; i-- {
		if turn[i] {
			moved[k], moved[len(turn)+k] = n.In[l.in+i], l.body.Params[l.param+i]
			k++
		}
	}
	removeCarried(n, l, turn)
	l.body.Params = append(l.body.Params, moved[len(turn):][:k]...)
	n.SetInputs(append(n.In, moved[:k]...))
	n.Captures += k
}
