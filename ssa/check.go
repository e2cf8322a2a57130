package ssa

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
)

// CheckError says what is broken in a graph. It always means a bug in the code
// that built or changed the graph, never a bad model.
type CheckError struct {
	Graph   []string // graph and body names from the outside in
	Node    string   // operator and name of the node, "" if the graph itself is broken
	Value   string   // name of the value, "" if none is concerned
	Problem string
}

// Error prints graph path, node, value and problem in one line.
func (e *CheckError) Error() string {
	var sb strings.Builder
	sb.WriteString("broken graph " + strings.Join(e.Graph, " / "))
	if e.Node != "" {
		sb.WriteString(": " + e.Node)
	}
	if e.Value != "" {
		sb.WriteString(": value " + e.Value)
	}
	return sb.String() + ": " + e.Problem
}

// Check verifies the invariants of a graph and its bodies on which the other packages
// rely; package ops adds the comparison of types. It reports the first fault
// found as a *[CheckError]:
//
//   - value ids are their positions; names of live values are unique and not empty;
//   - a value is a parameter, a constant, or result DefIndex of its Def;
//   - operands are defined in the same graph, before their reader;
//   - the lists of uses hold every operand position exactly once, and no other;
//   - types are sound ([Type.Check]), bodies nest at most 1000 levels deep;
//   - constants are sound ([ndarray.Array.Check]) and agree with their types, contents with the shapes, shapes with layouts;
//   - parameters and results are in the plain layout;
//   - bodies belong to one node; operands, captures, parameters and results line
//     up as the package comment says.
func Check(g *Graph) (err error) {
	defer rescue.Into(&err)
	c := &checker{seen: map[*Graph]bool{}}
	if err := c.graph(g); err != nil {
		return err
	}
	return nil
}

// maxBodies is how deep bodies nest at most.
const maxBodies = 1000

var tooDeep = fmt.Sprintf("bodies nest deeper than %d levels, or a graph is a body of its own", maxBodies)

type checker struct {
	seen map[*Graph]bool
	path []string
}

func (c *checker) errorf(n *Node, v *Value, format string, args ...any) *CheckError {
	e := &CheckError{Graph: slices.Clone(c.path), Problem: fmt.Sprintf(format, args...)}
	if n != nil {
		e.Node = n.String()
	}
	if v != nil {
		e.Value = ValueName(v)
	}
	return e
}

func (c *checker) graph(g *Graph) *CheckError {
	c.path = append(c.path, g.Name)
	defer func() { c.path = c.path[:len(c.path)-1] }()
	switch {
	case c.seen[g]:
		return c.errorf(nil, nil, "the graph is the body of two nodes")
	case len(c.path) > 2*maxBodies:
		return &CheckError{Graph: c.path[:1], Problem: tooDeep}
	}
	c.seen[g] = true
	defined, err := c.definitions(g)
	if err != nil {
		return err
	}
	for _, step := range []func(*Graph, []bool) *CheckError{c.nodes, c.uses, c.results, c.names} {
		if err := step(g, defined); err != nil {
			return err
		}
	}
	for _, n := range g.Nodes {
		if err := c.bodies(n); err != nil {
			return err
		}
	}
	return nil
}

// owns reports that v is a value of g.
func owns(g *Graph, v *Value) bool { return v.ID >= 0 && v.ID < len(g.values) && g.values[v.ID] == v }

