package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Results smaller than the operand they are written over, [Facts.Smaller].
//
// The fact is a promise of the operator; every kernel keeps it in its own way.
// Reference kernels may write in any order, so [Eval] gives them memory of their
// own and moves the result. Fast kernels that go front to back keep the promise on
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

// evalApart runs a reference kernel, results over larger operands in memory of
// their own first.
func evalApart(o *Op, c *Call) error {
	own := make([]ndarray.Value, len(c.Out))
	for k := range c.Out {
		for i := range c.In {
			if own[k] == nil && c.Overlays(k, i) {
				y := c.Out[k].(*ndarray.Array)
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

// narrowing pairs result 0 with the operands of its shape whose elements are at
// least twice as wide. Element i of the result lies at or before element i of the
// operand, so nothing is lost front to back:
//
//	operand  0 0 0 0 1 1 1 1 2 2 2 2 3 3 3 3      four bytes each
//	result   0 0 1 1 2 2 3 3                      two bytes each
func narrowing(n *ssa.Node) []Pair {
	var pairs []Pair
	for i, v := range n.In {
		if halves(v, n.Output(0)) && v.Type.Equal(ssa.TensorOf(v.Type.DType, n.Out[0].Type.Shape...)) {
			pairs = append(pairs, Pair{i, 0})
		}
	}
	return pairs
}

// narrowingFirst is narrowing for operators that read only operand 0 element by
// element.
func narrowingFirst(n *ssa.Node) []Pair {
	for _, p := range narrowing(n) {
		if p.In == 0 {
			return []Pair{p}
		}
	}
	return nil
}

// halves reports whether a result takes at most half of an operand's bytes; both
// are tensors of known shape and not empty.
func halves(operand, result *ssa.Value) bool {
	if operand == nil || result == nil {
		return false
	}
	a, ok := operand.Type.ByteSize()
	b, ok2 := result.Type.ByteSize()
	return ok && ok2 && b > 0 && 2*b <= a
}

// innerReduced pairs the result of a reduction with its operand if the reduced
// axes are the innermost: then every result element belongs to one run of the
// operand, and lies before it or at its start.
//
//	operand  0 0 0 0 1 1 1 1 2 2 2 2
//	result   0 1 2
func innerReduced(n *ssa.Node, mask []bool) []Pair {
	if !halves(n.Input(0), n.Output(0)) || n.In[0].Type.Rank() != len(mask) {
		return nil
	}
	kept := false // going inwards to outwards
	for i := len(mask) - 1; i >= 0; i-- {
		switch {
		case n.In[0].Type.Shape[i].Is(1):
		case !mask[i]:
			kept = true
		case kept:
			return nil
		}
	}
	return []Pair{{0, 0}}
}

// pooledPlanes pairs the result of a pooling with its operand if planes halve at
// least and, within a plane, windows move on by more than they reach back. Then
// row r of a result plane ends before the first row that later windows read, and
// result planes n … 2n-1 end before plane n of the operand.
func pooledPlanes(n *ssa.Node) []Pair {
	x := n.Input(0)
	if !halves(x, n.Output(0)) || n.Output(1) != nil || x.Type.Rank() < 3 {
		return nil
	}
	kernel, err := kernelAttr(n)
	if err != nil || len(kernel) != x.Type.Rank()-2 {
		return nil
	}
	w, err := windowOf(n, kernel)
	shape, ok := x.Type.Static()
	if err != nil || !ok || w.bind(shape[2:]) != nil {
		return nil
	}
	for i := range kernel {
		if w.strides[i] <= w.begin[i] || w.out[i] > w.in[i] {
			return nil
		}
	}
	return []Pair{{0, 0}}
}

// globalPlanes pairs the result of a global pooling, one element per plane, with
// its operand.
func globalPlanes(n *ssa.Node) []Pair {
	if !halves(n.Input(0), n.Output(0)) {
		return nil
	}
	return []Pair{{0, 0}}
}

// forwardSlice pairs a slice with its operand if no step goes backwards: what
// element i of the result is lies at place i of the operand, or behind.
func forwardSlice(n *ssa.Node) []Pair {
	if !halves(n.Input(0), n.Output(0)) {
		return nil
	}
	if n.Input(4) == nil {
		return []Pair{{0, 0}}
	}
	steps, ok := ConstInts(n, 4)
	for _, s := range steps {
		ok = ok && s > 0
	}
	if !ok {
		return nil
	}
	return []Pair{{0, 0}}
}
