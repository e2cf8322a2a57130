package schedule

import (
	"cmp"
	"context"
	"slices"

	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Result says how good an order is. All bytes are counted as the package comment
// says.
type Result struct {
	// Peak is what the order needs at once: the most bytes alive at any step.
	Peak int64
	// LowerBound: no order needs less, however windows, concatenations and in-place
	// results are chosen in it (if there is only one order, it is what that needs as
	// they are chosen). Bodies of control flow are free to overlap with their
	// operands in it, so that it is weak for graphs that spend their memory there.
	LowerBound int64
	// Proven: no order needs less than this one.
	Proven bool
	// Nodes is how many sets of executed nodes the searches looked at.
	Nodes int64
	// Timeline and Folding are a large graph laid out in its order, without options; nil for a graph so small that a folding
	// depends on the bound that is known.
	Timeline *liveness.Timeline
	Folding  *inplace.Folding
}

// work bounds one search by executions of nodes tried, so that its end does not
// depend on the machine: some tens of milliseconds. allWork bounds all searches
// for one graph together.
const (
	work    = 1 << 20
	allWork = 3 << 20
)

// MinPeak brings a graph and its bodies, whose types must be inferred, into an
// order that needs as little memory at once as the search finds, and says what any
// order needs. Where the present order is as good, it stays. An error means that the
// graph has a cycle or a loop that can not be laid out, or that the context has ended;
// then the order may have changed in some bodies only.
//
// Bodies are ordered first; see leveler for one graph.
func MinPeak(ctx context.Context, g *ssa.Graph) (*Result, error) {
	s := &solver{ctx: ctx, left: allWork}
	f, err := s.level(g, nil, nil)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, err
	}
	r := &Result{Peak: f.peak, LowerBound: min(f.bound, f.peak), Nodes: s.nodes}
	r.Proven = r.Peak == r.LowerBound
	if x := f.laid; x.timeline != nil && !inplace.Tried(x.timeline) {
		r.Timeline, r.Folding = x.timeline, x.folding
	}
	return r, nil
}

// solver orders graphs from the inside out.
type solver struct {
	ctx   context.Context
	nodes int64
	left  int64 // work that may still be done
}

// level orders a graph, a body of owner (a node of around) unless that is nil. In the answer, peak is
// what the graph needs in its new order, with parameters free; for a body of a
// loop it is what the loop needs.
func (s *solver) level(g *ssa.Graph, owner *ssa.Node, around *ssa.Graph) (found, error) {
	if err := sortedGraph(g); err != nil {
		return found{}, err
	}
	control := map[*ssa.Node]*inner{}
	only := onlyOrder(g)
	for _, n := range g.Nodes {
		in, sole, err := s.bodies(n, g)
		if err != nil {
			return found{}, err
		}
		if in != nil {
			control[n] = in
		}
		only = only && sole
	}
	return s.order(g, owner, around, control, only)
}

// onlyOrder reports whether the nodes can run in no other order: each needs the
// one before.
func onlyOrder(g *ssa.Graph) bool {
	for i := 1; i < len(g.Nodes); i++ {
		if !slices.ContainsFunc(g.Nodes[i].In, func(v *ssa.Value) bool { return v != nil && v.Def == g.Nodes[i-1] }) {
			return false
		}
	}
	return true
}

// onlyOrderInAll is [onlyOrder] of a graph and of its bodies.
func onlyOrderInAll(g *ssa.Graph) bool {
	only := true
	g.Walk(func(g *ssa.Graph) { only = only && onlyOrder(g) })
	return only
}

// bodies orders the bodies of a node and measures it, if it is control flow. only
// is true if the bodies have no other order.
func (s *solver) bodies(n *ssa.Node, g *ssa.Graph) (in *inner, only bool, err error) {
	var bound int64
	only = true
	for _, b := range n.Bodies {
		owner := n
		if !ops.IsLoop(n) {
			owner = nil // the body is ordered as a graph of its own
		}
		f, err := s.level(b, owner, g)
		if err != nil {
			return nil, false, err
		}
		bound = max(bound, f.bound)
		only = only && f.only
	}
	if !ops.IsControl(n) {
		return nil, only, nil
	}
	if in, err = measure(s.ctx, n, g); err == nil {
		in.bound = bound
	}
	return in, only, err
}

// order finds the order of one graph whose bodies are ordered; only says that there is
// but one.
func (s *solver) order(g *ssa.Graph, owner *ssa.Node, around *ssa.Graph, control map[*ssa.Node]*inner, only bool) (found, error) {
	l := &leveler{solver: s, g: g, owner: owner, around: around, control: control}
	if owner != nil {
		var err error
		if l.rot, err = loops.Of(owner); err != nil {
			return found{}, err
		}
	}
	if only {
		l.best = g.Nodes
		err := l.try(g.Nodes)
		return found{peak: l.peak, bound: l.peak, only: true, laid: l.laid}, err
	}
	err := l.run()
	return found{peak: l.peak, bound: l.bound, laid: l.laid}, err
}

// solve finds the order of a model: cell by cell, those that need the most in the
// given order first, since what they can not do without the others may use. No cell has a bound above what it needs in the given
// order. What it finds is of no use once the context has ended.
func (s *solver) solve(m *model) found {
	m.postpone(s.ctx)
	if s.ctx.Err() != nil {
		return found{}
	}
	d := m.divide(s.ctx)
	if s.ctx.Err() != nil {
		return found{}
	}
	ranks := make([]int, len(d.cells))
	for i := range ranks {
		ranks[i] = i
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(d.cells[b].peak, d.cells[a].peak) })
	out := found{bound: d.bound(s.ctx, ranks), order: make([]int32, 0, len(m.nodes))}
	orders := make([][]int32, len(d.cells)) // of the cell's model; nil is the given one
	for _, i := range ranks {
		c := &d.cells[i]
		if c.peak <= max(out.bound, out.peak) {
			out.peak = max(out.peak, c.peak)
			break // as are all after it
		}
		if s.ctx.Err() != nil {
			return found{}
		}
		f := search(s.ctx, d.part(s.ctx, c), identity(len(c.nodes)), out.bound, min(work, s.left))
		s.left = max(s.left-f.steps, 0)
		orders[i] = f.order
		out.peak, out.bound = max(out.peak, f.peak), max(out.bound, f.bound)
		s.nodes += f.nodes
	}
	for i, c := range d.cells {
		if i%lookEvery == 0 && s.ctx.Err() != nil {
			return found{}
		}
		if orders[i] == nil {
			out.order = append(out.order, c.nodes...)
		}
		for _, n := range orders[i] {
			out.order = append(out.order, c.nodes[n])
		}
	}
	return out
}

// bound is what some cell needs in every order. The cells are given by falling peaks.
func (d *division) bound(ctx context.Context, ranks []int) (most int64) {
	for _, i := range ranks {
		if c := &d.cells[i]; c.peak > most && ctx.Err() == nil {
			most = max(most, d.part(ctx, c).bound(ctx))
		}
	}
	return most
}

func identity(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}

// sortedGraph makes sure that the nodes are in a legal order.
func sortedGraph(g *ssa.Graph) error {
	seen := make([]bool, g.NumNodeIDs())
	for _, n := range g.Nodes {
		for _, v := range n.In {
			if v != nil && v.Def != nil && !seen[v.Def.ID] {
				return g.Sort()
			}
		}
		seen[n.ID] = true
	}
	return nil
}