// definitions checks parameters, constants and ids; the returned table says which
// values exist before the first node.
func (c *checker) definitions(g *Graph) ([]bool, *CheckError) {
	defined := make([]bool, len(g.values))
	for i, v := range g.values {
		switch {
		case v == nil || v.ID != i:
			return nil, c.errorf(nil, v, "value at place %d does not have that id", i)
		case v.Type.Check() != nil:
			return nil, c.errorf(nil, v, "has %v", v.Type.Check())
		case v.Const == nil:
			continue
		case v.Def != nil:
			return nil, c.errorf(nil, v, "is a constant and the result of %s", v.Def)
		case !v.Type.isOf(v.Const):
			return nil, c.errorf(nil, v, "has type %s, its constant is %s", v.Type, v.Const.Type())
		case v.Const.check() != nil:
			return nil, c.errorf(nil, v, "is a constant that can not be: %v", v.Const.check())
		}
		defined[i] = true
	}
	for i, p := range g.Params {
		switch {
		case p == nil || !owns(g, p):
			return nil, c.errorf(nil, p, "parameter %d is no value of the graph", i)
		case p.Def != nil || p.Const != nil:
			return nil, c.errorf(nil, p, "parameter %d has a definition in the graph", i)
		case defined[p.ID]:
			return nil, c.errorf(nil, p, "is a parameter twice")
		case p.Type.IsBlocked():
			return nil, c.errorf(nil, p, "is a parameter of type %s: parameters are plain", p.Type)
		}
		defined[p.ID] = true
	}
	return defined, nil
}

// nodes walks the nodes in order: operands before readers, results consistent.
func (c *checker) nodes(g *Graph, defined []bool) *CheckError {
	ids := make([]bool, g.nextN)
	for _, n := range g.Nodes {
		if n.ID < 0 || n.ID >= g.nextN || ids[n.ID] {
			return c.errorf(n, nil, "node id %d is out of range or not unique", n.ID)
		}
		ids[n.ID] = true
		for i, v := range n.In {
			switch {
			case v == nil:
			case !owns(g, v):
				return c.errorf(n, v, "operand %d belongs to another graph", i)
			case !defined[v.ID]:
				return c.errorf(n, v, "operand %d is not defined before its reader", i)
			}
		}
		for i, v := range n.Out {
			switch {
			case v == nil:
			case !owns(g, v):
				return c.errorf(n, v, "result %d belongs to another graph", i)
			case v.Def != n || v.DefIndex != i:
				return c.errorf(n, v, "result %d does not name this node and place as its definition", i)
			case defined[v.ID]:
				return c.errorf(n, v, "result %d is defined twice", i)
			default:
				defined[v.ID] = true
			}
			if err := c.content(n, v); err != nil {
				return err
			}
			if v != nil && v.Type.layoutProblem() != "" {
				return c.errorf(n, v, "of type %s %s", v.Type, v.Type.layoutProblem())
			}
		}
	}
	return nil
}

// content checks that tracked elements fit the type.
func (c *checker) content(n *Node, v *Value) *CheckError {
	if v == nil || v.Content == nil {
		return nil
	}
	size := 1
	if shape, ok := v.Type.Static(); ok && len(shape) == 1 {
		size = shape[0]
	} else if !ok || len(shape) > 1 {
		return nil // more is known of the elements than of the shape: allowed, unused
	}
	if len(v.Content) != size {
		return c.errorf(n, v, "has %d known elements and type %s", len(v.Content), v.Type)
	}
	if v.Type.DType == ndarray.String {
		return c.errorf(n, v, "has known elements but is %s", v.Type)
	}
	return nil
}

// uses compares the lists of uses with the operands.
func (c *checker) uses(g *Graph, _ []bool) *CheckError {
	count := make([]int, len(g.values))
	live := make([]*Node, g.nextN)
	for _, n := range g.Nodes {
		live[n.ID] = n
		for _, v := range n.In {
			if v != nil {
				count[v.ID]++
			}
		}
	}
	for _, v := range g.values {
		if len(v.uses) != count[v.ID] {
			return c.errorf(nil, v, "lists %d uses, is an operand %d times", len(v.uses), count[v.ID])
		}
		for at, u := range v.uses {
			switch {
			case u.Node.ID >= len(live) || live[u.Node.ID] != u.Node:
				return c.errorf(u.Node, v, "lists a use by a node that is not in the graph")
			case u.Index >= len(u.Node.In) || u.Node.In[u.Index] != v:
				return c.errorf(u.Node, v, "lists a use as operand %d, which is another value", u.Index)
			case u.Index >= len(u.Node.at) || int(u.Node.at[u.Index]) != at: // each operand knows one place
				return c.errorf(u.Node, v, "lists operand %d twice", u.Index)
			}
		}
	}
	return nil
}

