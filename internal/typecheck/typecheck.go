// Package typecheck compares the types in a model file with those that the operators allow in the versions that the file imports.
//
//	file ──▶ types of values, scope by scope ──▶ nodes against constraints.txt ──▶ violations
//
// ONNX gives each operator a list of operands and results, in every version that changed it, and for each of them the types
// allowed or a variable, which is one type for all that have it:
//
//	ScatterND 13   data: T   indices: int64   updates: T   ->   output: T        T: any tensor
//
// berth computes more than that, such as int32 indices, because its kernels are generic. Other tools refuse
// such files, so that what berth writes is checked. The table is written by internal/tools/onnxschema from the packages of the ONNX
// project and ONNX Runtime.
//
// A value whose type the file does not say, and an operator that the table does not have, are not checked. Types are
// not inferred: a file to be checked declares the types of its values.
package typecheck

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/internal/onnxwire"
)

// Violation is an operand or a result of a type that its operator does not allow.
type Violation struct {
	Node      string // operator and name, such as ScatterND "s"
	Operator  string
	Parameter string // operand or result, by the name that the standard gives it
	Type      string // as the standard names it: int32, seq(tensor(float))
	Reason    string // what is allowed
}

func (v Violation) String() string {
	return fmt.Sprintf("node %s: %s is %s, %s", v.Node, v.Parameter, v.Type, v.Reason)
}

// SameKind reports two violations of the same rule, by whichever nodes.
func (v Violation) SameKind(w Violation) bool {
	return v.Operator == w.Operator && v.Parameter == w.Parameter && v.Type == w.Type
}

