package rewrite

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// removable reports that a node may be dropped when nobody reads it.
func removable(n *ssa.Node) bool {
	if ops.Of(n) == nil {
		return false
	}
	for _, b := range n.Bodies {
		for _, m := range b.Nodes {
			if !removable(m) {
				return false
			}
		}
	}
	return true
}

// pure reports that a node gives the same results for the same operands, so that
// it may be folded, merged and moved.
func pure(n *ssa.Node) bool {
	o := ops.Of(n)
	if o == nil || o.Facts.Random {
		return false
	}
	for _, b := range n.Bodies {
		for _, m := range b.Nodes {
			if !pure(m) {
				return false
			}
		}
	}
	return true
}

// is reports a node of the default domain with that operator.
func is(n *ssa.Node, op string) bool {
	return n != nil && !n.Opaque && n.Domain == "" && n.Op == op
}

// def returns the node that defines v if it is of that operator, else nil.
func def(v *ssa.Value, op string) *ssa.Node {
	if v == nil || !is(v.Def, op) {
		return nil
	}
	return v.Def
}

// scalar returns the value all elements of a constant have: a single element or
// a splat.
func scalar(v *ssa.Value) (float64, bool) {
	e := element(v)
	if e == nil || e.DType == ndarray.String || e.DType.IsComplex() {
		return 0, false
	}
	return e.Float(0), true
}

// element returns the one element a constant consists of, nil if there are
// different ones or none. Dense constants are looked through up to a small size.
func element(v *ssa.Value) *ndarray.Array {
	if v == nil || v.Const == nil || v.Const.Len() == 0 {
		return nil
	}
	if e, ok := v.Const.Splat(); ok {
		return e
	}
	const limit = 1 << 16
	if v.Const.Len() > limit {
		return nil
	}
	a, err := v.Const.Array()
	if err != nil {
		return nil
	}
	return uniform(a)
}

// uniform returns the first element if all are the same, bit for bit.
func uniform(a *ndarray.Array) *ndarray.Array {
	if a.DType == ndarray.String {
		for _, s := range a.Str {
			if s != a.Str[0] {
				return nil
			}
		}
		return ndarray.Strings(a.Str[:1])
	}
	w := a.DType.Size()
	for i := w; i < len(a.Data); i++ {
		if a.Data[i] != a.Data[i-w] {
			return nil
		}
	}
	return &ndarray.Array{DType: a.DType, Data: a.Data[:w:w]}
}

// ints returns the elements of a constant (or fully known) integer operand.
func ints(n *ssa.Node, i int) ([]int64, bool) {
	if n.Input(i) == nil {
		return nil, false
	}
	return ops.ConstInts(n, i)
}

// sameShape reports that two types have the same known shape.
func sameShape(a, b ssa.Type) bool {
	if a.Kind != ssa.KindTensor || b.Kind != ssa.KindTensor || !a.Ranked || !b.Ranked || len(a.Shape) != len(b.Shape) {
		return false
	}
	for i := range a.Shape {
		if !a.Shape[i].Equal(b.Shape[i]) {
			return false
		}
	}
	return true
}

// keepsShape reports that broadcasting x with a constant of the given shape
// gives x's shape again, whatever the symbols stand for.
func keepsShape(x ssa.Type, shape []int) bool {
	if x.Kind != ssa.KindTensor || !x.Ranked || len(shape) > len(x.Shape) {
		return false
	}
	off := len(x.Shape) - len(shape)
	for i, d := range shape {
		if d != 1 && !x.Shape[off+i].Is(int64(d)) {
			return false
		}
	}
	return true
}

// constFirst returns the constant and the other operand of a node with two
// operands, and the place of the constant; i is -1 if not exactly one is constant.
func constFirst(n *ssa.Node) (k, x *ssa.Value, i int) {
	a, b := n.Input(0), n.Input(1)
	switch {
	case a == nil || b == nil || (a.Const != nil) == (b.Const != nil):
		return nil, nil, -1
	case a.Const != nil:
		return a, b, 0
	}
	return b, a, 1
}

// dims returns the shape as numbers where it is known, nil else.
func dims(v *ssa.Value) []int {
	if v == nil {
		return nil
	}
	s, ok := v.Type.Static()
	if !ok {
		return nil
	}
	if s == nil {
		s = []int{}
	}
	return s
}
