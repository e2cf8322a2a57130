package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// LoopInvariant (loop-invariant code motion) moves nodes of a body that compute the same
// in every iteration before the Loop or Scan: pure nodes that read only captures,
// constants and other such nodes.
//
//	for … { y = f(W); x = x + y }   ->   y = f(W); for … { x = x + y }
//
// A loop without iterations would not have computed them, so nodes that can fail are
// moved only where at least one iteration is certain.
//
// Source: code motion in Aho, Lam, Sethi, Ullman, Compilers, chapter 9.
var LoopInvariant = &Pass{
	Name: "loop-invariant", Doc: "what every iteration computes alike -> once, before the loop", every: true,
	rules: []rule{{"an invariant node of a loop -> the node before the loop", named("Loop", "Scan"), hoistFrom}},
}

func hoistFrom(c *Context, n *ssa.Node) (moved bool) {
	b := n.Body("body")
	if b == nil {
		return false
	}
	runs := surelyRuns(n)
	outside := map[*ssa.Value]*ssa.Value{}
	for k, v := range n.Captured() {
		outside[captureParam(n, b, k)] = v
	}
	for _, m := range slices.Clone(b.Nodes) {
		if pure(m) && (len(m.In) > 0 || len(m.Bodies) > 0) && invariant(m, outside) && (runs || !canFail(m)) {
			c.hoist(n, b, m, outside)
			moved = true
		}
	}
	if moved {
		sweepBody(b)
	}
	return moved
}

// invariant reports that every operand is known outside the loop.
func invariant(m *ssa.Node, outside map[*ssa.Value]*ssa.Value) bool {
	return !slices.ContainsFunc(m.In, func(v *ssa.Value) bool { return v != nil && v.Const == nil && outside[v] == nil })
}

// hoist makes m before the loop n; the body captures its results.
func (c *Context) hoist(n *ssa.Node, b *ssa.Graph, m *ssa.Node, outside map[*ssa.Value]*ssa.Value) {
	in := make([]*ssa.Value, len(m.In))
	for i, v := range m.In {
		switch {
		case v == nil:
		case v.Const != nil:
			in[i] = c.constant(v.Name, v.Const)
		default:
			in[i] = outside[v]
		}
	}
	k := c.moveNode(n, m, in)
	for i, v := range m.Out {
		if !isRead(b, v) {
			continue
		}
		p := c.addCapture(n, k.Out[i])[0]
		outside[p] = k.Out[i]
		b.ReplaceUses(v, p)
	}
}

// surelyRuns reports that at least one iteration is certain.
func surelyRuns(n *ssa.Node) bool {
	k, ok := tripsOf(n).Const()
	return ok && k >= 1
}

// canFail reports that a node might not run on every operand of its types. Where a size
// is not known, operands might not fit each other.
func canFail(n *ssa.Node) bool {
	o := ops.Of(n)
	if o == nil || len(n.Bodies) > 0 || o.Facts.Failure == ops.FailsByValue {
		return true
	}
	for _, v := range append(slices.Clone(n.In), n.Out...) {
		if v != nil && (v.Type.DType == ndarray.String || !v.Type.IsStatic() && (len(n.In) != 1 || !o.Facts.IsElementwise())) {
			return true
		}
	}
	return o.Facts.Failure == ops.FailsIntegers && !n.Out[0].Type.DType.IsFloat()
}
