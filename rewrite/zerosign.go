package rewrite

import (
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The sign of zero. x + 0.0 is x but for one value: -0.0 becomes 0.0. The two are
// equal to every comparison, and most readers lose the difference at once:
//
//	x ─▶ Add 0.0 ─▶ Sigmoid            1/(1+e^0), whatever the sign
//	x ─▶ Add 0.0 ─▶ Mul ─▶ Conv        a product keeps the sign, a sum of products
//	                                   that begins with 0.0 does not
//	x ─▶ Add 0.0 ─▶ Reciprocal         -Inf or Inf: the Add stays
//
// So the addition goes where no way leads from it to a reader that could tell, nor
// out of the graph.

// zeroSignReach bounds the readers looked at.
const zeroSignReach = 64

// hidesZeroSign reports that nobody who reads v, directly or through operators
// that hand zeros on, can tell -0.0 from 0.0.
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
