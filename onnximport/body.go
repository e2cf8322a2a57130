package onnximport

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Bodies in a file read values of the graphs around them by name. Here those
// become operands of the node that owns the body and parameters of the body,
// behind the formal ones, the same list for all bodies of a node:
//
//	file                                  here
//	a = …                                 a = …
//	If(c)                                 If(c | a, x)
//	  then { a + x }                        then(a, x) { a + x }
//	  else { x * x }                        else(a, x) { x * x }
//
// A body inside a body captures through every level between. Constants are not
// captured: every graph that reads one has a constant value of its own that
// shares the elements.

// bodySet holds the bodies of one node and the outer values they read.
type bodySet struct {
	attrs    []string
	graphs   []*ssa.Graph
	captured []*ssa.Value // values of the graph around the node, each once
}

// attach gives a node its bodies and captured operands.
func (b *bodySet) attach(n *ssa.Node) {
	for i, g := range b.graphs {
		n.AddBody(b.attrs[i], g)
	}
	for _, v := range b.captured {
		n.AddInput(v)
	}
	n.Captures = len(b.captured)
}

// bodies builds the bodies of a node. n is a sketch of the node with operator,
// operands and plain attributes.
func (s *scope) bodies(w *onnxwire.Node, n *ssa.Node, attrs []boundAttr) (*bodySet, error) {
	out := &bodySet{}
	if s.depth+1 > s.imp.limits.Depth {
		return nil, fail(raise("Depth", "depth"), "bodies nest deeper than %d", s.imp.limits.Depth)
	}
	var scopes []*scope
	for _, b := range attrs {
		graphs := b.attr.Graphs
		if b.attr.Kind() == onnxwire.AttrGraph {
			graphs = []*onnxwire.Graph{b.attr.G}
		}
		for i, g := range graphs {
			name := b.attr.Name
			if b.attr.Kind() == onnxwire.AttrGraphs { // a list: each body needs a name of its own
				name = fmt.Sprintf("%s[%d]", name, i)
			}
			if g == nil {
				return nil, fail("", "attribute %q holds no graph", b.attr.Name)
			}
			inner, err := s.buildBody(w, n, b, g)
			if err != nil {
				return nil, err
			}
			out.attrs, out.graphs = append(out.attrs, name), append(out.graphs, inner.graph)
			scopes = append(scopes, inner)
		}
	}
	return out, out.unify(s.imp, scopes)
}

// unify gives all bodies the same list of captured parameters, in the order in
// which the values were first met. The error is that of the context.
func (b *bodySet) unify(imp *importer, scopes []*scope) error {
	met := map[*ssa.Value]bool{}
	for _, s := range scopes {
		for i, v := range s.captured {
			if err := imp.look(i); err != nil {
				return err
			}
			if !met[v] {
				met[v] = true
				b.captured = append(b.captured, v)
			}
		}
	}
	for _, s := range scopes {
		formal := s.graph.Params[:len(s.graph.Params)-len(s.captured)]
		params := slices.Clone(formal)
		for i, v := range b.captured {
			if err := imp.look(i); err != nil {
				return err
			}
			params = append(params, s.capture(v))
		}
		s.graph.Params = params
	}
	return nil
}

// buildBody builds one body. The types of a loop's carried values are guessed
// from the operands; where the body turns out not to keep the rank, it is built
// again without the guess.
func (s *scope) buildBody(w *onnxwire.Node, n *ssa.Node, b boundAttr, g *onnxwire.Graph) (*scope, error) {
	types, err := s.paramTypes(n, g)
	if err != nil {
		return nil, err
	}
	inner, err := s.tryBody(w, b, g, types)
	if err != nil {
		return nil, err
	}
	first, count, shift := carried(n, len(types))
	stable := true
	for i := first; i < first+count; i++ {
		if r := i + shift; r < len(inner.graph.Results) && types[i].Ranked && inner.graph.Results[r].Type.Rank() != types[i].Rank() {
			types[i].Ranked, types[i].Shape, stable = false, nil, false
		}
	}
	if stable {
		return inner, nil
	}
	return s.tryBody(w, b, g, types)
}

