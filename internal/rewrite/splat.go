package rewrite

import (
	"bytes"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Constants of one element repeated. They are kept as that element and a shape; what
// can be computed from them without writing them out is:
//
//	splat 2, [1000,1000] ─▶ Mul 3 ─▶ Transpose     splat 6, [1000,1000]
//	                        one product, no element moved

// splatResult computes a node with one result on splats without writing them
// out; nil if it can not. Where the result is small the ordinary way is as good.
func (c *Context) splatResult(n *ssa.Node) *ssa.Constant {
	if len(n.Out) != 1 || n.Domain != "" || n.Out[0] == nil {
		return nil
	}
	shape, ok := n.Out[0].Type.Static()
	size, err := ndarray.NumElems(shape)
	if !ok || err != nil || size == 0 {
		return nil
	}
	var e *ndarray.Array
	switch {
	case n.Op == "ConstantOfShape":
		e = fillElement(n)
	case n.Op == "Concat":
		e = commonElement(n.In)
	case ops.Of(n).Facts.IsMovement() && !readsIndices[n.Op]:
		e = splatOf(n.Input(0))
	case ops.Of(n).Facts.IsElementwise():
		e = c.elementwiseElement(n)
	}
	if e == nil || e.DType != n.Out[0].Type.DType {
		return nil
	}
	return ssa.NewSplat(e, shape...)
}

// readsIndices are the movements with operands that shape inference need not look at. Indices outside of the data are found when they are evaluated.
var readsIndices = map[string]bool{"Gather": true, "GatherElements": true, "GatherND": true, "ReverseSequence": true}

// splatOf returns the element of a splat; dense constants do not count, except
// single elements.
func splatOf(v *ssa.Value) *ndarray.Array {
	if v == nil || v.Const == nil {
		return nil
	}
	if e, ok := v.Const.Splat(); ok {
		return e
	}
	if v.Const.Len() == 1 {
		return element(v)
	}
	return nil
}

// fillElement is the value attribute of ConstantOfShape: one element, float32 0
// if absent.
func fillElement(n *ssa.Node) *ndarray.Array {
	a := n.Attr("value")
	if a == nil || a.Tensor == nil {
		return ndarray.Scalar[float32](0)
	}
	v, err := a.Tensor.Array()
	if err != nil || v.Len() != 1 {
		return nil
	}
	return v.Reshaped()
}

// commonElement returns the element that all splats share, empty ones aside.
func commonElement(vs []*ssa.Value) *ndarray.Array {
	var e *ndarray.Array
	for _, v := range vs {
		if v == nil {
			return nil
		}
		if v.Const.Len() == 0 {
			continue
		}
		f := splatOf(v)
		if f == nil || f.DType == ndarray.String || e != nil && !bytes.Equal(e.Data, f.Data) {
			return nil
		}
		e = f
	}
	return e
}

// elementwiseElement runs the kernel once, on the single elements.
func (c *Context) elementwiseElement(n *ssa.Node) *ndarray.Array {
	call := &ops.Call{Ctx: c.ctx, Node: n, Threads: 1, Memory: ndarray.BudgetOf(c.ctx), Out: make([]ndarray.Value, 1)}
	for _, v := range n.In {
		if v == nil {
			call.In = append(call.In, nil)
			continue
		}
		e := splatOf(v)
		if e == nil {
			return nil
		}
		call.In = append(call.In, e.Reshaped())
	}
	if len(n.In) == 0 {
		return nil
	}
	if err := ops.Eval(call); err != nil {
		c.failIfFull(err)
		return nil
	}
	a, ok := call.Out[0].(*ndarray.Array)
	if !ok || a.Len() != 1 {
		return nil
	}
	return a.Reshaped()
}
