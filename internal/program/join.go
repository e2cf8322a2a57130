package program

import (
	"github.com/berth-onnx/berth/alias"
	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// joins returns, by operand, the offset of its bytes in the result of a concatenation
// that only places contiguous operands; nil for other nodes.
func joins(n *ssa.Node) []int64 {
	if n.Opaque || n.Op != "Concat" || n.Domain != "" {
		return nil
	}
	parts := alias.Parts(n)
	if len(parts) != len(n.In) {
		return nil
	}
	at := make([]int64, len(n.In))
	for _, p := range parts {
		at[p.In] = p.Offset
	}
	return at
}

// joinKernel copies operands into the result, except those that were made there.
type joinKernel struct{ at []int64 }

// Places says where each operand begins in the result.
func (k *joinKernel) Places() []int64 { return k.at }

// Choice says what is copied.
func (k *joinKernel) Choice() backend.Choice {
	return backend.Choice{Algorithm: "copies", Reason: "only operands that were not made in place"}
}

// Run copies the operands that were not computed in place.
func (k *joinKernel) Run(c *ops.Call) error {
	out := c.Out[0].(*ndarray.Array).Data
	for i, at := range k.at {
		in := c.In[i].(*ndarray.Array).Data
		if len(in) == 0 || &out[at] == &in[0] {
			continue
		}
		if err := sysmem.Copy(c.Ctx, out[at:], in); err != nil {
			return err
		}
	}
	return nil
}
