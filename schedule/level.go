package schedule

import (
	"slices"

	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ssa"
)

// leveler finds the order of one graph whose bodies are ordered.
//
// It keeps two numbers: what the best order known needs, laid out and folded as it
// will be for the plan, and a bound below all orders. Orders come from searches
// with memory counted in different ways, and from the plain heuristics. The bound
// comes from the search with all decisions of folding open; while it is below the
// peak, decisions are taken one by one:
//
//	           all open: 40             the bound of all orders is the
//	     ╭─────────┴─────────╮          lowest of the leaves, and a leaf
//	windows: 52           copies: 44    at or above the best peak is done
//	                    ╭─────┴─────╮
//	           p inside r: 60    p apart: 52
type leveler struct {
	*solver
	g       *ssa.Graph
	owner   *ssa.Node  // the loop that g is the body of, nil for all other graphs
	around  *ssa.Graph // the graph of owner
	rot     *loops.Rotation
	control map[*ssa.Node]*inner

	best  []*ssa.Node
	tried [][]*ssa.Node
	peak  int64 // of best
	bound int64
}

// maxLeaves bounds how many sets of decisions are searched for one graph.
const maxLeaves = 40

// leaf is a set of decisions and the bound of all orders under them.
type leaf struct {
	how   counting
	bound int64
	unend bool // the search did not end: its decisions are not what is missing
}

func (l *leveler) run() error {
	given := l.g.Nodes
	defer func() { l.g.Nodes = l.best }()
	l.best = given
	if err := l.try(given); err != nil {
		return err
	}
	leaves := []leaf{}
	add := func(how counting, bound int64) error {
		f := l.solve(newModel(l.g, l.rot, l.control, how))
		leaves = append(leaves, leaf{how, max(bound, f.bound), f.bound < f.peak})
		return l.try(l.ordered(given, f.order))
	}
	if err := add(counting{least: true}, 0); err != nil {
		return err
	}
	l.bound = leaves[0].bound
	if l.done() {
		return nil
	}
	if err := l.tryOthers(given); err != nil {
		return err
	}
	for len(leaves) < maxLeaves && !l.done() {
		at := lowest(leaves)
		if leaves[at].unend {
			break
		}
		next := l.decide(leaves[at].how, given)
		if len(next) == 0 {
			break
		}
		bound := leaves[at].bound
		leaves = slices.Delete(leaves, at, at+1)
		for _, how := range next {
			l.g.Nodes = given
			if err := add(how, bound); err != nil {
				return err
			}
		}
		l.bound = leaves[lowest(leaves)].bound
	}
	return nil
}

// done reports whether there is nothing more to find, or no time.
func (l *leveler) done() bool { return l.peak <= l.bound || l.ctx.Err() != nil }

func lowest(leaves []leaf) int {
	at := 0
	for i := range leaves {
		if leaves[i].bound < leaves[at].bound {
			at = i
		}
	}
	return at
}

func (l *leveler) ordered(nodes []*ssa.Node, order []int32) []*ssa.Node {
	out := make([]*ssa.Node, len(order))
	for i, n := range order {
		out[i] = nodes[n]
	}
	return out
}

// tryOthers tries the orders of the other ways to count, and of the heuristics.
func (l *leveler) tryOthers(given []*ssa.Node) error {
	for _, how := range []counting{{windows: yes, concats: yes}, {windows: yes, concats: no}, {windows: no, concats: yes}, {windows: no, concats: no}} {
		l.g.Nodes = given
		f := l.solve(newModel(l.g, l.rot, l.control, how))
		if err := l.try(l.ordered(given, f.order)); err != nil || l.done() {
			return err
		}
	}
	l.g.Nodes = given
	for _, nodes := range [][]*ssa.Node{greedyOrder(l.g, l.rot, l.control), depthFirst(l.g), breadthFirst(l.g)} {
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
	l.g.Nodes = nodes
	peak, err := laid(l.g, l.owner, l.around)
	if err == nil && (first || peak < l.peak) {
		l.best, l.peak = nodes, peak
	}
	return err
}

// decide splits a set of decisions at the next open one: whether windows are
// copies, if there are any; then where the largest undecided operand of a
// concatenation lies. Nothing is left open if the answer is empty.
func (l *leveler) decide(how counting, given []*ssa.Node) []counting {
	l.g.Nodes = given
	if how.windows == open {
		kept, copied := how, how
		kept.windows, copied.windows = yes, no
		if !hasWindows(l.g) {
			return l.decide(kept, given)
		}
		return []counting{kept, copied}
	}
	if how.concats != open {
		return nil
	}
	var at *operand
	for _, o := range operandsOf(l.g, l.rot, l.control, how) {
		if _, ok := how.decided[o.root]; !ok && (at == nil || sizeOf(o.root) > sizeOf(at.root)) {
			at = &o
		}
	}
	if at == nil {
		return nil
	}
	var out []counting
	for _, m := range append(at.homes, member{}) {
		next := how
		next.decided = make(map[*ssa.Value]*ssa.Value, len(how.decided)+1)
		for k, v := range how.decided {
			next.decided[k] = v
		}
		next.decided[at.root] = m.of
		out = append(out, next)
	}
	return out
}

// hasWindows reports whether some result is a part of an operand.
func hasWindows(g *ssa.Graph) bool {
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			if v == nil {
				continue
			}
			if w, ok := loops.WindowOf(v); ok && !w.Whole {
				return true
			}
		}
	}
	return false
}

// laid is what a graph needs at once in its present order, as it will be folded.
// A body of a loop is laid out with the loop around it.
func laid(g *ssa.Graph, owner *ssa.Node, around *ssa.Graph) (int64, error) {
	if owner != nil {
		g = isolated(owner, around)
	}
	_, f, err := inplace.Lay(g, liveness.Options{}, inplace.Options{})
	if err != nil {
		return 0, err
	}
	return peakOf(f), nil
}
