package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Inline replaces control flow whose path is known by the nodes of its body, with the
// operands for the parameters.
var Inline = &Pass{
	Name: "inline", Doc: "If with a known condition, Loop and Scan of 0 or 1 iterations -> the body's nodes",
	rules: []rule{
		{"If with a constant condition -> the branch taken", named("If"), inlineIf},
		{"Loop of 0 or 1 iterations -> nothing, or the body", named("Loop"), inlineLoop},
		{"Scan of 1 iteration -> the body", named("Scan"), inlineScan},
	},
}

func inlineIf(c *Context, n *ssa.Node) bool {
	e := element(n.In[0])
	if e == nil || e.DType != ndarray.Bool {
		return false
	}
	name := "else_branch"
	if e.Data[0] != 0 {
		name = "then_branch"
	}
	if !c.drawsTheSame(n.Body(name)) {
		return false
	}
	c.substitute(n, c.splice(n, n.Body(name), n.Captured()))
	return true
}

// drawsTheSame reports that the random nodes of a body can keep the names by which they draw in the graph around it: no other value has them.
func (c *Context) drawsTheSame(b *ssa.Graph) bool {
	return len(c.drawn) == 0 || !slices.ContainsFunc(b.Nodes, func(n *ssa.Node) bool { return drawsByName(n) && n.Output(0) != nil && c.drawn[n.Output(0).Name] > 1 })
}

func inlineLoop(c *Context, n *ssa.Node) bool {
	s, err := ops.LoopOf(n)
	if err != nil {
		c.fail(err)
		return false
	}
	switch trips := s.Trips(n); {
	case trips.Is(0):
		results, ok := c.emptyStacks(n, slices.Clone(n.In[2:2+s.Carried]))
		if ok {
			c.substitute(n, results)
		}
		return ok
	case trips.Is(1) && c.drawsTheSame(s.Body):
		args := append([]*ssa.Value{c.constant("iter", ssa.ScalarConst[int64](0)), c.condition(n)}, n.In[2:]...)
		return c.stackOne(n, c.splice(n, s.Body, args)[1:], s.Carried, nil)
	}
	return false
}

// condition is the first condition of a Loop, true where it is absent.
func (c *Context) condition(n *ssa.Node) *ssa.Value {
	if n.In[1] != nil {
		return n.In[1]
	}
	return c.constant("cond", ssa.ScalarConst(true))
}

// emptyStacks appends an empty tensor for every stacked result of a loop that
// does not run; ok is false where its shape is not known.
func (c *Context) emptyStacks(n *ssa.Node, results []*ssa.Value) ([]*ssa.Value, bool) {
	for i := len(results); i < len(n.Out); i++ {
		if c.unreadResult(n, i) {
			results = append(results, nil)
			continue
		}
		shape, ok := n.Out[i].Type.Static()
		if !ok || len(shape) == 0 || shape[0] != 0 {
			return nil, false
		}
		a, err := ndarray.New(n.Out[i].Type.DType, shape...)
		if err != nil {
			return nil, false
		}
		results = append(results, c.constant(n.Out[i].Name, ssa.NewConstant(a)))
	}
	return results, true
}

func inlineScan(c *Context, n *ssa.Node) bool {
	s, err := ops.ScanOf(n)
	if err != nil {
		c.fail(err)
		return false
	}
	if !c.drawsTheSame(s.Body) {
		return false
	}
	axes := make([]int, s.Ins)
	for k := range s.Ins {
		t := n.In[s.States+k].Type
		if axes[k], err = ops.NormAxis(s.InAxes[k], max(t.Rank(), 0)); err != nil || k == 0 && !t.Shape[axes[0]].Is(1) {
			return false
		}
	}
	args := slices.Clone(n.In)
	for k := range s.Ins {
		x := n.In[s.States+k]
		args[s.States+k] = c.op(n, x.Name+"_slice", "Squeeze", []*ssa.Value{x, c.constant("axes", ssa.Int64s(int64(axes[k])))})
	}
	return c.stackOne(n, c.splice(n, s.Body, args), s.States, s.OutAxes)
}

// stackOne substitutes the results of a loop that runs once: stacked ones get
// their axis of length 1. axes is nil for axis 0.
func (c *Context) stackOne(n *ssa.Node, results []*ssa.Value, carried int, axes []int64) bool {
	for i := carried; i < len(n.Out); i++ {
		if c.unreadResult(n, i) {
			continue
		}
		axis := int64(0)
		if axes != nil {
			axis = axes[i-carried]
		}
		results[i] = c.op(n, n.Out[i].Name, "Unsqueeze", []*ssa.Value{results[i], c.constant("axes", ssa.Int64s(axis))})
	}
	c.substitute(n, results)
	return true
}

// substitute lets the readers of a node's results read other values and drops the
// node, side effects included: other nodes have replaced it.
func (c *Context) substitute(n *ssa.Node, results []*ssa.Value) {
	c.replaceResults(n, func(i int) *ssa.Value { return results[i] })
	if c.alive(n) {
		c.kill(n)
	}
}

// splice copies the nodes of a body before mark, with args for its parameters, and
// returns the copies of its results. Nested bodies are moved, not copied: the body must
// not be used again.
func (c *Context) splice(mark *ssa.Node, b *ssa.Graph, args []*ssa.Value) []*ssa.Value {
	here := make([]*ssa.Value, b.NumValues())
	for i, p := range b.Params {
		here[p.ID] = args[i]
	}
	get := func(v *ssa.Value) *ssa.Value {
		if v == nil {
			return nil
		}
		if v.Const != nil && here[v.ID] == nil {
			here[v.ID] = c.constant(v.Name, v.Const)
		}
		return here[v.ID]
	}
	for _, n := range b.Nodes {
		in := make([]*ssa.Value, len(n.In))
		for i, v := range n.In {
			in[i] = get(v)
		}
		m := c.moveNode(mark, n, in)
		for i, v := range n.Out {
			if v != nil {
				here[v.ID] = m.Out[i]
			}
		}
	}
	results := make([]*ssa.Value, len(b.Results))
	for i, v := range b.Results {
		results[i] = get(v)
	}
	return results
}

// moveNode moves a node of a body into the current graph, before mark, with other
// operands, its bodies and the known facts.
func (c *Context) moveNode(mark, n *ssa.Node, in []*ssa.Value) *ssa.Node {
	m := c.nodeLike(mark, n, in)
	m.Opaque, m.Origin, m.Captures = n.Opaque, n.Origin, n.Captures
	if drawsByName(n) && n.Output(0) != nil { // see drawsTheSame
		n.Out[0].Name, m.Out[0].Name = m.Out[0].Name, n.Out[0].Name
	}
	m.Bodies, m.BodyAttr = n.Bodies, n.BodyAttr
	n.Bodies, n.BodyAttr = nil, nil
	for i, v := range n.Out {
		if v != nil {
			m.Out[i].Doc, m.Out[i].Type, m.Out[i].Content = v.Doc, v.Type, v.Content
		}
	}
	return m
}