func (c *checker) results(g *Graph, defined []bool) *CheckError {
	for i, r := range g.Results {
		if r == nil || !owns(g, r) || !defined[r.ID] {
			return c.errorf(nil, r, "result %d is not defined in the graph", i)
		}
		if r.Type.IsBlocked() {
			return c.errorf(nil, r, "result %d is of type %s: results are plain", i, r.Type)
		}
	}
	return nil
}

// names checks the names of live values: what is defined, constants only if read.
func (c *checker) names(g *Graph, defined []bool) *CheckError {
	byName := make(map[string]*Value, len(g.values))
	result := make([]bool, len(g.values))
	for _, r := range g.Results {
		result[r.ID] = true
	}
	for _, v := range g.values {
		if !defined[v.ID] || v.Const != nil && len(v.uses) == 0 && !result[v.ID] {
			continue
		}
		if v.Name == "" {
			return c.errorf(v.Def, v, "value %d has no name", v.ID)
		}
		if byName[v.Name] != nil {
			return c.errorf(v.Def, v, "two values have this name")
		}
		byName[v.Name] = v
	}
	return nil
}

// bodies checks how a node's operands and results meet its bodies.
func (c *checker) bodies(n *Node) *CheckError {
	switch {
	case len(n.BodyAttr) != len(n.Bodies):
		return c.errorf(n, nil, "has %d bodies and %d attribute names for them", len(n.Bodies), len(n.BodyAttr))
	case n.Captures < 0 || n.Captures > len(n.In) || n.Captures > 0 && len(n.Bodies) == 0:
		return c.errorf(n, nil, "has %d captures, %d operands and %d bodies", n.Captures, len(n.In), len(n.Bodies))
	}
	for i, v := range n.Captured() {
		if v == nil {
			return c.errorf(n, nil, "capture %d is absent", i)
		}
	}
	for i, b := range n.Bodies {
		if b == nil {
			return c.errorf(n, nil, "body %q is missing", n.BodyAttr[i])
		}
		if slices.Contains(n.BodyAttr[:i], n.BodyAttr[i]) {
			return c.errorf(n, nil, "has two bodies %q", n.BodyAttr[i])
		}
		if problem := bodyMismatch(n, b); problem != "" {
			return c.errorf(n, nil, "body %q: %s", n.BodyAttr[i], problem)
		}
		c.path = append(c.path, n.String())
		err := c.graph(b)
		c.path = c.path[:len(c.path)-1]
		if err != nil {
			return err
		}
	}
	return nil
}

// bodyMismatch compares the counts of a node and one of its bodies.
func bodyMismatch(n *Node, b *Graph) string {
	params, results, exact := -1, -1, false
	if n.Domain == "" && !n.Opaque {
		switch n.Op {
		case "If":
			params, results, exact = n.Captures, len(n.Out), true
		case "Loop":
			params, results = len(n.In), max(1+len(n.In)-2-n.Captures, 1+len(n.Out))
		case "Scan":
			params, results = len(n.In), len(n.Out)
		}
	}
	switch {
	case params >= 0 && len(b.Params) != params:
		return fmt.Sprintf("has %d parameters, the node gives %d", len(b.Params), params)
	case len(b.Params) < n.Captures:
		return fmt.Sprintf("has %d parameters for %d captures", len(b.Params), n.Captures)
	case len(b.Results) < results || exact && len(b.Results) != results:
		return fmt.Sprintf("has %d results, the node needs %d", len(b.Results), results)
	}
	return ""
}
