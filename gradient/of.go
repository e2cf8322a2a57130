package gradient

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Error says which node stands in the way of a derivative, why, and what helps.
type Error struct {
	Node   string // operator and name of the node, or the name of a value
	Reason string
	Remedy string // "" if there is none
	Err    error  // [ops.ErrUnsupported] where no rule gives the derivative
}

// Error prints node, reason and remedy.
func (e *Error) Error() string {
	text := fmt.Sprintf("derivative of %s: %s", e.Node, e.Reason)
	if errors.Is(e.Err, ops.ErrUnsupported) && e.Reason != e.Err.Error() {
		text += fmt.Sprintf(" (%v)", ops.ErrUnsupported)
	}
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Of appends to a graph the nodes that compute d sum(y) / d wrt[i], and returns these
// derivatives, each with type and shape of wrt[i]. y is any tensor of floats of the graph, usually
// a loss of one element; wrt are tensors of floats that it depends on: parameters or results of nodes
// (a constant must be made a parameter first: [Promote]). Types must be inferred. Loops whose carried
// values the derivative needs get further stacked outputs. Results of the graph stay as they are; the
// caller adds those that are wanted.
//
// An [*Error] names the node that has no derivative: integers and functions in steps between
// y and wrt, operators without a rule. After an error the graph may hold a part of the nodes.
func Of(g *ssa.Graph, y *ssa.Value, wrt ...*ssa.Value) (_ []*ssa.Value, err error) {
	defer rescue.Into(&err)
	r := Reversal{Graph: g, Y: y, By: wrt}
	if err := r.check(); err != nil {
		return nil, err
	}
	for _, v := range append([]*ssa.Value{y}, wrt...) {
		if !v.Type.DType.IsFloat() || v.Type.Kind != ssa.KindTensor {
			return nil, &Error{Node: fmt.Sprintf("value %q", v.Name), Reason: "it is " + v.Type.String() + ", no tensor of floats", Err: ops.ErrUnsupported}
		}
	}
	out, err := r.Append()
	if err != nil {
		return nil, err
	}
	for i, d := range out {
		if d == nil {
			return nil, r.unreached(wrt[i])
		}
	}
	return out, nil
}

// Reversal is a derivative to be appended to a graph, with what [Of] leaves out.
type Reversal struct {
	Graph  *ssa.Graph
	Y      *ssa.Value
	By     []*ssa.Value
	Held   []*ssa.Value // values that count as constants
	Before *ssa.Node    // new nodes go ahead of this one; nil: to the end
}

// check reports what is missing.
func (r *Reversal) check() error {
	if r == nil || r.Graph == nil || r.Y == nil || slices.Contains(r.By, nil) || slices.Contains(r.Held, nil) {
		return errors.New("a derivative needs a graph, a value of it and values to differentiate by")
	}
	return nil
}

// Append is [Of] with nil for derivatives by values that y does not depend on, or not smoothly.
func (r *Reversal) Append() (_ []*ssa.Value, err error) {
	defer rescue.Into(&err)
	if err := r.check(); err != nil {
		return nil, err
	}
	b := newBuilder(r.Graph, r.Before)
	for _, v := range r.By {
		b.active[v] = true
	}
	path := r.path()
	b.markActive(path)
	if b.active[r.Y] {
		b.adj[r.Y] = b.filled(r.Y, 1)
		b.reverse(path)
	}
	if b.err != nil {
		return nil, b.err
	}
	out := make([]*ssa.Value, len(r.By))
	for i, v := range r.By {
		out[i] = b.adj[v]
	}
	return out, nil
}

// path returns the nodes between By and Y in order.
func (r *Reversal) path() []*ssa.Node {
	stop := map[*ssa.Value]bool{}
	for _, v := range slices.Concat(r.By, r.Held) {
		stop[v] = true
	}
	needed := map[*ssa.Node]bool{}
	queue := []*ssa.Value{r.Y}
	for len(queue) > 0 {
		v := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if v != nil && v.Def != nil && !stop[v] && !needed[v.Def] {
			needed[v.Def] = true
			queue = append(queue, v.Def.In...)
		}
	}
	var path []*ssa.Node
	for _, n := range r.Graph.Nodes {
		if needed[n] {
			path = append(path, n)
		}
	}
	return path
}

// unreached says why y has no derivative by v: the first node behind v that lets none through.
func (r *Reversal) unreached(v *ssa.Value) error {
	if v.Const != nil {
		return &Error{Node: fmt.Sprintf("value %q", v.Name), Reason: "it is a constant", Remedy: "make it a parameter", Err: ops.ErrUnsupported}
	}
	reached := map[*ssa.Value]bool{v: true}
	var block *ssa.Node
	for _, n := range r.path() {
		if !slices.ContainsFunc(n.In, func(x *ssa.Value) bool { return reached[x] }) {
			continue
		}
		lets := isLet(n)
		for _, y := range n.Out {
			if y != nil && lets && isSmooth(y) {
				reached[y] = true
			}
		}
		if !lets && block == nil {
			block = n
		}
	}
	if block == nil {
		return &Error{Node: fmt.Sprintf("value %q", v.Name), Reason: fmt.Sprintf("%q does not depend on it", r.Y.Name), Err: ops.ErrUnsupported}
	}
	return &Error{Node: block.String(), Reason: fmt.Sprintf("%q depends on %q through it alone, and it is constant almost everywhere", r.Y.Name, v.Name),
		Remedy: "replace it, or differentiate by values behind it", Err: ops.ErrUnsupported}
}

// isLet reports whether a node lets derivatives through: some result is a float that is not
// constant almost everywhere.
func isLet(n *ssa.Node) bool {
	if steps[n.Op] && n.Domain == "" {
		return false
	}
	return slices.ContainsFunc(n.Out, func(v *ssa.Value) bool { return v != nil && isSmooth(v) })
}

// Promote turns constants of a graph into parameters behind those that it has, captured by the
// bodies that read them, so that derivatives by them exist and values can be given. It returns the
// parameters in the order of the names, each named as its constant, and the values the constants had.
func Promote(g *ssa.Graph, names ...string) (params []*ssa.Value, values []*ssa.Constant, err error) {
	defer rescue.Into(&err)
	if g == nil {
		return nil, nil, errors.New("no graph is given")
	}
	if err := ssa.Check(g); err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		c := firstConst(g, name)
		if c == nil {
			return nil, nil, fmt.Errorf("no constant is named %q", name)
		}
		if c.DType() == ndarray.String {
			return nil, nil, fmt.Errorf("constant %q holds strings", name)
		}
		p := g.AddParam(name, c.Type())
		replaceConst(g, name, c, p)
		params, values = append(params, p), append(values, c)
	}
	return params, values, nil
}

