package rewrite

import (
	"fmt"
	"slices"
	"sync"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Pass is one kind of rewrite: rules, and the nodes they match. The driver visits the
// nodes, applies the rules and records what they changed.
type Pass struct {
	Name     string // lower case with hyphens, as given to Options.Off
	Doc      string // one line: before -> after
	Required bool   // can not be switched off: later passes depend on it

	// rules are tried in order on each node of a graph, when the driver has already
	// run the pass on the bodies inside.
	rules []rule
	// backward visits the nodes from the last to the first.
	backward bool
	// every visits unread nodes, too, and nodes whose operands are incompatible with
	// the operator.
	every bool
	// before and after change a graph as a whole, around the visits to its nodes. They
	// record their patches themselves.
	before, after func(c *Context, g *ssa.Graph)

	byOp sync.Map // []rule by *ops.Op, as operators are met: a model has few of them
}

// rule rewrites a node of certain operators.
type rule struct {
	what string    // before -> after, in one line
	on   operators // the operators of the nodes it matches
	// apply rewrites n by the context if the rule matches, and reports whether it
	// changed anything.
	apply func(c *Context, n *ssa.Node) bool
}

// operators is a set of operators.
type operators func(o *ops.Op) bool

// named is the set of some operators of the default domain.
//
//go:noinline
func named(names ...string) operators {
	return func(o *ops.Op) bool { return o.Domain == "" && slices.Contains(names, o.Name) }
}

// with is the set of the operators of the default domain that have a property.
//
//go:noinline
func with(property func(f *ops.Facts) bool) operators {
	return func(o *ops.Op) bool { return o.Domain == "" && property(&o.Facts) }
}

// anyOp is the set of all operators.
func anyOp(*ops.Op) bool { return true }

// rulesFor returns the rules for an operator.
func (p *Pass) rulesFor(o *ops.Op) []rule {
	if known, ok := p.byOp.Load(o); ok {
		return known.([]rule)
	}
	var out []rule
	for _, r := range p.rules {
		if o != nil && r.on(o) {
			out = append(out, r)
		}
	}
	p.byOp.Store(o, out)
	return out
}

// listing tells the operators of a graph's nodes, so that a pass finds those that it may change, mostly none, without
// looking at every node.
type listing struct {
	patches int         // that had been made at the time: it holds until the next one
	nodes   []*ssa.Node // of the graph at the time
	known   []*ops.Op   // by place among the nodes; nil for opaque nodes
	met     []*ops.Op   // the same, each once
	owners  []*ssa.Node // nodes with bodies
	usable  []answer    // by number of a node; see [Context.usable]
}

// answer is one that may not have been looked for yet.
type answer int8

const (
	unknown answer = iota
	yes
	no
)

func newListing(patches int, g *ssa.Graph) *listing {
	l := &listing{patches: patches, nodes: g.Nodes, known: make([]*ops.Op, len(g.Nodes)), usable: make([]answer, g.NumNodeIDs())}
	for i, n := range g.Nodes {
		if len(n.Bodies) > 0 {
			l.owners = append(l.owners, n)
		}
		if n.Opaque {
			continue
		}
		l.known[i] = ops.Of(n)
		if l.known[i] != nil && (i == 0 || l.known[i] != l.known[i-1]) && !slices.Contains(l.met, l.known[i]) {
			l.met = append(l.met, l.known[i])
		}
	}
	return l
}

// with appends the nodes of some operators to a list.
func (l *listing) with(of operators, out []*ssa.Node) []*ssa.Node {
	var chosen []*ops.Op
	for _, o := range l.met {
		if of(o) {
			chosen = append(chosen, o)
		}
	}
	if len(chosen) == 0 {
		return out
	}
	for i, o := range l.known {
		if o != nil && slices.Contains(chosen, o) {
			out = append(out, l.nodes[i])
		}
	}
	return out
}

// Stage is a row of passes; with Repeat it runs again until no pass changes
// anything.
type Stage struct {
	Name   string
	Repeat bool
	Passes []*Pass
}

// List is what one optimization runs.
type List struct {
	Name   string
	Stages []Stage
	// AnyOpset lets new nodes need a newer operator set than the model imports,
	// where Options.MaxOpset does not say otherwise.
	AnyOpset bool
	// Growth bounds what folding may add where Options.Growth does not.
	Growth Growth
	// CommonKernels makes no operators for element types for which common runtimes have no kernel; see the end of list.go.
	CommonKernels bool
	// KeepUnfit leaves branches that accept no operand of the known shapes as they are; see [Run].
	KeepUnfit bool
}

// Passes returns every pass of the list once, in order of first appearance.
func (l *List) Passes() []*Pass {
	var out []*Pass
	for _, s := range l.Stages {
		for _, p := range s.Passes {
			if !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// orderRule says that one pass must come before another where both are in a
// list, and why.
type orderRule struct {
	before, after *Pass
	why           string
}

// validate checks names and order rules of a list.
func (l *List) validate(rules []orderRule) error {
	names := map[string]bool{}
	first := map[*Pass]int{}
	for i, p := range l.Passes() {
		if p.Name == "" || p.Doc == "" || len(p.rules) == 0 && p.before == nil && p.after == nil || names[p.Name] {
			return fmt.Errorf("rewrite: pass %q lacks a field or appears under two definitions", p.Name)
		}
		names[p.Name] = true
		first[p] = i
	}
	for _, r := range rules {
		a, okA := first[r.before]
		b, okB := first[r.after]
		if okA && okB && a >= b {
			return fmt.Errorf("rewrite: %s must come before %s: %s", r.before.Name, r.after.Name, r.why)
		}
	}
	return nil
}
