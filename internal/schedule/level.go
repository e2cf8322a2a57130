package schedule

import (
	"context"
	"maps"
	"math"
	"runtime"
	"slices"

	"github.com/berth-onnx/berth/alias"
	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// leveler finds the order of one graph whose bodies are ordered.
//
// It keeps two numbers: what the best order known needs, laid out and folded as it
// will be for the plan, and a bound below all orders. Orders come from searches of the
// model (count.go), and from the plain heuristics. The bound comes from the searches;
// while it is below the peak, decisions that the model leaves open are taken one by
// one, the operand that matters most first:
//
//	windows: 44             copies: 52        the bound of all orders is the
//	   ╭─────┴─────╮                          lowest of the leaves, and a leaf
//	p inside r: 60    p outside: 52           at or above the best peak is done
//
// It ends when the two meet; or when no decision can raise the lowest leaf, since none
// is about memory that its order holds at its peak.
type leveler struct {
	*solver
	g       *ssa.Graph
	owner   *ssa.Node  // the loop that g is the body of, nil for all other graphs
	around  *ssa.Graph // the graph of owner
	rot     *loops.Rotation
	control map[*ssa.Node]*inner

	given  []*ssa.Node // the nodes in their order at first
	best   []*ssa.Node
	tried  [][]*ssa.Node
	peak   int64 // of best
	laid   laying
	bound  int64
	leaves []leaf
	ahead  chan ahead // gets once what the given order comes to; nil where it is laid out when it is tried
}

// maxLeaves bounds how many sets of decisions are searched for one graph.
const maxLeaves = 40

// leaf is a set of decisions and the bound of all orders under them.
type leaf struct {
	how   counting
	bound int64
	found int64 // the bound that its own search found
	order []int32
	steps []int32 // of the order, those that need the bound; once the model is nil
	model *model
	unend bool // the search did not end: its decisions are not what is missing
}

func (l *leveler) run() error {
	l.given, l.best = l.g.Nodes, l.g.Nodes
	defer func() { l.g.Nodes = l.best }()
	if widest(l.g) > mostOperands {
		return l.tryPlain()
	}
	l.layAhead()
	defer l.await()
	orders := [][]*ssa.Node{l.given, l.search(counting{}, 0)}
	if alias.HasParts(l.g) {
		orders = append(orders, l.search(counting{copies: true}, 0))
	}
	l.bound = l.leaves[l.lowest()].bound
	if err := l.tryAll(orders); err != nil || l.done() {
		return err
	}
	l.findSteps()
	if err := l.tryOthers(); err != nil {
		return err
	}
	for len(l.leaves) < maxLeaves && !l.done() {
		at := l.lowest()
		next := l.decide(l.leaves[at])
		if len(next) == 0 {
			break
		}
		bound := l.leaves[at].bound
		l.leaves = slices.Delete(l.leaves, at, at+1)
		for _, how := range next {
			if err := l.try(l.search(how, bound)); err != nil {
				return err
			}
			l.findSteps()
		}
		l.bound = l.leaves[l.lowest()].bound
	}
	return nil
}

// aheadFrom is from how many nodes on the given order is laid out while the first search is made, and aheadBytes about how many bytes
// both take for a node at the same time.
const (
	aheadFrom  = 1 << 14
	aheadBytes = 4 << 10
)

// ahead is the given order laid out.
type ahead struct {
	laying
	err error
}

// layAhead begins to lay out the given order, where the bound that searches find does not matter for that, there is memory, and another
// core. Until it is awaited, nothing may change the graph.
func (l *leveler) layAhead() {
	memory := ndarray.BudgetOf(l.ctx).Bytes()
	if n := len(l.given); n < aheadFrom || memory < aheadBytes*int64(n) || runtime.GOMAXPROCS(0) == 1 || l.owner != nil || alias.HasParts(l.g) {
		return
	}
	l.ahead = make(chan ahead, 1)
	out := l.ahead
	rescue.Go(func() {
		var x ahead
		defer func() { out <- x }()
		defer rescue.Into(&x.err)
		x.laying, x.err = lay(l.ctx, l.g, nil, nil, 0)
	})
}

// await is what layAhead began, once; ok is false where there is nothing, or only what depends on the bound.
func (l *leveler) await() (x ahead, ok bool) {
	if l.ahead == nil {
		return x, false
	}
	x, l.ahead = <-l.ahead, nil
	return x, x.err != nil || !inplace.Tried(x.timeline)
}

// layIn lays the graph out in an order.
func (l *leveler) layIn(nodes []*ssa.Node) (laying, error) {
	x, ok := l.await()
	if ok && len(nodes) > 0 && &nodes[0] == &l.given[0] {
		return x.laying, x.err
	}
	l.g.Nodes = nodes
	return lay(l.ctx, l.g, l.owner, l.around, l.bound)
}

// mostOperands is up to how many operands or results of a node an order is searched for:
// the model compares all memory that a node touches.
const mostOperands = 4096

// widest is the most operands or results of a node.
func widest(g *ssa.Graph) (most int) {
	for _, n := range g.Nodes {
		most = max(most, len(n.In), len(n.Out))
	}
	return most
}

// tryPlain tries the orders that need no model. The bound is the largest result that
// some node writes.
func (l *leveler) tryPlain() error {
	for _, nodes := range [][]*ssa.Node{l.given, depthFirst(l.ctx, l.g), breadthFirst(l.ctx, l.g)} {
		if err := l.try(nodes); err != nil {
			return err
		}
	}
	var views alias.Views
	for _, n := range l.given {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		for _, v := range n.Out {
			if v != nil && l.rot == nil && !views.IsPointer(v) {
				l.bound = max(l.bound, sizeOf(v))
			}
		}
	}
	return nil
}

// search adds the leaf of a set of decisions whose bound is known to be no lower than
// bound, and returns the order found for it; nil once the context has ended.
func (l *leveler) search(how counting, bound int64) []*ssa.Node {
	if l.ahead == nil {
		l.g.Nodes = l.given
	}
	m := newModel(l.ctx, l.g, l.rot, l.control, how)
	var f found
	if l.ctx.Err() == nil {
		f = l.solve(m)
	}
	if l.ctx.Err() != nil {
		l.leaves = append(l.leaves, leaf{how: how, bound: bound})
		return nil
	}
	x := leaf{how: how, bound: max(bound, f.bound), found: f.bound, order: f.order, model: m, unend: f.bound < f.peak}
	l.leaves = append(l.leaves, x)
	return l.ordered(f.order)
}

// findSteps finds the steps of new leaves. Most graphs are done before.
func (l *leveler) findSteps() {
	for i := range l.leaves {
		if x := &l.leaves[i]; x.model != nil {
			x.steps, x.model = newSim(l.ctx, x.model).stepsOver(l.ctx, x.order, x.found), nil
		}
	}
}

// done reports whether there is nothing more to find, or no time.
func (l *leveler) done() bool { return l.peak <= l.bound || l.ctx.Err() != nil }

// lowest is the leaf with the lowest bound.
func (l *leveler) lowest() int {
	at := 0
	for i := range l.leaves {
		if l.leaves[i].bound < l.leaves[at].bound {
			at = i
		}
	}
	return at
}

func (l *leveler) ordered(order []int32) []*ssa.Node {
	out := make([]*ssa.Node, len(order))
	for i, n := range order {
		out[i] = l.given[n]
	}
	return out
}

// tryOthers tries the order of a search that estimates control flow, and those of the
// heuristics.
func (l *leveler) tryOthers() error {
	l.g.Nodes = l.given
	orders := [][]*ssa.Node{greedyOrder(l.ctx, l.g, l.rot, l.control), depthFirst(l.ctx, l.g), breadthFirst(l.ctx, l.g)}
	if len(l.control) > 0 {
		f := l.solve(newModel(l.ctx, l.g, l.rot, l.control, counting{estimate: true}))
		if err := l.ctx.Err(); err != nil {
			return err
		}
		orders = append(orders, l.ordered(f.order))
	}
	return l.tryAll(orders)
}

// tryAll tries orders until there is nothing more to find.
func (l *leveler) tryAll(orders [][]*ssa.Node) error {
	for _, nodes := range orders {
		if err := l.try(nodes); err != nil || l.done() {
			return err
		}
	}
	return nil
}

// try lays the graph out in an order and keeps it if it needs less than the best.
func (l *leveler) try(nodes []*ssa.Node) error {
	if nodes == nil || slices.ContainsFunc(l.tried, func(t []*ssa.Node) bool { return slices.Equal(t, nodes) }) {
		return nil
	}
	first := len(l.tried) == 0
	l.tried = append(l.tried, nodes)
	x, err := l.layIn(nodes)
	if err != nil {
		return err
	}
	if peak := x.folding.Peak(); first || peak < l.peak {
		l.best, l.peak, l.laid = nodes, peak, x
	}
	return nil
}

// laying is a graph laid out in an order.
type laying struct {
	timeline *liveness.Timeline
	folding  *inplace.Folding
}

// decide splits a leaf: where the largest undecided operand of a concatenation lies
// that its order holds where it needs the most. Nothing is left to decide if the
// answer is empty.
func (l *leveler) decide(x leaf) []counting {
	if x.unend {
		return nil
	}
	l.g.Nodes = l.given
	c := newCounter(l.ctx, l.g, l.rot, l.control, x.how)
	at := make([]int, len(x.order)) // position by node
	for i, n := range x.order {
		at[n] = i
	}
	for i, n := range l.given {
		c.index[n.ID] = int32(i)
	}
	var best *operand
	for _, o := range c.operands() {
		if _, ok := x.how.decided[o.root]; ok || best != nil && sizeOf(o.root) <= sizeOf(best.root) {
			continue
		}
		if from, to := c.stretch(o, at); slices.ContainsFunc(x.steps, func(s int32) bool { return from <= at[s] && at[s] <= to }) {
			best = &o
		}
	}
	if best == nil {
		return nil
	}
	var out []counting
	for _, m := range append(best.homes, member{}) {
		next := counting{copies: x.how.copies, decided: maps.Clone(x.how.decided)}
		if next.decided == nil {
			next.decided = map[*ssa.Value]*ssa.Value{}
		}
		next.decided[best.root] = m.of
		out = append(out, next)
	}
	return out
}

// stretch is the run of positions of an order within which it can matter where an
// operand lies: from the first of the blocks that it may be written over, or that share
// a result with it, to the last reader of a result.
func (c *counter) stretch(o operand, at []int) (from, to int) {
	from = math.MaxInt
	var reach func(v *ssa.Value, seen map[*ssa.Value]bool)
	reach = func(v *ssa.Value, seen map[*ssa.Value]bool) {
		if seen[v] || v.Def == nil {
			return
		}
		seen[v] = true
		from = min(from, at[c.index[v.Def.ID]])
		for _, a := range ops.InPlacePairs(v.Def) {
			if x := v.Def.Input(a.In); a.Out == v.DefIndex && x != nil {
				reach(alias.Shown(x), seen)
			}
		}
	}
	seen := map[*ssa.Value]bool{}
	reach(o.root, seen)
	to = c.lastUse(o.root, at)
	for _, m := range o.homes {
		for _, v := range m.of.Def.In {
			if v != nil {
				reach(alias.Shown(v), seen)
			}
		}
		to = max(to, c.lastUse(m.of, at))
	}
	return from, to
}

// lastUse is the position of the last reader of a value or of a view of it.
func (c *counter) lastUse(v *ssa.Value, at []int) int {
	if c.g.IsResult(v) {
		return len(at)
	}
	last := at[c.index[v.Def.ID]]
	for _, u := range v.Uses() {
		last = max(last, at[c.index[u.Node.ID]])
		for _, o := range u.Node.Out {
			if o != nil && c.place[o.ID].root == c.place[v.ID].root && c.place[v.ID].root != nil {
				last = max(last, c.lastUse(o, at))
			}
		}
	}
	return last
}

// lay lays a graph out in its present order, as it will be folded.
// A body of a loop is laid out with the loop around it. No layout needs less than bound.
func lay(ctx context.Context, g *ssa.Graph, owner *ssa.Node, around *ssa.Graph, bound int64) (x laying, err error) {
	if owner != nil {
		g = isolated(owner, around)
	}
	x.timeline, x.folding, err = inplace.Lay(ctx, g, liveness.Options{}, inplace.Options{Bound: bound})
	return x, err
}
