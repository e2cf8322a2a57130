package rewrite

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Context is what a pass works with: the graph at hand, leave to patch, and
// surgery that keeps uses, names and types right.
type Context struct {
	ctx     context.Context
	module  *ssa.Module
	opts    Options
	report  *Report
	current *Pass

	graph *ssa.Graph // being rewritten
	owner *ssa.Node  // node it is a body of; nil for the model's graph

	names map[string]bool    // every name in the model, old ones included
	dead  map[*ssa.Node]bool // killed in this graph, to be swept
	grown int64              // bytes that folding has added so far
}

func newContext(ctx context.Context, m *ssa.Module, opts Options) *Context {
	c := &Context{ctx: ctx, module: m, opts: opts, names: map[string]bool{}, dead: map[*ssa.Node]bool{},
		report: &Report{Rounds: map[string]int{}}}
	m.Graph.Walk(func(g *ssa.Graph) {
		for _, v := range g.Values() {
			c.names[v.Name] = true
		}
	})
	return c
}

// patch asks for leave to make one change at a node and records it. A pass must
// not change anything when the answer is no.
func (c *Context) patch(n *ssa.Node, format string, args ...any) bool {
	if k := c.opts.StopAfter; k < 0 || k > 0 && len(c.report.Patches) >= k {
		c.report.Stopped = true
		return false
	}
	if c.current.Name != "dead" && misfit(n) {
		return false
	}
	c.report.Patches = append(c.report.Patches, Patch{Pass: c.current.Name, Graph: c.graph.Name, Node: n.String(), What: fmt.Sprintf(format, args...)})
	return true
}

// misfit reports a node whose operands do not fit the operator. Such nodes are left
// over in branches for other shapes, and in models opened only to look at them;
// what a pass would make of them does not fit either.
func misfit(n *ssa.Node) bool {
	if n.Opaque || len(n.Bodies) > 0 || len(n.Out) == 0 || n.Out[0] == nil || n.Out[0].Type.Kind != ssa.KindUnknown {
		return false
	}
	return ops.Infer(n) != nil
}

// skip records why a change that looked possible was not made.
func (c *Context) skip(n *ssa.Node, format string, args ...any) {
	if !c.opts.Reasons {
		return
	}
	s := Skip{Pass: c.current.Name, Graph: c.graph.Name, Node: n.String(), Why: fmt.Sprintf(format, args...)}
	for _, old := range c.report.Skipped {
		if old == s {
			return
		}
	}
	c.report.Skipped = append(c.report.Skipped, s)
}

// alive reports that the node has not been killed by an earlier patch.
func (c *Context) alive(n *ssa.Node) bool { return !c.dead[n] }

// top reports that the graph at hand is the model itself, whose results have
// names that must stay.
func (c *Context) top() bool { return c.owner == nil }

// fresh returns a name no value of the model has had.
func (c *Context) fresh(hint string) string {
	if hint == "" {
		hint = "v"
	}
	name := hint
	for i := 1; c.names[name]; i++ {
		name = fmt.Sprintf("%s_%d", hint, i)
	}
	c.names[name] = true
	return name
}

// constant adds a constant to the graph at hand.
func (c *Context) constant(hint string, k *ssa.Constant) *ssa.Value {
	return c.graph.AddConst(c.fresh(hint), k)
}

// node adds a node before mark and infers its results. hint names them.
func (c *Context) node(mark *ssa.Node, hint, op string, in []*ssa.Value, numOut int, attrs ...ssa.Attr) (*ssa.Node, error) {
	n := c.graph.InsertBefore(mark, op, in, numOut, attrs...)
	for _, v := range n.Out {
		v.Name = c.fresh(hint)
	}
	return n, ops.Infer(n)
}

// replace makes every reader of old read v, and drops the node of old once none
// of its results is read. v must be defined before every reader of old.
//
// A result of the model keeps its name: v takes it over where v may be renamed,
// else the node of old becomes an Identity of v.
func (c *Context) replace(old, v *ssa.Value) {
	v.Type, _ = v.Type.Refine(old.Type)
	if !c.top() || !c.graph.IsResult(old) {
		c.graph.ReplaceUses(old, v)
		c.killIfUnread(old.Def)
		return
	}
	switch {
	case v.Const != nil:
		v = c.graph.AddConst(old.Name, v.Const)
		old.Name = c.fresh(old.Name)
	case v.Def != nil && !c.graph.IsResult(v):
		v.Name, old.Name = old.Name, v.Name
	default:
		c.detour(old, v)
		return
	}
	c.graph.ReplaceUses(old, v)
	c.killIfUnread(old.Def)
}

// detour lets the inner readers of a model result read v, and computes the
// result itself as Identity(v).
func (c *Context) detour(old, v *ssa.Value) {
	for len(old.Uses()) > 0 {
		u := old.Uses()[0]
		u.Node.SetInput(u.Index, v)
	}
	n := old.Def
	if n.Op == "Identity" && n.Domain == "" && n.In[0] == v {
		return
	}
	id := c.graph.InsertBefore(n, "Identity", []*ssa.Value{v}, 1)
	w := id.Out[0]
	w.Name, old.Name = old.Name, c.fresh(old.Name)
	w.Type, w.Content = old.Type, old.Content
	for i, r := range c.graph.Results {
		if r == old {
			c.graph.Results[i] = w
		}
	}
	c.killIfUnread(n)
}

// unread reports that nothing reads any result of the node.
func (c *Context) unread(n *ssa.Node) bool {
	for _, v := range n.Out {
		if v != nil && (len(v.Uses()) > 0 || c.graph.IsResult(v)) {
			return false
		}
	}
	return true
}

// killIfUnread removes a node nobody reads, and then what only it read. The node
// leaves the graph at the end of the pass; its uses are dropped at once, so that
// later patches see exact counts.
func (c *Context) killIfUnread(n *ssa.Node) {
	if n != nil && !c.dead[n] && c.unread(n) && removable(n) {
		c.kill(n)
	}
}

// kill removes a node that something else has taken the place of, whatever it
// does, and then what only it read.
func (c *Context) kill(n *ssa.Node) {
	c.dead[n] = true
	read := slices.Clone(n.In)
	n.TruncateInputs(0)
	n.Captures = 0
	for len(read) > 0 {
		v := read[len(read)-1]
		read = read[:len(read)-1]
		if v == nil || v.Def == nil || c.dead[v.Def] || !c.unread(v.Def) || !removable(v.Def) {
			continue
		}
		c.dead[v.Def] = true
		read = append(read, v.Def.In...)
		v.Def.TruncateInputs(0)
		v.Def.Captures = 0
	}
}

// sweep deletes the killed nodes.
func (c *Context) sweep(g *ssa.Graph) {
	if len(c.dead) > 0 {
		g.RemoveNodes(func(n *ssa.Node) bool { return c.dead[n] })
		clear(c.dead)
	}
}

// only reports that n is the only reader of v and v does not leave the graph.
func (c *Context) only(v *ssa.Value, n *ssa.Node) bool {
	for _, u := range v.Uses() {
		if u.Node != n {
			return false
		}
	}
	return len(v.Uses()) > 0 && !c.graph.IsResult(v)
}

// allows reports that a node may be written in the operator sets the model may
// use.
func (c *Context) allows(n *ssa.Node) bool {
	return c.opts.MaxOpset < 0 || formOf(n) <= c.opts.MaxOpset
}
