package lower

import (
	"fmt"
	"slices"
	"strings"

	"gorgonia.org/gorgonia"
)

// List is nodes that a caller was given, and what the caller knows the list as, for errors.
type List struct {
	Nodes []*gorgonia.Node
	As    string
}

// own checks that a node of a list has values in the graph.
func (b *builder) own(l List, i int) error {
	switch n := l.Nodes[i]; {
	case n == nil:
		return &Error{Err: fmt.Errorf("node %d of %s is nil", i, l.As)}
	case n.Graph() != b.graph:
		return &Error{Node: NameOf(n), Err: fmt.Errorf("%s has the node of another graph; give it nodes of the graph itself", l.As)}
	case kindOf(n) == "readOp" || kindOf(n) == "letOp":
		return b.failed(n, fmt.Errorf("%s has a statement, which has no value; give it the node that is read", l.As))
	}
	return nil
}

// freeze notes the inputs that become constants. Constants of Gorgonia are that anyway.
func (b *builder) freeze(l List) error {
	b.frozen = map[*gorgonia.Node]bool{}
	for i, n := range l.Nodes {
		if err := b.own(l, i); err != nil {
			return err
		}
		if n.Op() != nil && !isConstant(n) {
			return b.failed(n, fmt.Errorf("%s takes inputs, and the node is computed; give it the inputs that the node is computed from", l.As))
		}
		b.frozen[n] = n.Op() == nil
	}
	return nil
}

// NameOf is the name of a node, also of an input without one.
func NameOf(n *gorgonia.Node) string {
	switch {
	case n == nil:
		return "nil"
	case givenName(n) == "" && n.Op() == nil:
		return "input"
	}
	return n.Name()
}

// givenName is the name that the user gave a node; "" for none.
func givenName(n *gorgonia.Node) string {
	name, _ := field[string](n, "name")
	return name
}

// PortName is the name of a node as an input or output of a model: as the user gave it, and else what the node is.
func PortName(n *gorgonia.Node) string {
	switch name := givenName(n); {
	case name != "":
		return strings.ToValidUTF8(name, "_")
	case n.Op() == nil:
		return "input"
	}
	return "output"
}

// Distinct makes names different from each other and from those taken, to which it adds them. The first of several keeps
// its name, the others have a number behind it that makes no other name of the list: x, x_2, x_3.
func Distinct(names []string, taken map[string]bool) []string {
	out, later := make([]string, len(names)), []int{}
	for i, name := range names {
		if taken[name] {
			later = append(later, i)
			continue
		}
		out[i], taken[name] = name, true
	}
	next := map[string]int{}
	for _, i := range later {
		for k := max(next[names[i]], 2); out[i] == ""; k++ {
			if name := fmt.Sprintf("%s_%d", names[i], k); !taken[name] {
				out[i], taken[name], next[names[i]] = name, true, k+1
			}
		}
	}
	return out
}

// nameAll gives parameters the names of their nodes, and all other values names of their own.
func (b *builder) nameAll() {
	values, isParam := slices.Clone(b.out.SSA.Params), make([]bool, b.out.SSA.NumValues())
	names := make([]string, len(values))
	for i, s := range b.out.Inputs {
		isParam[values[i].ID] = true
		names[i] = "state"
		if s.Node != nil {
			names[i] = PortName(s.Node)
		}
	}
	for _, v := range b.out.SSA.Values() {
		if v != nil && !isParam[v.ID] {
			values, names = append(values, v), append(names, v.Name)
		}
	}
	for i, name := range Distinct(names, map[string]bool{}) {
		values[i].Name = name
	}
}
