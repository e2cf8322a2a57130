package onnxgo

import (
	"errors"
	"fmt"
	"sync"

	"github.com/owulveryck/onnx-go"
	"github.com/owulveryck/onnx-go/backend"
	"gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/simple"

	"github.com/berth-onnx/berth"
)

// Graph is a computation backend of onnx-go. It holds one model. Edges lead from a result to the operands of its operator
// and weigh their positions; where an operator takes a value twice, the edge has the last of them.
type Graph struct {
	mu   sync.Mutex
	opts []berth.Option
	err  error // of a method that returns none

	edges   *simple.WeightedDirectedGraph
	nodes   []*Node // by ID; nil where a node was made and not added
	last    *Node   // the node that was added last, until anything else happens
	pending map[*Node][]operand
	made    []*operation
	sets    int // calls of SetTensor after decoding

	resolved   bool // roles are up to date
	inputs     []*Node
	lastOutput int64          // of the model; what is computed later is no result of it
	failed     bool           // the last run, so that there are no results
	asked      map[*Node]bool // results that were fetched, of those which operators read
	latest     *snapshot      // inputs of the last run
	whole      *whole         // the model, if the graph has read it itself
	read       *reading       // what the recorded nodes mean
	running    *berth.Model
}

// operation is one use of an operator.
type operation struct {
	onnx.Operation
	in, out []*Node
}

// operand is an operand with its position.
type operand struct {
	at   int
	node *Node
}

var errUnmade = errors.New("the receiver is nil or a zero value: NewGraph makes graphs, Graph.NewNode nodes")

var (
	_ backend.ComputationBackend = (*Graph)(nil)
	_ graph.WeightedDirected     = (*Graph)(nil)
	_ onnx.Namer                 = (*Node)(nil)
	_ onnx.DataCarrier           = (*Node)(nil)
)

// NewGraph returns an empty graph, for onnx.NewModel. The options are those of opening, compiling and running a
// [berth.Model]: [berth.WithThreads], say.
func NewGraph(opts ...berth.Option) *Graph {
	return &Graph{opts: opts, edges: newEdges()}
}

func newEdges() *simple.WeightedDirectedGraph { return simple.NewWeightedDirectedGraph(0, 0) }

// lock admits one caller. The function that it returns lets the next one in. Methods that return an error rescue panics.
func (g *Graph) lock() (unlock func()) {
	g.mu.Lock()
	if g.edges == nil {
		g.edges = newEdges()
	}
	return g.mu.Unlock
}

// guard is lock for methods that return no error: a panic becomes the graph's error.
func (g *Graph) guard() (unlock func()) {
	g.lock()
	return func() {
		if r := recover(); r != nil {
			g.fail(&GraphError{Reason: fmt.Sprintf("the arguments are no nodes and edges: %v", r)})
		}
		g.mu.Unlock()
	}
}

// fail keeps the first error, for the next method that returns one.
func (g *Graph) fail(err error) {
	if g.err == nil {
		g.err = err
	}
}

// own returns a node of this graph, nil if n is none.
func (g *Graph) own(n graph.Node) *Node {
	if m, ok := n.(misaddressed); ok {
		n = m.Node
	}
	if m, ok := n.(*Node); ok && m != nil && m.g == g {
		return m
	}
	return nil
}

// NewNode returns a node with a number of its own, to be added to the graph.
func (g *Graph) NewNode() graph.Node {
	if g == nil {
		return (*Node)(nil)
	}
	defer g.guard()()
	n := &Node{g: g, id: int64(len(g.nodes))}
	g.nodes = append(g.nodes, nil)
	return n
}

// AddNode adds a node that NewNode made. The error of other nodes is that of the next Run.
func (g *Graph) AddNode(n graph.Node) {
	if g == nil {
		return
	}
	defer g.guard()()
	own := g.own(n)
	switch {
	case own == nil:
		g.fail(&GraphError{Reason: "a node that another graph made was added; add those that NewNode of this graph makes"})
	case own.added:
		g.fail(&GraphError{own.name, "the node was added twice"})
	case g.read != nil || g.whole != nil && g.whole.decoded:
		g.fail(&GraphError{own.name, "the graph has a model already; NewGraph makes one for another model"})
	default:
		own.added = true
		g.nodes[own.id] = own
		g.edges.AddNode(own)
		g.last, g.resolved = own, false
	}
}