func (s *scope) tryBody(w *onnxwire.Node, b boundAttr, g *onnxwire.Graph, types []ssa.Type) (*scope, error) {
	body := ssa.NewGraph(g.Name)
	body.Doc = g.DocString
	inner := s.body(label(w), body)
	if b.scope != s { // a graph passed to a function as an attribute reads names of the caller
		if b.scope.graph != s.graph {
			return nil, fail("", "attribute %q is a graph passed to a function that uses it inside another body", b.attr.Name)
		}
		inner.parent, inner.attrs, inner.inCall, inner.opsets = b.scope, b.scope.attrs, b.scope.inCall, b.scope.opsets
	}
	for i, in := range g.Inputs {
		if err := s.imp.look(i); err != nil {
			return nil, err
		}
		v := body.AddParam(s.prefix+in.Name, types[i])
		v.Doc = in.DocString
		if err := inner.define(in.Name, v); err != nil {
			return nil, err
		}
	}
	if err := inner.initializers(g, nil); err != nil {
		return nil, err
	}
	if err := inner.nodes(g); err != nil {
		return nil, err
	}
	var err error
	body.Results, err = inner.results(g)
	return inner, err
}

// paramTypes says what is known of a body's formal parameters before it is
// built. Upgrade rules inside the body need ranks and element types; shapes of
// values that change from one iteration to the next are left open.
func (s *scope) paramTypes(n *ssa.Node, g *onnxwire.Graph) ([]ssa.Type, error) {
	types := make([]ssa.Type, len(g.Inputs))
	for i, in := range g.Inputs {
		if err := s.imp.look(i); err != nil {
			return nil, err
		}
		t, err := typeOf(in.Type, nil)
		if err != nil {
			return nil, err
		}
		if n.Domain == "" {
			if known := operandType(n, i, len(types)); known.Kind != ssa.KindUnknown {
				t = known
			}
		}
		types[i] = t
	}
	return types, nil
}

// operandType returns the type a control-flow node gives parameter i of its
// body, the unknown type where the operator does not determine it.
func operandType(n *ssa.Node, i, params int) ssa.Type {
	operand := func(k int) ssa.Type {
		if k < len(n.In) && n.In[k] != nil {
			return n.In[k].Type
		}
		return ssa.Type{}
	}
	switch n.Op {
	case "Loop":
		switch i {
		case 0:
			return ssa.StaticTensor(ndarray.Int64)
		case 1:
			return ssa.StaticTensor(ndarray.Bool)
		}
		return openShape(operand(i))
	case "Scan":
		return scanParam(n, i, params, operand)
	case "SequenceMap":
		t := operand(i)
		if t.Kind == ssa.KindSequence {
			return *t.Elem
		}
		return t
	}
	return ssa.Type{}
}

// scanParam drops the scan axis of a scanned operand. Before operator set 9 the
// operands start with the sequence lengths and all have a batch axis in front.
func scanParam(n *ssa.Node, i, params int, operand func(int) ssa.Type) ssa.Type {
	first, drop := 0, 1
	if n.Version > 0 && n.Version < 9 {
		first, drop = 1, 2
	}
	t := openShape(operand(first + i))
	if states := params - int(ops.Int(n, "num_scan_inputs")); i < states {
		drop--
	}
	if t.Ranked {
		if len(t.Shape) < drop {
			return ssa.UnrankedTensor(t.DType)
		}
		t.Shape = t.Shape[drop:]
	}
	return t
}

// openShape keeps kind, element type and rank.
func openShape(t ssa.Type) ssa.Type {
	if t.Ranked {
		t.Shape = make([]ssa.Dim, len(t.Shape))
	}
	if t.Elem != nil {
		e := openShape(*t.Elem)
		t.Elem = &e
	}
	return t
}

// carried returns which parameters of a body get its own results: the
// first, how many, and how far the result's position is from the parameter's.
func carried(n *ssa.Node, params int) (first, count, shift int) {
	switch {
	case n.Domain != "":
	case n.Op == "Loop" && params > 2:
		return 2, params - 2, -1
	case n.Op == "Scan":
		ins := min(max(ops.Int(n, "num_scan_inputs"), 0), int64(params)) // any number may stand there, and is refused later
		return 0, params - int(ins), 0
	}
	return 0, 0, 0
}
