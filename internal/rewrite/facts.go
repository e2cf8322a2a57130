package rewrite

import (
	"bytes"
	"context"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// removable reports that a node may be dropped when nothing reads it: it and the nodes
// of its bodies are of operators that berth knows.
func removable(n *ssa.Node) bool {
	return all(n, func(o *ops.Op) bool { return true })
}

// pure reports that a node gives the same results for the same operands, so that
// it may be folded, merged and moved.
func pure(n *ssa.Node) bool {
	return all(n, func(o *ops.Op) bool { return o.Facts.Randomness == ops.Deterministic })
}

// all reports that the operators of a node and of the nodes in its bodies are known
// and have a property.
func all(n *ssa.Node, property func(o *ops.Op) bool) bool {
	o := ops.Of(n)
	return o != nil && property(o) && !slices.ContainsFunc(n.Bodies, func(b *ssa.Graph) bool {
		return slices.ContainsFunc(b.Nodes, func(m *ssa.Node) bool { return !all(m, property) })
	})
}

// is reports a node of the default domain with that operator.
func is(n *ssa.Node, op string) bool {
	return n != nil && !n.Opaque && n.Domain == "" && n.Op == op
}

// def returns the node that defines v if it is of one of the operators, else nil.
func def(v *ssa.Value, names ...string) *ssa.Node {
	if v == nil || v.Def == nil || v.Def.Opaque || v.Def.Domain != "" || !slices.Contains(names, v.Def.Op) {
		return nil
	}
	return v.Def
}

// operandOf returns operand 0 of the node that defines v if it is of one of the
// operators, else nil.
func operandOf(v *ssa.Value, names ...string) *ssa.Value {
	if n := def(v, names...); n != nil {
		return n.In[0]
	}
	return nil
}

// defWith returns the node that defines v if its operator is of the default domain and
// has a property, else nil.
func defWith(v *ssa.Value, property func(f *ops.Facts) bool) *ssa.Node {
	if v == nil || v.Def == nil || v.Def.Domain != "" {
		return nil
	}
	if o := ops.Of(v.Def); o == nil || !property(&o.Facts) {
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
	if v.Const.DType() != ndarray.String { // no copy where they are not aligned
		data, err := v.Const.Bytes(0)
		if err != nil {
			return nil
		}
		e := uniform(&ndarray.Array{DType: v.Const.DType(), Shape: v.Const.Shape(), Data: data})
		if e != nil && !e.Aligned() {
			e = e.Clone()
		}
		return e
	}
	a, err := v.Const.Array()
	if err != nil {
		return nil
	}
	return uniform(a)
}

// uniform returns the first element if all are the same, bit for bit.
func uniform(a *ndarray.Array) *ndarray.Array { return uniformUntil(context.Background(), a) }

// uniformUntil is uniform, or nil where a context ends first: mapped constants may have gigabytes.
func uniformUntil(ctx context.Context, a *ndarray.Array) *ndarray.Array {
	const piece = 1 << 20 // bytes between two looks at the context
	if a.DType == ndarray.String {
		for _, s := range a.Str {
			if s != a.Str[0] {
				return nil
			}
		}
		return ndarray.Strings(a.Str[:1])
	}
	w := a.DType.Size()
	for at := 0; at+w < len(a.Data); at += piece {
		end := min(at+piece+w, len(a.Data))
		if !bytes.Equal(a.Data[at:end-w], a.Data[at+w:end]) || ctx.Err() != nil {
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
	return a.Kind == ssa.KindTensor && b.Kind == ssa.KindTensor && a.Ranked && b.Ranked && slices.EqualFunc(a.Shape, b.Shape, ssa.Dim.Equal)
}

// keepsShape reports that broadcasting x with a constant of the given shape
// gives x's shape again, for all values of the symbols.
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
// operands, and the index of the constant; i is -1 if not exactly one is constant.
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