// NewWeightedEdge returns an edge from a result to its operand of the position w, to be set in the graph.
func (g *Graph) NewWeightedEdge(from, to graph.Node, w float64) graph.WeightedEdge {
	return simple.WeightedEdge{F: from, T: to, W: w}
}

// SetWeightedEdge sets an edge between nodes of the graph. The error of other edges is that of the next Run.
func (g *Graph) SetWeightedEdge(e graph.WeightedEdge) {
	if g == nil {
		return
	}
	defer g.guard()()
	from, to := g.own(e.From()), g.own(e.To())
	at := int(e.Weight())
	switch {
	case from == nil || to == nil || !from.added || !to.added:
		g.fail(&GraphError{Reason: "an edge ends in a node that is not in the graph; add nodes before their edges"})
		return
	case float64(at) != e.Weight() || at < 0:
		g.fail(&GraphError{from.name, fmt.Sprintf("an edge weighs %v, which is no position of an operand", e.Weight())})
		return
	}
	if from != to { // a cycle, which the import reports
		g.edges.SetWeightedEdge(simple.WeightedEdge{F: from, T: to, W: e.Weight()})
	}
	if g.pending == nil {
		g.pending = map[*Node][]operand{}
	}
	g.pending[from] = append(g.pending[from], operand{at, to})
	g.last, g.resolved = nil, false
}

// Node returns the node of a number, nil if there is none.
func (g *Graph) Node(id int64) graph.Node {
	if g == nil {
		return nil
	}
	defer g.guard()()
	if id < 0 || id >= int64(len(g.nodes)) || g.nodes[id] == nil {
		return nil
	}
	n := g.nodes[id]
	if g.roles(); id < int64(len(g.inputs)) && g.inputs[id] != n.same {
		return misaddressed{n, g.inputs[id]}
	}
	return n
}

// Nodes returns all nodes.
func (g *Graph) Nodes() graph.Nodes {
	if g == nil {
		return graph.Empty
	}
	defer g.guard()()
	return g.edges.Nodes()
}

// From returns the operands of the operator whose result has the number.
func (g *Graph) From(id int64) graph.Nodes {
	if g == nil {
		return graph.Empty
	}
	defer g.guard()()
	return g.edges.From(id)
}

// To returns the results of operators that have the node of the number as an operand.
func (g *Graph) To(id int64) graph.Nodes {
	if g == nil {
		return graph.Empty
	}
	defer g.guard()()
	return g.edges.To(id)
}

// HasEdgeBetween reports whether one of two nodes is an operand of the other's operator.
func (g *Graph) HasEdgeBetween(x, y int64) bool {
	if g == nil {
		return false
	}
	defer g.guard()()
	return g.edges.HasEdgeBetween(x, y)
}

// HasEdgeFromTo reports whether v is an operand of the operator of u.
func (g *Graph) HasEdgeFromTo(u, v int64) bool {
	if g == nil {
		return false
	}
	defer g.guard()()
	return g.edges.HasEdgeFromTo(u, v)
}

// Edge returns the edge from u to v, nil if there is none.
func (g *Graph) Edge(u, v int64) graph.Edge {
	if e := g.WeightedEdge(u, v); e != nil {
		return e
	}
	return nil
}

// WeightedEdge returns the edge from u to v, nil if there is none.
func (g *Graph) WeightedEdge(u, v int64) graph.WeightedEdge {
	if g == nil {
		return nil
	}
	defer g.guard()()
	return g.edges.WeightedEdge(u, v)
}

// Weight returns the position of operand y of the operator of x.
func (g *Graph) Weight(x, y int64) (w float64, ok bool) {
	if g == nil {
		return 0, false
	}
	defer g.guard()()
	return g.edges.Weight(x, y)
}
