package elementwise

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Rules for the known elements of small tensors ([ops.Inferred], kit.Known):
// arithmetic and comparisons on expressions over dimensions.

// contentRule is how an operator combines elements of its operands that are known as
// expressions over dimensions; nil where it can not for that node and element type.
type contentRule func(n *ssa.Node, dt ndarray.DType) func(a, b ssa.Dim) ssa.Dim

// exactly is the rule of an operation that keeps integers integers in any type.
func exactly(f func(a, b ssa.Dim) ssa.Dim) contentRule {
	return func(*ssa.Node, ndarray.DType) func(a, b ssa.Dim) ssa.Dim { return f }
}

// content applies the rule to the operands of a node with a result of type t.
func (r contentRule) content(n *ssa.Node, t ssa.Type) []ssa.Dim {
	if r == nil || !kit.TracksContent(t.DType) {
		return nil
	}
	f := r(n, t.DType)
	if f == nil {
		return nil
	}
	return zipContent(n, t, f)
}

// zipContent combines the contents of two operands element by element, with
// broadcasting of single elements; nil if nothing is known of one of them.
func zipContent(n *ssa.Node, t ssa.Type, f func(x, y ssa.Dim) ssa.Dim) []ssa.Dim {
	if t.Rank() > 1 || t.Rank() < 0 || !kit.IsKnown(n, 0) || !kit.IsKnown(n, 1) {
		return nil // most operands: nothing is unpacked for them
	}
	x, y := kit.Known(n, 0), kit.Known(n, 1)
	if x == nil || y == nil {
		return nil
	}
	if len(x) != len(y) && len(x) != 1 && len(y) != 1 {
		return nil
	}
	size := max(len(x), len(y))
	if len(x) == 0 || len(y) == 0 {
		size = 0
	}
	out := make([]ssa.Dim, size)
	for i := range out {
		out[i] = f(x[min(i, len(x)-1)], y[min(i, len(y)-1)])
	}
	return out
}

// quotientContent is the rule of Div: floats stay integers only without remainder.
func quotientContent(_ *ssa.Node, dt ndarray.DType) func(a, b ssa.Dim) ssa.Dim {
	if dt.IsInteger() {
		return divContent
	}
	return exactDivContent
}

// remainderContent is the rule of Mod on integers with the sign of the divisor.
func remainderContent(n *ssa.Node, dt ndarray.DType) func(a, b ssa.Dim) ssa.Dim {
	if ops.Int(n, "fmod") != 0 || !dt.IsInteger() {
		return nil
	}
	return func(a, b ssa.Dim) ssa.Dim {
		if m, ok := b.Const(); !ok || m <= 0 {
			return ssa.Dim{}
		}
		return a.Mod(b)
	}
}

// divContent is integer division, which truncates; for a symbolic dividend the
// floor is the same where it is not negative. Anything else is unknown.
func divContent(a, b ssa.Dim) ssa.Dim {
	m, ok := b.Const()
	if !ok || m <= 0 {
		return ssa.Dim{}
	}
	if k, ok := a.Const(); ok {
		return ssa.D(k / m)
	}
	if q := exactDivContent(a, b); q.Known() {
		return q
	}
	if a.NonNegative() {
		return a.FloorDiv(b)
	}
	return ssa.Dim{}
}

// exactDivContent is a quotient without remainder, unknown if there may be one.
func exactDivContent(a, b ssa.Dim) ssa.Dim {
	if m, ok := b.Const(); !ok || m == 0 {
		return ssa.Dim{}
	}
	if q := a.FloorDiv(b); q.Mul(b).Equal(a) {
		return q
	}
	return ssa.Dim{}
}

// compareContent decides a comparison where the difference of both sides is a
// number, or where one side is a negative number and the other can not be.
func compareContent(r relation) func(x, y ssa.Dim) ssa.Dim {
	return func(x, y ssa.Dim) ssa.Dim {
		if k, ok := x.Sub(y).Const(); ok {
			return truth(r.holds(k))
		}
		if k, ok := y.Const(); ok && k < 0 && x.NonNegative() {
			return truth(r.gt)
		}
		if k, ok := x.Const(); ok && k < 0 && y.NonNegative() {
			return truth(r.lt)
		}
		return ssa.Dim{}
	}
}

// truth is a boolean as an element: 1 or 0.
func truth(b bool) ssa.Dim { return ssa.D(int64(kit.Btoi(b))) }
