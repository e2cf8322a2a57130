package gradient

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ssa"
)

// Definition is the derivative of an operator that a program defines, as graphs of operators that have rules.
type Definition struct {
	// Forward is what a node computes: from the operands that are there to all results.
	Forward func(n *ssa.Node) (*ssa.Graph, error)
	// Backward is the derivative of a node: from the operands that are there, the results that are there, and the adjoints of those
	// results that have one, to the adjoints of the operands that are wanted. Without it, Forward is differentiated.
	Backward func(n *ssa.Node, given, wants []bool) (*ssa.Graph, error)
}

// defined are the definitions by "domain.Name".
var defined struct {
	sync.RWMutex
	by map[string]Definition
}

// Define makes the derivative of an operator known. An operator has one rule.
func Define(domain, name string, d Definition) error {
	key := domain + "." + name
	defined.Lock()
	defer defined.Unlock()
	if domain == "" || name == "" || d.Forward == nil || rules[key] != nil || defined.by[key].Forward != nil {
		return fmt.Errorf("operator %q of domain %q has a derivative already, or is defined without domain, name or forward graph", name, domain)
	}
	if defined.by == nil {
		defined.by = map[string]Definition{}
	}
	defined.by[key] = d
	return nil
}

// definedRule is the rule of an operator that a program defines, nil if there is none.
func definedRule(key string) rule {
	defined.RLock()
	d := defined.by[key]
	defined.RUnlock()
	switch {
	case d.Forward == nil:
		return nil
	case d.Backward == nil:
		return byFormula(func(g *builder, n *ssa.Node) []*ssa.Value {
			var body *ssa.Graph
			var err error
			rescue.Call("Forward", func() { body, err = d.Forward(n) })
			return g.splice(n, body, err, present(n.In))
		})
	}
	return func(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
		given, wants := make([]bool, len(dy)), make([]bool, len(n.In))
		for i, v := range dy {
			given[i] = v != nil
		}
		for i := range n.In {
			wants[i] = g.wants(n, i)
		}
		var body *ssa.Graph
		var err error
		rescue.Call("Backward", func() { body, err = d.Backward(n, given, wants) })
		found := g.splice(n, body, err, slices.Concat(present(n.In), present(n.Out), present(dy)))
		out := make([]*ssa.Value, len(n.In))
		for i := range out {
			if wants[i] && len(found) > 0 {
				out[i], found = found[0], found[1:]
			}
		}
		return out
	}
}

// present are the values that are not nil.
func present(list []*ssa.Value) []*ssa.Value {
	return slices.DeleteFunc(slices.Clone(list), func(v *ssa.Value) bool { return v == nil })
}

// splice writes the nodes of a body, which holds none with bodies, and returns its results.
func (g *builder) splice(n *ssa.Node, body *ssa.Graph, err error, args []*ssa.Value) []*ssa.Value {
	if err == nil && (body == nil || len(body.Params) != len(args)) {
		err = errors.New("the definition of the operator takes other values than the node has")
	}
	if err != nil {
		g.fail(n, err)
		return nil
	}
	here := map[*ssa.Value]*ssa.Value{}
	for i, p := range body.Params {
		here[p] = args[i]
	}
	get := func(v *ssa.Value) *ssa.Value {
		if v != nil && v.Const != nil && here[v] == nil {
			here[v] = g.constant(v.Const)
		}
		return here[v]
	}
	for _, m := range body.Nodes {
		in := make([]*ssa.Value, len(m.In))
		for i, v := range m.In {
			in[i] = get(v)
		}
		c := g.add(m.Op, in, len(m.Out), m.Attrs...)
		c.Domain = m.Domain
		g.infer(c)
		for i, v := range m.Out {
			here[v] = c.Out[i]
		}
	}
	out := make([]*ssa.Value, len(body.Results))
	for i, v := range body.Results {
		out[i] = get(v)
	}
	return out
}
