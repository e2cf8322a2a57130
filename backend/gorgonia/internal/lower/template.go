package lower

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// instance writes a node as a template says. Ops that stand for several results of one
// node become that one node: it is kept by its template and operands.
func (b *builder) instance(t Template, in []*ssa.Value) (*ssa.Value, error) {
	of, result := t.ONNX()
	key := instanceKey{of, operandKey(in)}
	first := b.once(key, func() *ssa.Value {
		operands := make([]*ssa.Value, len(of.In))
		k := 0
		for i, v := range of.In {
			switch {
			case v == nil:
			case v.Const != nil:
				operands[i] = b.constant(v.Const)
			default:
				operands[i] = in[k]
				k++
			}
		}
		n := b.out.SSA.NewNode(of.Op, operands, len(of.Out), slices.Clone(of.Attrs)...)
		n.Domain, n.Name, n.Captures = of.Domain, of.Name, of.Captures
		for i, body := range of.Bodies {
			copied, _ := body.Clone()
			n.AddBody(of.BodyAttr[i], copied)
		}
		b.infer(n)
		return n.Out[0]
	})
	if b.err != nil {
		return nil, b.err
	}
	return first.Def.Out[result], nil
}

func operandKey(in []*ssa.Value) string {
	ids := make([]int, len(in))
	for i, v := range in {
		ids[i] = v.ID
	}
	return fmt.Sprint(ids)
}