// Check lists the violations in a model's graph and the bodies in it, in the order of its nodes. The error is that of the context.
func Check(ctx context.Context, m *onnxwire.Model) ([]Violation, error) {
	c := checker{ctx: ctx, versions: map[string]int64{}}
	for _, o := range m.OpsetImports {
		c.versions[domainOf(o.Domain)] = o.Version
	}
	if m.Graph != nil {
		c.graph(m.Graph, nil)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return c.found, nil
}

// checker does nothing more once its context has ended.
type checker struct {
	ctx      context.Context
	versions map[string]int64
	known    map[string]onnxwire.DataType // element types of values that nothing declares
	found    []Violation
}

// domainOf spells the default domain in one way.
func domainOf(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}

// scope holds the types of the values of one graph; those of the graphs around it are seen, too.
type scope struct {
	types map[string]string
	outer *scope
}

// typeOf is the type of a value, "" if the file does not say.
func (s *scope) typeOf(name string) string {
	for ; s != nil; s = s.outer {
		if t, ok := s.types[name]; ok {
			return t
		}
	}
	return ""
}

func (c *checker) graph(g *onnxwire.Graph, outer *scope) {
	s := c.declared(g, outer)
	for _, n := range g.Nodes {
		if c.ctx.Err() != nil {
			return
		}
		c.node(n, s)
		c.branches(n, s)
		for _, a := range n.Attributes {
			if a.G != nil {
				c.graph(a.G, s)
			}
			for _, body := range a.Graphs {
				c.graph(body, s)
			}
		}
	}
}

// declared collects what a graph says of its values.
func (c *checker) declared(g *onnxwire.Graph, outer *scope) *scope {
	s := &scope{map[string]string{}, outer}
	for _, n := range g.Nodes {
		if c.ctx.Err() != nil {
			return s
		}
		for _, name := range n.Outputs {
			s.types[name] = "" // not the value of an outer graph that has the same name
		}
		if len(n.Outputs) == 1 && (n.OpType == "Constant" || n.OpType == "ConstantOfShape") {
			s.types[n.Outputs[0]] = constantType(n)
		}
	}
	for _, list := range [][]*onnxwire.ValueInfo{g.Inputs, g.Outputs, g.ValueInfo} {
		for _, v := range list {
			if c.ctx.Err() != nil {
				return s
			}
			if t := typeText(v.Type); t != "" {
				s.types[v.Name] = t
			}
		}
	}
	for _, t := range g.Initializers {
		if c.ctx.Err() != nil {
			return s
		}
		s.types[t.Name] = elementText(t.DataType)
	}
	for _, t := range g.SparseInitializers {
		if t.Values != nil {
			s.types[t.Values.Name] = "" // tools differ on whether it is sparse or dense to a node
		}
	}
	return s
}

// constantType is the type of a constant's tensor, "" for other forms.
func constantType(n *onnxwire.Node) string {
	for _, a := range n.Attributes {
		if a.Name == "value" && a.T != nil {
			return elementText(a.T.DataType)
		}
	}
	return ""
}

// node compares a node with its operator. Values that have a variable of the operator fix it, the first of an allowed type.
func (c *checker) node(n *onnxwire.Node, s *scope) {
	domain := domainOf(n.Domain)
	o := find(domain, n.OpType, c.versions[domain])
	if o == nil {
		return
	}
	bound := map[string]binding{}
	check := func(what string, list []parameter, values []string) {
		for i, value := range values {
			if c.ctx.Err() != nil {
				return
			}
			t := s.typeOf(value)
			if t == "" {
				t = elementText(c.known[value])
			}
			if p := at(list, i); p != nil && value != "" && t != "" {
				c.value(n, what, p, t, bound)
			}
		}
	}
	check("operand", o.operands, n.Inputs)
	check("result", o.results, n.Outputs)
}

// branches compares results of the bodies of an If with each other and with the node's: to whoever reads them they have one type.
func (c *checker) branches(n *onnxwire.Node, s *scope) {
	if n.OpType != "If" || domainOf(n.Domain) != "" {
		return
	}
	inner := map[*onnxwire.Attribute]*scope{}
	for _, a := range n.Attributes {
		if a.G != nil {
			inner[a] = c.declared(a.G, s)
		}
	}
	for i, name := range n.Outputs {
		if c.ctx.Err() != nil {
			return
		}
		first := binding{fmt.Sprintf("result %d", i), s.typeOf(name)}
		for _, a := range n.Attributes {
			if a.G == nil || i >= len(a.G.Outputs) {
				continue
			}
			own := binding{fmt.Sprintf("result %d of %s", i, a.Name), inner[a].typeOf(a.G.Outputs[i].Name)}
			switch {
			case first.t == "":
				first = own
			case own.t != "" && own.t != first.t:
				c.found = append(c.found, Violation{nodeText(n), ".If", own.parameter, own.t,
					fmt.Sprintf("and %s, which is to have the same type, is %s", first.parameter, first.t)})
			}
		}
	}
}

// binding is the type that a variable stands for, and what fixed it.
type binding struct{ parameter, t string }

func (c *checker) value(n *onnxwire.Node, what string, p *parameter, t string, bound map[string]binding) {
	found := func(format string, args ...any) {
		c.found = append(c.found, Violation{nodeText(n), domainOf(n.Domain) + "." + n.OpType, parameterText(what, p), t, fmt.Sprintf(format, args...)})
	}
	b, fixed := bound[p.variable]
	switch {
	case !slices.Contains(p.types, t):
		found("version %d of the operator set allows %s", c.versions[domainOf(n.Domain)], strings.Join(p.types, ", "))
	case p.mixed:
	case fixed && b.t != t:
		found("and %s, which is to have the same type, is %s", b.parameter, b.t)
	case !fixed:
		bound[p.variable] = binding{parameterText(what, p), t}
	}
}

func parameterText(what string, p *parameter) string { return fmt.Sprintf("%s %q", what, p.name) }

func nodeText(n *onnxwire.Node) string {
	op, name := n.OpType, n.Name
	if n.Domain != "" {
		op = n.Domain + "." + op
	}
	for i := 0; name == "" && i < len(n.Outputs); i++ {
		if n.Outputs[i] != "" {
			name = "-> " + n.Outputs[i]
		}
	}
	return fmt.Sprintf("%s %q", op, name)
}

// typeText names a type as the table does, "" where a part of it is not said.
func typeText(t *onnxwire.Type) string {
	if t != nil && t.Tensor != nil {
		return elementText(t.Tensor.ElemType)
	}
	return typeOfMember(t)
}

// typeOfMember names a type as it stands within another one, where tensors are spelled out.
func typeOfMember(t *onnxwire.Type) string {
	around := func(kind, member string) string {
		if member == "" {
			return ""
		}
		return kind + "(" + member + ")"
	}
	switch {
	case t == nil:
		return ""
	case t.Tensor != nil:
		return around("tensor", elementText(t.Tensor.ElemType))
	case t.SparseTensor != nil:
		return around("sparse_tensor", elementText(t.SparseTensor.ElemType))
	case t.Sequence != nil:
		return around("seq", typeOfMember(t.Sequence.ElemType))
	case t.Optional != nil:
		return around("optional", typeOfMember(t.Optional.ElemType))
	case t.Map != nil && typeText(t.Map.ValueType) != "":
		return around("map", elementText(t.Map.KeyType)+","+typeText(t.Map.ValueType)) // map(int64,float): a value that is a tensor goes by its element type
	}
	return ""
}

// elementText names an element type, "" for none.
func elementText(t onnxwire.DataType) string {
	if t == onnxwire.TypeUndefined {
		return ""
	}
	return strings.ToLower(t.String())
}
