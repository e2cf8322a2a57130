package gradient

import (
	"context"
	"errors"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// HasAdjoints reports whether the derivative of a node's operator is known.
func HasAdjoints(n *ssa.Node) bool { return n != nil && ruleOf(n) != nil }

// Adjoints appends to a graph the nodes that compute the derivative of one of its nodes:
// the adjoints of the operands that are wanted, from those of the results. dy has one
// entry for each result, nil where it does not count; wants one for each operand. An
// adjoint is nil where the derivative is zero everywhere. Types must be inferred; names
// are left to the caller. The error is [ops.ErrUnsupported] for an operator or a form of
// it without a derivative.
func Adjoints(g *ssa.Graph, n *ssa.Node, dy []*ssa.Value, wants []bool) (_ []*ssa.Value, err error) {
	defer rescue.Into(&err)
	if g == nil || n == nil || len(dy) != len(n.Out) || len(wants) != len(n.In) {
		return nil, errors.New("adjoints of a node take one for each result and a choice for each operand")
	}
	rule := ruleOf(n)
	if rule == nil {
		return nil, &Error{Node: n.String(), Reason: "the operator has no derivative", Err: ops.ErrUnsupported}
	}
	b := newBuilder(context.Background(), g, nil)
	for i, v := range n.In {
		if v != nil && wants[i] {
			b.active[v] = true
		}
	}
	out := rule(b, n, dy)
	if b.err != nil {
		return nil, b.err
	}
	all := make([]*ssa.Value, len(n.In))
	for i := range all {
		if i < len(out) && wants[i] {
			all[i] = out[i]
		}
	}
	return all, nil
}
