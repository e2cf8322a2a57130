package sequence

import (
	"fmt"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// A sequence owns its members: kernels copy tensors into it and out of it, because
// the memory of a tensor is used again after the tensor's last use. Sequences are
// never changed, so they share members.

// needSequence returns sequence operand i of a call.
func needSequence(c *ops.Call, i int) *ndarray.Sequence {
	if c.Has(i) {
		if s, ok := c.In[i].(*ndarray.Sequence); ok && s != nil {
			return s
		}
	}
	panic(kit.Failure{Err: fmt.Errorf("operand %d is no sequence", i)})
}

// ownedCopy returns a value that does not share the memory of a tensor operand.
func ownedCopy(c *ops.Call, v ndarray.Value) ndarray.Value {
	if a, ok := v.(*ndarray.Array); ok {
		return kit.Clone(c, a)
	}
	return v
}

// elemOf returns the member type of a sequence or optional, the unknown type if
// t is neither.
func elemOf(t ssa.Type) ssa.Type {
	if t.Elem != nil && (t.Kind == ssa.KindSequence || t.Kind == ssa.KindOptional) {
		return *t.Elem
	}
	return ssa.Type{}
}

// seqPosition maps a position operand, which counts from the back if negative and is
// at where it is absent, to [0, n); n itself is allowed if end is set.
func seqPosition(c *ops.Call, i, n int, at int64, end bool) int {
	if c.Has(i) {
		at = kit.ScalarInt(c, i)
	}
	if end && at == int64(n) {
		return n
	}
	k, err := ops.WrapIndex(at, n)
	if err != nil {
		kit.Failf("position %d is outside of a sequence of %d", at, n)
	}
	return k
}
