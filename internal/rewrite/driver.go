package rewrite

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The driver runs the passes of a list. A pass sees one graph at a time, bodies before
// the graph around them; invariants are restored after each pass that changed something:
//
//	stage ──▶ pass ──▶ walk: body, body, graph ──▶ sort nodes, infer types, check
//	  ▲         │               │                     │
//	  │         │     node × rule: match, apply,      │
//	  │         │              record the patch       │
//	  │         └───────── next pass ◀────────────────┘
//	  └── again, as long as a round changes something and the stage repeats
//
// The nodes visited are those the graph had at the start of the visit; what a rule adds
// is seen in the next round. Rules report errors through the context ([Context.fail]).

// maxRounds bounds the rounds of a repeating stage. Every pass lowers some
// measure, so a stage that needs more is two passes undoing each other.
const maxRounds = 40

// Error is a failure of the rewriting itself: a bug, or an optional step that
// could not be finished. Pass and Graph say where.
type Error struct {
	Pass, Graph string
	Err         error
}

// Error prints pass, graph and cause.
func (e *Error) Error() string {
	return fmt.Sprintf("rewrite: pass %s, graph %q: %v", e.Pass, e.Graph, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Run rewrites a model: m.Graph, which it may replace. The graph must be valid; its types are inferred
// anew. On an error the graph may be half rewritten and should be dropped.
//
// Known shapes can show that a node in a branch of an If accepts no operand of such a shape: the branch is for other shapes
// and never runs. Folding makes the contradiction plain to every reader of the file, and readers refuse the whole model,
// whether the branch runs or not. If the list asks for it ([List.KeepUnfit]), the model is therefore rewritten again from the
// start with these branches left as they are, until none is added.
func Run(ctx context.Context, m *ssa.Module, opts Options) (*Report, error) {
	if opts.List == nil {
		opts.List = &Portable
	}
	for _, name := range slices.Concat(opts.Off, opts.Only) {
		if Find(name) == nil {
			return nil, fmt.Errorf("rewrite: there is no pass %q", name)
		}
	}
	var spare *ssa.Graph
	if opts.List.KeepUnfit {
		var err error
		if spare, _, err = m.Graph.CloneContext(ctx); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	stages := opts.Dump.stages()
	kept := map[int]bool{} // branches by their place in a walk of the graph given
	for {
		var bodies []*ssa.Graph
		m.Graph.Walk(func(g *ssa.Graph) { bodies = append(bodies, g) })
		c := newContext(ctx, m, opts)
		for i := range kept {
			c.kept[bodies[i]] = true
		}
		report, err := c.run()
		if err != nil {
			return report, err
		}
		if err := ctx.Err(); err != nil {
			return report, err
		}
		if spare == nil || !keepUnfit(ctx, m.Graph, bodies, kept) {
			m.Graph.Compact()
			return report, ctx.Err()
		}
		if m.Graph, _, err = spare.CloneContext(ctx); err != nil {
			return report, err
		}
		opts.Dump.cut(stages)
	}
}

// keepUnfit adds the bodies with nodes whose operands are incompatible to those kept and reports whether there are new ones.
// A body that a pass has made is none of bodies. What it says is of no use once the context has ended.
func keepUnfit(ctx context.Context, g *ssa.Graph, bodies []*ssa.Graph, kept map[int]bool) (more bool) {
	unfit := func(n *ssa.Node) bool { return ctx.Err() != nil || reinferNode(ctx, n) != nil }
	place := make(map[*ssa.Graph]int, len(bodies))
	for i, b := range bodies {
		place[b] = i
	}
	g.Walk(func(b *ssa.Graph) {
		if i := place[b]; i > 0 && !kept[i] && slices.ContainsFunc(b.Nodes, unfit) {
			kept[i], more = true, true
		}
	})
	return more
}

// run runs the stages of the list once.
func (c *Context) run() (*Report, error) {
	m, opts := c.module, c.opts
	c.report.Before = Count(m.Graph)
	c.nodes = c.report.Before.Nodes
	c.opts.Growth = opts.Growth.or(opts.List.Growth, c.report.Before.ConstBytes)
	c.opts.MaxOpset = opsetLimit(m, opts)
	var err error
	if !opts.Inferred || hasBodies(m.Graph) { // what rules say of bodies may become more precise
		err = reinfer(c.ctx, m.Graph)
	}
	if err == nil && opts.Check {
		err = ops.Check(m.Graph)
	}
	if err != nil {
		return nil, fmt.Errorf("rewrite: the graph given: %w", err)
	}
	if err := opts.Dump.add(c.ctx, "start", 0, m.Graph, 0); err != nil {
		return nil, err
	}
	for _, s := range opts.List.Stages {
		if err := c.stage(s); err != nil {
			return c.report, err
		}
	}
	if err := c.ctx.Err(); err != nil {
		return c.report, err
	}
	c.report.After, c.report.Withheld = c.report.Before, c.withheldFrom(m.Graph)
	if c.patches > 0 {
		c.report.After = Count(m.Graph)
	}
	return c.report, nil
}

// hasBodies reports whether some node of a graph has a body.
func hasBodies(g *ssa.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n *ssa.Node) bool { return len(n.Bodies) > 0 })
}

// opsetLimit is the newest operator set new nodes may need, -1 for any.
func opsetLimit(m *ssa.Module, opts Options) int {
	if opts.MaxOpset != 0 {
		return opts.MaxOpset
	}
	limit := m.OpsetVersion("")
	if opts.List.AnyOpset || limit == 0 {
		return -1
	}
	return limit
}

// formOf is the oldest version of the default operator set that can write n.
func formOf(n *ssa.Node) int {
	o := ops.Of(n)
	if o == nil || o.Domain != "" {
		return 0
	}
	return o.Oldest(n)
}

// stage runs a stage once, or until nothing changes.
func (c *Context) stage(s Stage) error {
	for round := 1; ; round++ {
		changed := 0
		for _, p := range s.Passes {
			if !c.on(p) {
				continue
			}
			n, err := c.pass(s, p, round)
			if err == nil {
				err = ndarray.BudgetOf(c.ctx).CheckContext(c.ctx, "rewriting")
			}
			if err != nil {
				return err
			}
			changed += n
		}
		if !s.Repeat || changed == 0 {
			return nil
		}
		if round == maxRounds {
			return &Error{Pass: s.Name, Graph: c.module.Graph.Name, Err: fmt.Errorf("no fixed point after %d rounds; last changes: %s", round, c.lastPatches(namedPatches))}
		}
	}
}

// lastPatches says what was changed last.
func (c *Context) lastPatches(k int) string {
	var done []string
	for _, p := range c.report.Patches[max(0, len(c.report.Patches)-k):] {
		done = append(done, fmt.Sprintf("%s at %s in graph %q", p.What, p.Node, p.Graph))
	}
	return strings.Join(done, ", then ")
}

// on reports whether the options let a pass run.
func (c *Context) on(p *Pass) bool {
	return p.Required || !slices.Contains(c.opts.Off, p.Name) && (len(c.opts.Only) == 0 || slices.Contains(c.opts.Only, p.Name))
}

// pass runs one pass over the model and returns how many patches it made. One that found nothing before, since when no
// pass has changed the model, is left out: most passes of a stage in its last round, and stages that begin with passes of the one before.
func (c *Context) pass(s Stage, p *Pass, round int) (int, error) {
	g := c.module.Graph
	if at, ok := c.settled[p]; ok && at == c.patches && !c.opts.Shuffle {
		return 0, nil
	}
	if c.opts.Shuffle {
		if err := g.Shuffle(c.opts.Seed + uint64(len(c.report.Passes))); err != nil {
			return 0, &Error{Pass: p.Name, Graph: g.Name, Err: err}
		}
	}
	before := c.nodes
	patches := c.patches
	start := time.Now()
	c.current = p
	clear(c.rules)
	if err := c.walk(g, nil); err != nil {
		return 0, err
	}
	changed := c.patches - patches
	if changed > 0 {
		if err := c.restore(p); err != nil {
			return 0, err
		}
		c.nodes = 0
		g.Walk(func(b *ssa.Graph) { c.nodes += len(b.Nodes) })
	} else {
		c.settled[p] = c.patches
	}
	stat := PassStat{Stage: s.Name, Pass: p.Name, Patches: changed, Before: before, After: c.nodes, Time: time.Since(start)}
	if s.Repeat {
		stat.Round = round
	}
	c.report.Passes = append(c.report.Passes, stat)
	return changed, c.opts.Dump.add(c.ctx, p.Name, stat.Round, g, stat.Time)
}

// restore sorts the nodes, infers the types and, with Options.Check, checks the graph after a pass.
func (c *Context) restore(p *Pass) error {
	g := c.module.Graph
	clear(c.listings)
	var err error
	g.Walk(func(b *ssa.Graph) { err = cmp.Or(err, b.Sort()) })
	if err = cmp.Or(err, c.ctx.Err()); err == nil {
		err = reinfer(c.ctx, g)
	}
	if err == nil && c.opts.Check {
		err = ops.Check(g)
	}
	if err != nil {
		return &Error{Pass: p.Name, Graph: g.Name, Err: fmt.Errorf("after %s: %w", c.lastPatches(1), err)}
	}
	return nil
}

// walk runs the current pass on the bodies inside a graph, then on the graph.
// owner is the node the graph is a body of.
func (c *Context) walk(g *ssa.Graph, owner *ssa.Node) error {
	for _, n := range c.listing(g).owners {
		for _, b := range n.Bodies {
			if c.kept[b] {
				continue
			}
			if err := c.walk(b, n); err != nil {
				return err
			}
		}
	}
	if err := c.ctx.Err(); err != nil {
		return err
	}
	c.graph, c.owner = g, owner
	if err := c.runOn(g); err != nil {
		return &Error{Pass: c.current.Name, Graph: g.Name, Err: err}
	}
	c.sweep(g)
	return c.ctx.Err()
}

// runOn applies the pass to one graph; a panic in it is a bug that comes back as an
// error.
func (c *Context) runOn(g *ssa.Graph) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if err = c.err; err == nil {
				err = rescue.Caught(r)
			}
		}
	}()
	p := c.current
	if p.before != nil {
		p.before(c, g)
		c.place(g)
	}
	if err := c.ctx.Err(); err != nil {
		return err
	}
	matched := func(o *ops.Op) bool { return len(c.rulesFor(o)) > 0 }
	for n := range c.live(g, matched) {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		c.visit(n)
	}
	c.place(g)
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if p.after != nil {
		p.after(c, g)
		c.place(g)
	}
	return c.err
}

