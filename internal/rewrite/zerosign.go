package rewrite

import (
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The sign of zero. x + 0.0 is x except for one value: -0.0 becomes 0.0. The two are
// equal in every comparison, and the results of most readers are the same:
//
//	x ─▶ Add 0.0 ─▶ Sigmoid            1/(1+e^0) for both signs
//	x ─▶ Add 0.0 ─▶ Mul ─▶ Conv        a product keeps the sign, a sum of products
//	                                   that begins with 0.0 does not
//	x ─▶ Add 0.0 ─▶ Reciprocal         -Inf or Inf: the Add stays
//
// So the addition is removed where its result reaches no reader that distinguishes the
// two, and no result of the graph.

// zeroSignReach bounds the number of readers that are examined.
const zeroSignReach = 64

// hidesZeroSign reports that no reader of v, direct or through operators that pass
// zeros on, distinguishes -0.0 from 0.0.
func (c *Context) hidesZeroSign(v *ssa.Value) bool {
	todo, seen := []*ssa.Value{v}, map[*ssa.Value]bool{v: true}
	for budget := zeroSignReach; len(todo) > 0; {
		v, todo = todo[len(todo)-1], todo[:len(todo)-1]
		if c.graph.IsResult(v) || v.Type.DType.IsComplex() {
			return false
		}
		for _, u := range v.Uses() {
			n := u.Node
			o := ops.Of(n)
			if budget--; budget < 0 || o == nil || o.Facts.ZeroSign == ops.ZeroSignRead {
				return false
			}
			if o.Facts.ZeroSign != ops.ZeroSignPassed {
				continue
			}
			for _, o := range n.Out {
				if o != nil && !seen[o] {
					seen[o] = true
					todo = append(todo, o)
				}
			}
		}
	}
	return true
}
