package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// A sequence owns its members: kernels copy tensors on the way in and on the way
// out, because the memory of a tensor operand may be used for something else as
// soon as nobody needs the tensor any more. Whole sequences are never changed,
// so they share members freely.

// needSequence returns sequence operand i of a call.
func needSequence(c *Call, i int) *ndarray.Sequence {
	if c.Has(i) {
		if s, ok := c.In[i].(*ndarray.Sequence); ok && s != nil {
			return s
		}
	}
	panic(failure{fmt.Errorf("operand %d is no sequence", i)})
}

// ownedCopy returns a value that does not share the memory of a tensor operand.
func ownedCopy(v ndarray.Value) ndarray.Value {
	if a, ok := v.(*ndarray.Array); ok {
		return a.Clone()
	}
	return v
}

// giveOut stores a member of a sequence or an optional as result i.
func giveOut(c *Call, i int, v ndarray.Value) {
	a, ok := v.(*ndarray.Array)
	if !ok {
		check(c.SetOutput(i, v))
		return
	}
	out := result(c, i, a.DType, a.Shape...)
	copyWhole(out, a)
}

// elemOf returns the member type of a sequence or optional, the unknown type if
// t is neither.
func elemOf(t ssa.Type) ssa.Type {
	if t.Elem != nil && (t.Kind == ssa.KindSequence || t.Kind == ssa.KindOptional) {
		return *t.Elem
	}
	return ssa.Type{}
}

// seqPosition maps a position operand, which counts from the back if negative,
// to [0, n]; n itself only if end is allowed.
func seqPosition(c *Call, i, n int, def int64, end bool) int {
	at := def
	if c.Has(i) {
		at = scalarInt(c, i)
	}
	k := at
	if k < 0 {
		k += int64(n)
	}
	last := int64(n - 1)
	if end {
		last++
	}
	if k < 0 || k > last {
		failf("position %d is outside of a sequence of %d", at, n)
	}
	return int(k)
}
