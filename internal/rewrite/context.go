package rewrite

import (
	"context"
	"slices"
	"strconv"

	"github.com/berth-onnx/berth/internal/names"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Context is what rules work with: the current graph, and changes to it that keep uses,
// names and types consistent.
type Context struct {
	ctx     context.Context
	module  *ssa.Module
	opts    Options
	report  *Report
	patches int // made so far
	current *Pass

	graph *ssa.Graph // being rewritten
	owner *ssa.Node  // node it is a body of; nil for the model's graph

	names names.Set                 // every name in the model, old ones included; nil until one is asked for
	drawn map[string]int            // the names by which random nodes draw, by how many values have them; filled with names
	dead  map[*ssa.Node]bool        // killed in this graph, to be swept
	new   map[*ssa.Node][]*ssa.Node // made in this graph, by the node before which they belong
	nodes int                       // of the model, before the current pass
	grown int64                     // bytes that folding has added so far
	err   error                     // of the rule that failed

	numbers *numbering          // of the pass cse: nodes by what they compute
	kept    map[*ssa.Graph]bool // branches left as they are; see [Run]

	scalings map[*ssa.Constant]scaling // of weights that factors were folded into

	withheld map[*ssa.Node]*ssa.Node // what a node would become in a newer operator set

	settled  map[*Pass]int           // passes that found nothing to change, and how many patches there had been; until the next one they would find nothing again
	rules    map[*ops.Op][]rule      // of the current pass, for the operators met
	listed   []*ssa.Node             // memory for the list of nodes to visit
	listings map[*ssa.Graph]*listing // of graphs that have not changed since
}

// lookEvery is how many values or nodes a loop passes between two looks at the context.
const lookEvery = 4096

func newContext(ctx context.Context, m *ssa.Module, opts Options) *Context {
	c := &Context{ctx: ctx, module: m, opts: opts, settled: map[*Pass]int{}, rules: map[*ops.Op][]rule{}, listings: map[*ssa.Graph]*listing{}, dead: map[*ssa.Node]bool{}, new: map[*ssa.Node][]*ssa.Node{}, report: &Report{}, kept: map[*ssa.Graph]bool{}, scalings: map[*ssa.Constant]scaling{}, withheld: map[*ssa.Node]*ssa.Node{}}
	if hasBodies(m.Graph) {
		c.nameAll() // a body's names stay taken when it goes
	}
	return c
}

// nameAll takes the names of all values.
func (c *Context) nameAll() {
	values := 0
	c.module.Graph.Walk(func(g *ssa.Graph) { values += g.NumValues() })
	c.names, c.drawn = make(names.Set, values), map[string]int{}
	c.module.Graph.Walk(func(g *ssa.Graph) {
		for i, v := range g.Values() {
			if i%lookEvery == 0 && c.ctx.Err() != nil {
				return // nothing is read of a context that has ended
			}
			c.names[v.Name] = 0
			if v.Def != nil && v == v.Def.Output(0) && drawsByName(v.Def) {
				c.drawn[v.Name] = 0
			}
		}
	})
	if len(c.drawn) > 0 {
		c.module.Graph.Walk(c.countDrawn)
	}
}

// countDrawn counts the values of a graph that have the name by which a random node draws, but for what a body gets of the values around it.
func (c *Context) countDrawn(g *ssa.Graph) {
	for _, v := range g.Values() {
		if _, is := c.drawn[v.Name]; is && (v.Def != nil || g == c.module.Graph) {
			c.drawn[v.Name]++
		}
	}
}

// record adds a patch to the report.
func (c *Context) record(op, name, what string) {
	c.patches++
	if c.opts.Brief && len(c.report.Patches) == namedPatches {
		c.report.Patches = c.report.Patches[:copy(c.report.Patches, c.report.Patches[1:])]
	}
	c.report.Patches = append(c.report.Patches, Patch{Pass: c.current.Name, Graph: c.graph.Name, Node: op + " " + strconv.Quote(name), What: what})
}

// namedPatches is how many of the last patches a brief report keeps: those that an error names.
const namedPatches = 3

// patch records a change that a pass made outside of its rules.
func (c *Context) patch(n *ssa.Node, what string) { c.record(n.Op, nameOf(n), what) }

// nameOf is the name of a node, or of its first result where it has none.
func nameOf(n *ssa.Node) string {
	if v := n.Output(0); n.Name == "" && v != nil {
		return v.Name
	}
	return n.Name
}

// fail ends the run with an error, once the current rule returns. The first one counts.
func (c *Context) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// incompatible reports a node whose operands the operator does not accept. There are
// such nodes in branches for other shapes, and in models opened only for inspection;
// the nodes a pass would replace them by would be incompatible too.
func incompatible(n *ssa.Node) bool { return ops.Incompatible(n) != nil }

// alive reports that the node has not been killed by an earlier patch.
func (c *Context) alive(n *ssa.Node) bool { return !c.dead[n] }

// top reports that the current graph is the model itself, whose results have
// names that must stay.
func (c *Context) top() bool { return c.owner == nil }

// fresh returns a name no value of the model has had.
func (c *Context) fresh(hint string) string {
	if hint == "" {
		hint = "v"
	}
	if c.names == nil {
		c.nameAll()
	}
	return c.names.Fresh(hint)
}

// constant adds a constant to the current graph.
func (c *Context) constant(hint string, k *ssa.Constant) *ssa.Value {
	return c.graph.AddConst(c.fresh(hint), k)
}

// op adds a node with one result before mark, infers its type and returns the result.
// Attributes that the operator does not have are left out. hint names the result.
func (c *Context) op(mark *ssa.Node, hint, op string, in []*ssa.Value, attrs ...ssa.Attr) *ssa.Value {
	schema := ops.Lookup("", op).Attrs
	attrs = slices.DeleteFunc(slices.Clone(attrs), func(a ssa.Attr) bool {
		return !slices.ContainsFunc(schema, func(s *ops.AttrSpec) bool { return s.Name == a.Name })
	})
	n := c.insert(mark, op, in, 1, attrs...)
	n.Out[0].Name = c.fresh(hint)
	c.fail(ops.Infer(n))
	return n.Out[0]
}

// become replaces a node with one result by a new node of the default domain, which
// takes over its name but, unlike [Context.reread], none of its attributes. It is false, and
// nothing is changed, where the new operator might not run ([Context.runs]).
func (c *Context) become(n *ssa.Node, op string, in []*ssa.Value, attrs ...ssa.Attr) bool {
	if op != n.Op && !c.runs(op, in[0].Type.DType) {
		return false
	}
	v := c.op(n, n.Out[0].Name, op, in, attrs...)
	v.Def.Name = n.Name
	c.replace(n.Out[0], v)
	return true
}

// reread replaces a node with one result by one of the same operator that reads other
// operands, after a change.
func (c *Context) reread(n *ssa.Node, in []*ssa.Value, change ...func(m *ssa.Node)) bool {
	c.replace(n.Out[0], c.copyNode(n, in, change...).Out[0])
	return true
}

// copyNode adds a node like n, right before it, that reads other operands, after a
// change.
func (c *Context) copyNode(n *ssa.Node, in []*ssa.Value, change ...func(m *ssa.Node)) *ssa.Node {
	m := c.nodeLike(n, n, in)
	for _, f := range change {
		f(m)
	}
	c.fail(ops.InferContext(c.ctx, m))
	return m
}

// nodeLike adds a node with the operator, names and attributes of n before mark.
func (c *Context) nodeLike(mark, n *ssa.Node, in []*ssa.Value) *ssa.Node {
	m := c.insert(mark, n.Op, in, len(n.Out), n.Attrs...)
	m.Domain, m.Overload, m.Version, m.Name, m.Doc = n.Domain, n.Overload, n.Version, n.Name, n.Doc
	for i, v := range n.Out {
		if v == nil {
			m.Out[i] = nil
		} else {
			m.Out[i].Name = c.fresh(v.Name)
		}
	}
	return m
}

// forward lets the readers of result 0 read v. It reports whether that is progress: an
// Identity that only names a result of the model has to stay.
func (c *Context) forward(n *ssa.Node, v *ssa.Value) bool {
	old := n.Out[0]
	if is(n, "Identity") && c.top() && c.graph.IsResult(old) && len(old.Uses()) == 0 && v.Const == nil && !c.renames(v) {
		return false
	}
	c.replace(old, v)
	return true
}

// replaceResults replaces every result i of a node that has readers by with(i).
func (c *Context) replaceResults(n *ssa.Node, with func(i int) *ssa.Value) {
	for i, v := range n.Out {
		if c.alive(n) && !c.unreadResult(n, i) {
			c.replace(v, with(i))
		}
	}
}

// replace makes every reader of old read v, and drops the node of old once none
// of its results is read. v must be defined before every reader of old.
//
// A result of the model keeps its name: v takes it over where v may be renamed ([Context.renames]),
// else the node of old becomes an Identity of v.
func (c *Context) replace(old, v *ssa.Value) {
	v.Type, _ = v.Type.Refine(old.Type)
	switch {
	case !c.top() || !c.graph.IsResult(old):
	case v.Const != nil:
		v = c.graph.AddConst(old.Name, v.Const)
		old.Name = c.fresh(old.Name)
	case c.renames(v):
		v.Name, old.Name = old.Name, v.Name
	default:
		c.viaIdentity(old, v)
		return
	}
	c.graph.ReplaceUses(old, v)
	c.killIfUnread(old.Def)
}

// renames reports that a value may take over the name of a result.
func (c *Context) renames(v *ssa.Value) bool {
	return v.Def != nil && !c.graph.IsResult(v) && !drawsByName(v.Def)
}

// drawsByName reports a random node without a seed: what it draws depends on the name of its first result.
func drawsByName(n *ssa.Node) bool {
	o := ops.Of(n)
	return o != nil && o.Facts.Randomness != ops.Deterministic && !n.Has("seed")
}

// viaIdentity lets the inner readers of a model result read v, and computes the
// result itself as Identity(v).
func (c *Context) viaIdentity(old, v *ssa.Value) {
	redirect(old, v)
	n := old.Def
	if n.Op == "Identity" && n.Domain == "" && n.In[0] == v {
		return
	}
	id := c.insert(n, "Identity", []*ssa.Value{v}, 1)
	w := id.Out[0]
	w.Name, old.Name = old.Name, c.fresh(old.Name)
	w.Type, w.Content = old.Type, old.Content
	c.graph.ReplaceResult(old, w)
	c.killIfUnread(n)
}

// redirect makes the nodes that read old read v; results of the graph stay.
func redirect(old, v *ssa.Value) {
	for len(old.Uses()) > 0 {
		u := old.Uses()[0]
		u.Node.SetInput(u.Index, v)
	}
}

// unread reports that nothing reads any result of the node.
func (c *Context) unread(n *ssa.Node) bool { return !isRead(c.graph, n.Out...) }

// isRead reports that nodes read one of some values of g, or that it is a result of g.
func isRead(g *ssa.Graph, values ...*ssa.Value) bool {
	return slices.ContainsFunc(values, func(v *ssa.Value) bool { return v != nil && (len(v.Uses()) > 0 || g.IsResult(v)) })
}

// killIfUnread removes an unread node, and then what only it read. The node
// leaves the graph at the end of the pass; its uses are dropped at once, so that
// later patches see exact counts.
func (c *Context) killIfUnread(n *ssa.Node) {
	if n != nil && !c.dead[n] && c.unread(n) && removable(n) {
		c.kill(n)
	}
}

// kill removes a node that other nodes have replaced, side effects included, and then
// what only it read.
func (c *Context) kill(n *ssa.Node) {
	c.dead[n] = true
	read := slices.Clone(n.In)
	n.TruncateInputs(0)
	n.Captures = 0
	for _, v := range read {
		if v != nil {
			c.killIfUnread(v.Def)
		}
	}
}

// freed counts the nodes that die with the nodes going, which alone read them, and the bytes
// of the constants that only these read. The values kept have other readers.
func (c *Context) freed(kept []*ssa.Value, going ...*ssa.Node) (nodes int, bytes int64) {
	gone, counted := map[*ssa.Node]bool{}, map[*ssa.Value]bool{}
	for _, n := range going {
		gone[n] = true
	}
	read := func(v *ssa.Value) bool { return slices.Contains(kept, v) || c.readBesides(v, gone) }
	for work := slices.Clone(going); len(work) > 0; {
		n := work[len(work)-1]
		work = work[:len(work)-1]
		for _, v := range n.In {
			switch {
			case v == nil || counted[v] || read(v):
			case v.Const != nil:
				counted[v] = true
				bytes += v.Const.StoredBytes()
			case v.Def != nil && !gone[v.Def] && removable(v.Def) && !slices.ContainsFunc(v.Def.Out, read):
				gone[v.Def] = true
				work = append(work, v.Def)
			}
		}
	}
	return len(gone), bytes
}

// readBesides reports that v is a result of the graph or that nodes other than these read it.
func (c *Context) readBesides(v *ssa.Value, nodes map[*ssa.Node]bool) bool {
	return v != nil && (c.graph.IsResult(v) || slices.ContainsFunc(v.Uses(), func(u ssa.Use) bool { return !nodes[u.Node] }))
}

// insert adds a node right before mark. It stands at the end of the graph until the pass has visited all nodes, so that
// a pass that makes many does not move all that follow each time.
func (c *Context) insert(mark *ssa.Node, op string, in []*ssa.Value, results int, attrs ...ssa.Attr) *ssa.Node {
	n := c.graph.NewNode(op, in, results, attrs...)
	c.new[mark] = append(c.new[mark], n)
	return n
}

// place puts the nodes made in a graph where they belong.
func (c *Context) place(g *ssa.Graph) {
	if len(c.new) == 0 {
		return
	}
	out := make([]*ssa.Node, 0, len(g.Nodes))
	placed := make([]bool, g.NumNodeIDs())
	var put func(n *ssa.Node)
	put = func(n *ssa.Node) {
		if placed[n.ID] {
			return
		}
		placed[n.ID] = true
		for _, m := range c.new[n] {
			put(m)
		}
		out = append(out, n)
	}
	for _, n := range g.Nodes {
		put(n)
	}
	g.Nodes = out
	delete(c.listings, g)
	clear(c.new)
}

// sweep deletes the killed nodes.
func (c *Context) sweep(g *ssa.Graph) {
	if len(c.dead) > 0 {
		g.RemoveNodes(func(n *ssa.Node) bool { return c.dead[n] })
		delete(c.listings, g)
		clear(c.dead)
	}
}

// only reports that n is the only reader of v and v is no result of the graph.
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
	return c.opts.MaxOpset < 0 || ops.FitsIn(n, c.opts.MaxOpset)
}
