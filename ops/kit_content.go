package ops

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Contents: the elements of small tensors, followed symbolically through the
// arithmetic that models do on shapes:
//
//	Shape [N,3,H,W] → Gather 2 → Mul 2 → Cast → … → Reshape
//
// Integers, booleans (0 and 1) and floats that hold integers are followed. A
// float operation keeps a content only where its result is an integer for sure.

// maxExactFloat is the largest integer up to which every integer is a float32.
const maxExactFloat = 1 << 24

// known returns the elements of operand i: its content, or the elements of a
// small constant; nil if nothing is known.
func known(n *ssa.Node, i int) []ssa.Dim {
	v := n.Input(i)
	if v == nil || v.Content != nil {
		return ContentOf(n, i)
	}
	if v.Const == nil || v.Type.Rank() > 1 || v.Const.Len() > ssa.MaxContent {
		return nil
	}
	dt := v.Const.DType()
	if !dt.IsFloat() && !dt.IsInteger() && dt != ndarray.Bool {
		return nil
	}
	a, err := v.Const.Array()
	if err != nil {
		return nil
	}
	out := make([]ssa.Dim, a.Len())
	for k := range out {
		if dt.IsFloat() {
			out[k] = floatDim(a.Float(k))
		} else if dt != ndarray.Uint64 || a.Int(k) >= 0 {
			out[k] = ssa.D(a.Int(k))
		}
	}
	return out
}

// floatDim is a float as a content element: unknown unless it is an integer
// that any float type of 24 bits of mantissa holds exactly.
func floatDim(v float64) ssa.Dim {
	if v == math.Trunc(v) && math.Abs(v) <= maxExactFloat {
		return ssa.D(int64(v))
	}
	return ssa.Dim{}
}

// followed reports element types whose contents are followed.
func followed(dt ndarray.DType) bool {
	switch dt {
	case ndarray.Int32, ndarray.Int64, ndarray.Bool, ndarray.Float32, ndarray.Float64:
		return true
	}
	return false
}

// zipContent combines the contents of two operands element by element, with
// broadcasting of single elements; nil if nothing is known of one of them.
func zipContent(n *ssa.Node, t ssa.Type, f func(x, y ssa.Dim) ssa.Dim) []ssa.Dim {
	x, y := known(n, 0), known(n, 1)
	if x == nil || y == nil || t.Rank() > 1 || t.Rank() < 0 {
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

// contentRule is how an operator combines elements of its operands that are known as
// expressions over dimensions; nil where it can not for that node and element type.
type contentRule func(n *ssa.Node, dt ndarray.DType) func(a, b ssa.Dim) ssa.Dim

// exactly is the rule of an operation that keeps integers integers in any type.
func exactly(f func(a, b ssa.Dim) ssa.Dim) contentRule {
	return func(*ssa.Node, ndarray.DType) func(a, b ssa.Dim) ssa.Dim { return f }
}

// content folds shape arithmetic symbolically.
func (r contentRule) content(n *ssa.Node, t ssa.Type) []ssa.Dim {
	if r == nil || !followed(t.DType) {
		return nil
	}
	f := r(n, t.DType)
	if f == nil {
		return nil
	}
	return zipContent(n, t, f)
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
	if Int(n, "fmod") != 0 || !dt.IsInteger() {
		return nil
	}
	return modContent
}

// divContent is integer division, which truncates; for a symbolic dividend the
// floor is the same where it is not negative. Anything else is unknown.
func divContent(a, b ssa.Dim) ssa.Dim {
	m, ok := b.Const()
	if !ok || m <= 0 {
		if a.Equal(b) && positive(a) {
			return ssa.D(1)
		}
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

// modContent is the remainder of a division by a positive number.
func modContent(a, b ssa.Dim) ssa.Dim {
	if m, ok := b.Const(); !ok || m <= 0 {
		return ssa.Dim{}
	}
	return a.Mod(b)
}

// positive reports that a dimension is at least 1 for sure.
func positive(d ssa.Dim) bool {
	k, ok := d.Const()
	return ok && k > 0
}

// scalarDim is the value of a one-element integer operand as a dimension.
func scalarDim(n *ssa.Node, i int) ssa.Dim {
	if c := ContentOf(n, i); len(c) == 1 {
		return c[0]
	}
	return ssa.Dim{}
}

// constBool returns 1 or 0 for a constant boolean, -1 if it is not known.
func constBool(v *ssa.Value) int {
	if v == nil || v.Const == nil || v.Const.Len() != 1 || v.Const.DType() != ndarray.Bool {
		return -1
	}
	a, err := v.Const.Array()
	if err != nil {
		return -1
	}
	return int(a.Int(0))
}

// soleKnown is the known value of a scalar operand.
func soleKnown(n *ssa.Node, i int) ssa.Dim {
	if x := known(n, i); len(x) == 1 {
		return x[0]
	}
	return ssa.Dim{}
}

// symMin is [ssa.Dim.Min], simplified where the difference has a known sign.
func symMin(a, b ssa.Dim) ssa.Dim {
	switch {
	case b.Sub(a).NonNegative():
		return a
	case a.Sub(b).NonNegative():
		return b
	}
	return a.Min(b)
}

// symMax is [ssa.Dim.Max], simplified where the difference has a known sign.
func symMax(a, b ssa.Dim) ssa.Dim {
	switch {
	case b.Sub(a).NonNegative():
		return b
	case a.Sub(b).NonNegative():
		return a
	}
	return a.Max(b)
}