// firstConst finds a constant by name in a graph and its bodies, from the outside in.
func firstConst(g *ssa.Graph, name string) (found *ssa.Constant) {
	g.Walk(func(g *ssa.Graph) {
		for _, v := range g.Values() {
			if found == nil && v != nil && v.Const != nil && v.Name == name {
				found = v.Const
			}
		}
	})
	return found
}

// replaceConst lets a graph and its bodies read p in the place of a constant, of which bodies have copies of the same name.
func replaceConst(g *ssa.Graph, name string, c *ssa.Constant, p *ssa.Value) {
	for _, v := range slices.Clone(g.Values()) {
		if isCopy(v, name, c) {
			v.Name += " as it was"
			g.ReplaceUses(v, p)
			g.ReplaceResult(v, p)
		}
	}
	for _, n := range g.Nodes {
		if !slices.ContainsFunc(n.Bodies, func(body *ssa.Graph) bool { return holds(body, name, c) }) {
			continue
		}
		for _, body := range n.Bodies {
			replaceConst(body, name, c, body.AddParam(p.Name, p.Type))
		}
		n.AddInput(p)
		n.Captures++
	}
}

// isCopy reports whether a value is a constant of a name and content.
func isCopy(v *ssa.Value, name string, c *ssa.Constant) bool {
	return v != nil && v.Const != nil && v.Name == name && (v.Const == c || v.Const.Equal(c))
}

// holds reports whether a body or one inside it has a copy of a constant.
func holds(g *ssa.Graph, name string, c *ssa.Constant) (found bool) {
	g.Walk(func(g *ssa.Graph) {
		found = found || slices.ContainsFunc(g.Values(), func(v *ssa.Value) bool { return isCopy(v, name, c) })
	})
	return found
}
