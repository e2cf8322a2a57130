package gradient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/rescue"
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
// y and wrt, operators without a rule. After an error, that of the context included, the graph may hold a part of the nodes.
func Of(ctx context.Context, g *ssa.Graph, y *ssa.Value, wrt ...*ssa.Value) (_ []*ssa.Value, err error) {
	defer rescue.Into(&err)
	r := Reversal{Graph: g, Y: y, By: wrt}
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	for _, v := range append([]*ssa.Value{y}, wrt...) {
		if !v.Type.DType.IsFloat() || v.Type.Kind != ssa.KindTensor {
			return nil, &Error{Node: fmt.Sprintf("value %q", v.Name), Reason: "it is " + v.Type.String() + ", no tensor of floats", Err: ops.ErrUnsupported}
		}
	}
	out, err := r.Append(ctx)
	if err != nil {
		return nil, err
	}
	for i, d := range out {
		if d == nil {
			return nil, r.unreached(ctx, wrt[i])
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
	// Last says that nothing differentiates or saves what is appended: nodes may be of operators that programs of package train
	// alone have, and that take less memory and time.
	Last bool
}

// check reports what is missing.
func (r *Reversal) check(ctx context.Context) error {
	if ctx == nil || r == nil || r.Graph == nil || r.Y == nil || slices.Contains(r.By, nil) || slices.Contains(r.Held, nil) {
		return errors.New("a derivative needs a context, a graph, a value of it and values to differentiate by")
	}
	return nil
}

// Append is [Of] with nil for derivatives by values that y does not depend on, or not smoothly.
func (r *Reversal) Append(ctx context.Context) (_ []*ssa.Value, err error) {
	defer rescue.Into(&err)
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	b := newBuilder(ctx, r.Graph, r.Before)
	b.last = r.Last
	for _, v := range r.By {
		b.active[v] = true
	}
	path := r.path(ctx)
	b.markActive(path)
	if b.active[r.Y] {
		b.adj[r.Y] = b.filled(r.Y, 1)
		b.reverse(path)
	}
	if err := cmp.Or(rescue.WithCause(ctx, ctx.Err()), b.err); err != nil {
		return nil, err
	}
	out := make([]*ssa.Value, len(r.By))
	for i, v := range r.By {
		out[i] = b.adj[v]
	}
	return out, nil
}

// path returns the nodes between By and Y in order; some of them once the context has ended.
func (r *Reversal) path(ctx context.Context) []*ssa.Node {
	stop := map[*ssa.Value]bool{}
	for _, v := range slices.Concat(r.By, r.Held) {
		stop[v] = true
	}
	needed := map[*ssa.Node]bool{}
	queue := []*ssa.Value{r.Y}
	for steps := 0; len(queue) > 0 && !ended(ctx, steps); steps++ {
		v := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if v != nil && v.Def != nil && !stop[v] && !needed[v.Def] {
			needed[v.Def] = true
			queue = append(queue, v.Def.In...)
		}
	}
	var path []*ssa.Node
	for i, n := range r.Graph.Nodes {
		if ended(ctx, i) {
			break
		}
		if needed[n] {
			path = append(path, n)
		}
	}
	return path
}

// unreached says why y has no derivative by v: the first node behind v that lets none through.
func (r *Reversal) unreached(ctx context.Context, v *ssa.Value) error {
	if v.Const != nil {
		return &Error{Node: fmt.Sprintf("value %q", v.Name), Reason: "it is a constant", Remedy: "make it a parameter", Err: ops.ErrUnsupported}
	}
	reached := map[*ssa.Value]bool{v: true}
	var block *ssa.Node
	for _, n := range r.path(ctx) {
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
