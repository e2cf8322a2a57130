package onnxgo

import (
	"fmt"
	"iter"
	"slices"

	"github.com/owulveryck/onnx-go"
	"gonum.org/v1/gonum/graph"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/internal/rescue"
)

// ApplyOperation makes nodes the results of an operator. Its operands are the nodes to which edges lead from the first of
// them.
func (g *Graph) ApplyOperation(o onnx.Operation, results ...graph.Node) (err error) {
	defer rescue.Into(&err)
	if g == nil {
		return errUnmade
	}
	defer g.lock()()
	op := &operation{Operation: o}
	for _, r := range results {
		n := g.own(r)
		if n == nil || !n.added {
			g.fail(&GraphError{Reason: fmt.Sprintf("operator %s has a result that is not in the graph; add nodes before operators have them as results", o.Name)})
			return g.err
		}
		op.out = append(op.out, n)
	}
	if len(op.out) == 0 {
		return g.err // nobody reads it
	}
	in, err := inOrder(g.pending[op.out[0]])
	if err != nil {
		g.fail(&GraphError{op.out[0].name, err.Error()})
		return g.err
	}
	op.in, g.pending, g.last, g.resolved = in, nil, nil, false
	for _, n := range op.in {
		n.used = true
	}
	for _, n := range op.out {
		n.maker = op
	}
	g.made = append(g.made, op)
	return g.err
}

// inOrder lists operands by position.
func inOrder(list []operand) ([]*Node, error) {
	out := make([]*Node, len(list))
	for _, o := range list {
		if o.at >= len(out) || out[o.at] != nil {
			return nil, fmt.Errorf("the edges to its %d operands do not weigh their positions", len(list))
		}
		out[o.at] = o.node
	}
	return out, nil
}

// set gives a node a tensor. While a model is decoded, that is a weight, or a placeholder where a type is declared.
func (g *Graph) set(n *Node, t tensor.Tensor) error {
	if err := n.dense(t); err != nil {
		return err
	}
	if len(g.made) == 0 && g.whole == nil {
		n.held = t
		n.late = n.late || g.last != n || n.sets > 0
		n.sets++
		g.resolved = false
		return nil
	}
	if g.roles(); !n.added {
		return &GraphError{n.name, "it is in no graph; AddNode adds nodes"}
	}
	switch n.same.role {
	case result:
		return &GraphError{n.name, "it is the result of an operator and can not be set; set the inputs of the model"}
	case weight:
		g.read = nil
	case input:
		if err := n.fits(t); err != nil {
			return err
		}
	}
	g.sets++
	n.held, n.stamp = t, g.sets
	return nil
}

// get returns what a node holds.
func (g *Graph) get(n *Node) tensor.Tensor {
	if len(g.made) == 0 {
		return n.held
	}
	g.roles()
	s := n.same
	if s == nil { // never added
		return n.held
	}
	if s.role == result {
		if t := g.fetch(s); t != nil {
			return t
		}
		if g.failed {
			return nil
		}
	} else if v := g.valueOf(s); v != nil {
		return v
	}
	if o := n.declared(); o != nil {
		return tensor.New(tensor.WithShape(o.shape...), tensor.Of(o.dtype))
	}
	return nil
}

// declared returns what the model declares of a value, nil if nothing.
func (n *Node) declared() *outline {
	if n.outline != nil {
		return n.outline
	}
	return n.same.outline
}

// valueOf returns what a weight or an input holds: of the nodes of its name, what was set last.
func (g *Graph) valueOf(s *Node) tensor.Tensor {
	latest := s
	for _, n := range s.twins {
		if n.held != nil && (latest.held == nil || n.stamp > latest.stamp) {
			latest = n
		}
	}
	return latest.held
}

// role is what a value is.
type role uint8

const (
	input  role = iota // set before a run
	weight             // an initializer
	result             // of an operator
)

// roles finds out what nodes are, which onnx-go does not say. It decodes in this order, numbering nodes from 0:
//
//	inputs        a node each, with a placeholder where the type is known
//	value infos   likewise; a name that is an input has a second node now
//	outputs       likewise, at least one
//	initializers  a tensor for the latest node of the name, or for a new one
//	operators     a new node for each name that is met for the first time
//
// So nodes of one name are one value, and the last output is recognized by being computed, being a second node of its name, or
// getting a tensor later: source nodes after it that got a tensor are initializers, those before it that got theirs at once
// are inputs.
func (g *Graph) roles() {
	if g.resolved {
		return
	}
	g.resolved = true
	g.unify()
	g.lastOutput = g.findLastOutput()
	initial := func(n *Node) bool { return n.sets > 0 && (n.late || n.id > g.lastOutput) }
	g.inputs = nil
	for n := range g.added() {
		switch s := n.same; {
		case s.maker != nil:
			s.role = result
		case initial(n):
			s.role = weight
		}
	}
	for n := range g.added() {
		if n == n.same && n.role == input && n.id <= g.lastOutput {
			g.inputs = append(g.inputs, n)
		}
		if len(g.made) > 0 && n.held != nil && n.stamp == 0 && !(n.same.role == weight && initial(n)) {
			n.outline = &outline{dtype: n.held.Dtype(), shape: slices.Clone(n.held.Shape())}
			n.held = nil // a placeholder takes the memory of the value
		}
	}
}

// added lists the nodes of the graph.
func (g *Graph) added() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for _, n := range g.nodes {
			if n != nil && !yield(n) {
				return
			}
		}
	}
}

// unify finds the node that stands for each name: the one that is computed, else the first.
func (g *Graph) unify() {
	byName := map[string]*Node{}
	for n := range g.added() {
		n.same, n.role, n.twins = n, input, nil
		if first := byName[n.name]; n.named && n.name != "" && (first == nil || first.maker == nil && n.maker != nil) {
			byName[n.name] = n
		}
	}
	for n := range g.added() {
		if s := byName[n.name]; s != nil && s != n && n.maker == nil && n.named {
			n.same = s
			s.twins, s.used = append(s.twins, n), s.used || n.used
		}
	}
}

// findLastOutput returns the number of the last output of the model; where outputs are not declared with types, a number that
// no node is above.
func (g *Graph) findLastOutput() int64 {
	lastSet, last := int64(-1), int64(len(g.nodes))
	for n := range g.added() {
		if n.sets > 0 {
			lastSet = n.id
		}
	}
	for n := range g.added() {
		if n.id <= lastSet && (n.maker != nil || n.late || len(n.same.twins) > 0 && n.id > g.first(n)) {
			last = n.id
		}
	}
	return last
}

// first returns the number of the first node of a value.
func (g *Graph) first(n *Node) int64 {
	first := n.same.id
	for _, t := range n.same.twins {
		first = min(first, t.id)
	}
	return first
}