// live iterates over the nodes of some operators that a graph has now, except those that have been killed
// by then, opaque nodes and, unless the pass visits every node, unread and incompatible
// ones. It ends at the first failure.
func (c *Context) live(g *ssa.Graph, of operators) iter.Seq[*ssa.Node] {
	l := c.listing(g)
	nodes := l.with(of, c.listed[:0]) // its memory serves one list after the other
	c.listed = nil
	if c.current.backward {
		slices.Reverse(nodes)
	}
	return func(yield func(*ssa.Node) bool) {
		defer func() { c.listed = nodes[:0] }()
		for i, n := range nodes {
			if i%lookEvery == lookEvery-1 && c.ctx.Err() != nil {
				return // and so does whoever visits the nodes
			}
			if c.dead[n] || !c.current.every && !c.usable(l, n) {
				continue
			}
			if c.err != nil || !yield(n) {
				return
			}
		}
	}
}

// usable reports that something reads a node, and that its operands are compatible: as the listing remembers, until the
// next patch.
func (c *Context) usable(l *listing, n *ssa.Node) bool {
	if l.patches != c.patches {
		return !c.unread(n) && !incompatible(n)
	}
	known := &l.usable[n.ID]
	if *known == unknown {
		if *known = no; !c.unread(n) && !incompatible(n) {
			*known = yes
		}
	}
	return *known == yes
}

// listing is the one of a graph as it is now.
func (c *Context) listing(g *ssa.Graph) *listing {
	l := c.listings[g]
	same := l != nil && l.patches == c.patches && len(l.nodes) == len(g.Nodes) && (len(g.Nodes) == 0 || &l.nodes[0] == &g.Nodes[0])
	if !same || c.opts.Shuffle {
		l = newListing(c.patches, g)
		c.listings[g] = l
	}
	return l
}

// rulesFor returns the rules of the current pass for an operator.
func (c *Context) rulesFor(o *ops.Op) []rule {
	known, ok := c.rules[o]
	if !ok {
		known = c.current.rulesFor(o)
		c.rules[o] = known
	}
	return known
}

// visit tries the rules of the pass on a node, as long as it lives.
func (c *Context) visit(n *ssa.Node) {
	for _, r := range c.rulesFor(ops.Of(n)) {
		if c.ctx.Err() != nil {
			return // a rule may look at thousands of operands
		}
		name := nameOf(n)
		if r.apply(c, n) {
			c.record(n.Op, name, r.what)
		}
		if c.dead[n] || c.err != nil {
			return
		}
	}
}
