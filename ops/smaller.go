package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Halves reports whether a result takes at most half of an operand's bytes; both
// are tensors of known shape and not empty.
func Halves(operand, result *ssa.Value) bool {
	if operand == nil || result == nil {
		return false
	}
	a, ok := operand.Type.ByteSize()
	b, ok2 := result.Type.ByteSize()
	return ok && ok2 && b > 0 && 2*b <= a
}

// Results smaller than the operand they are written over: [Facts.Smaller].
//
// The fact is a property of the operator; every kernel ensures it in its own way.
// Reference kernels may write in any order, so [Eval] gives them memory of their
// own and copies the result. Fast kernels that go front to back are right on
// one thread; on several they work in waves:
//
//	units of work   0 │ 1 │ 2 3 │ 4 5 6 7 │ …       one wave after the other
//
// A unit's result is at most half as long as its part of the operand, so the
// results of units n … 2n-1 end where the operand of unit n begins, at the latest:
// the units of a wave can not disturb each other, nor later waves.

// Overlays reports whether result k of a call begins where operand i does and is
// smaller.
func (c *Call) Overlays(k, i int) bool {
	if k >= len(c.Out) || i >= len(c.In) {
		return false
	}
	y, ok := c.Out[k].(*ndarray.Array)
	x, ok2 := c.In[i].(*ndarray.Array)
	return ok && ok2 && y != nil && x != nil && len(y.Data) > 0 && len(y.Data) < len(x.Data) && &y.Data[0] == &x.Data[0]
}

// OverlaysAny reports whether some result begins where a larger operand does.
func (c *Call) OverlaysAny() bool {
	for k := range c.Out {
		for i := range c.In {
			if c.Overlays(k, i) {
				return true
			}
		}
	}
	return false
}

// evalOutOfPlace runs a reference kernel with results over larger operands in memory
// of their own, and copies them at the end.
func evalOutOfPlace(o *Op, c *Call) error {
	own := make([]ndarray.Value, len(c.Out))
	for k := range c.Out {
		for i := range c.In {
			if own[k] == nil && c.Overlays(k, i) {
				y := c.Out[k].(*ndarray.Array)
				if err := c.Memory.AskContext(c.Ctx, "a copy of a result", int64(len(y.Data))); err != nil {
					return err
				}
				own[k] = y
				c.Out[k] = &ndarray.Array{DType: y.DType, Shape: y.Shape, Data: ndarray.AlignedBytes(len(y.Data))}
			}
		}
	}
	err := o.Eval(c)
	for k, v := range own {
		if v != nil {
			copy(v.(*ndarray.Array).Data, c.Out[k].(*ndarray.Array).Data)
			c.Out[k] = v
		}
	}
	return err
}

// Narrowing pairs result 0 with the operands of its shape whose elements are at
// least twice as wide. Element i of the result lies at or before element i of the
// operand, so nothing is lost front to back:
//
//	operand  0 0 0 0 1 1 1 1 2 2 2 2 3 3 3 3      four bytes each
//	result   0 0 1 1 2 2 3 3                      two bytes each
func Narrowing(n *ssa.Node) []Pair {
	var pairs []Pair
	for i, v := range n.In {
		if Halves(v, n.Output(0)) && v.Type.Equal(ssa.TensorOf(v.Type.DType, n.Out[0].Type.Shape...)) {
			pairs = append(pairs, Pair{i, 0})
		}
	}
	return pairs
}
