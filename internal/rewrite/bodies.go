package rewrite

import (
	"slices"

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

// removeCapture drops capture k from the node and all bodies. Nothing in the
// bodies may read it any more.
func removeCapture(n *ssa.Node, k int) {
	for _, b := range n.Bodies {
		at := len(b.Params) - n.Captures + k
		b.Params = slices.Delete(b.Params, at, at+1)
	}
	in := slices.Clone(n.In)
	at := len(in) - n.Captures + k
	n.Captures--
	n.SetInputs(slices.Delete(in, at, at+1))
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

// removeCarried drops carried value i everywhere. Nothing may read its parameter
// or its result any more.
func removeCarried(n *ssa.Node, l carriedLayout, i int) {
	in := slices.Clone(n.In)
	n.SetInputs(slices.Delete(in, l.in+i, l.in+i+1))
	l.body.Params = slices.Delete(l.body.Params, l.param+i, l.param+i+1)
	l.body.Results = slices.Delete(l.body.Results, l.result+i, l.result+i+1)
	if i < len(n.Out) {
		setOut(n, slices.Delete(slices.Clone(n.Out), i, i+1))
	}
}

// carriedToCapture turns carried value i, which no iteration changes, into a
// capture.
func carriedToCapture(n *ssa.Node, l carriedLayout, i int) {
	v, p := n.In[l.in+i], l.body.Params[l.param+i]
	removeCarried(n, l, i)
	l.body.Params = append(l.body.Params, p)
	n.AddInput(v)
	n.Captures++
}
