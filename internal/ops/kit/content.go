package kit

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The content of a small tensor is what is known of its elements, as expressions over
// dimensions. It is tracked through the arithmetic that models do on shapes:
//
//	Shape [N,3,H,W] → Gather 2 → Mul 2 → Cast → … → Reshape
//
// Integers, booleans (0 and 1) and floats that hold integers are tracked. A
// float operation keeps a content only where its result is certainly an integer.

// maxExactFloat is the largest integer up to which every integer is a float32.
const maxExactFloat = 1 << 24

// IsKnown reports whether something may be known of the elements of operand i: if not, [Known] is nil.
func IsKnown(n *ssa.Node, i int) bool {
	v := n.Input(i)
	if v == nil || v.Content != nil {
		return v != nil
	}
	if v.Const == nil || v.Type.Rank() > 1 || v.Const.Len() > ssa.MaxContent {
		return false
	}
	dt := v.Const.DType()
	return dt.IsFloat() || dt.IsInteger() || dt == ndarray.Bool
}

// Known returns the elements of operand i: its content, or the elements of a
// small constant; nil if nothing is known.
func Known(n *ssa.Node, i int) []ssa.Dim {
	v := n.Input(i)
	if v == nil || v.Content != nil {
		return ops.ContentOf(n, i)
	}
	if !IsKnown(n, i) {
		return nil
	}
	dt := v.Const.DType()
	a, err := v.Const.Array()
	if err != nil {
		return nil
	}
	out := make([]ssa.Dim, a.Len())
	for k := range out {
		if dt.IsFloat() {
			out[k] = FloatDim(a.Float(k))
		} else if dt != ndarray.Uint64 || a.Int(k) >= 0 {
			out[k] = ssa.D(a.Int(k))
		}
	}
	return out
}

// FloatDim is a float as a content element: unknown unless it is an integer
// that any float type of 24 bits of mantissa holds exactly.
func FloatDim(v float64) ssa.Dim {
	if v == math.Trunc(v) && math.Abs(v) <= maxExactFloat {
		return ssa.D(int64(v))
	}
	return ssa.Dim{}
}

// TracksContent reports whether the known elements of tensors of an element type are tracked.
func TracksContent(dt ndarray.DType) bool {
	switch dt {
	case ndarray.Int32, ndarray.Int64, ndarray.Bool, ndarray.Float32, ndarray.Float64:
		return true
	}
	return false
}

// SoleKnown is the known value of a scalar operand.
func SoleKnown(n *ssa.Node, i int) ssa.Dim {
	if x := Known(n, i); len(x) == 1 {
		return x[0]
	}
	return ssa.Dim{}
}

// SymMin is [ssa.Dim.Min], simplified where the difference has a known sign.
func SymMin(a, b ssa.Dim) ssa.Dim {
	switch {
	case b.Sub(a).NonNegative():
		return a
	case a.Sub(b).NonNegative():
		return b
	}
	return a.Min(b)
}

// SymMax is [ssa.Dim.Max], simplified where the difference has a known sign.
func SymMax(a, b ssa.Dim) ssa.Dim {
	switch {
	case b.Sub(a).NonNegative():
		return b
	case a.Sub(b).NonNegative():
		return a
	}
	return a.Max(b)
}

// ScalarDim is [SoleKnown] for integers only.
func ScalarDim(n *ssa.Node, i int) ssa.Dim {
	if c := ops.ContentOf(n, i); len(c) == 1 {
		return c[0]
	}
	return ssa.Dim{}
}

// LenOf returns how many elements rank-1 operand i has, -1 if not known.
func LenOf(n *ssa.Node, i int) int {
	if c := ops.ContentOf(n, i); c != nil && ops.InType(n, i).Rank() != 0 {
		return len(c)
	}
	t := ops.InType(n, i)
	if t.Rank() == 1 {
		if k, ok := t.Shape[0].Const(); ok && k >= 0 && k < 1<<20 {
			return int(k)
		}
	}
	return -1
}

// ShapeOperand returns the dimensions that operand i holds, unknown ones where only
// their number is known; nil where that is unknown, too.
func ShapeOperand(n *ssa.Node, i int) []ssa.Dim {
	dims := ops.ContentOf(n, i)
	if k := LenOf(n, i); dims == nil && k >= 0 {
		dims = UnknownDims(k)
	}
	return dims
}

// ContentFor returns content if a value of type t can carry it, else nil.
func ContentFor(t ssa.Type, content []ssa.Dim) []ssa.Dim {
	if r := t.Rank(); r != 0 && r != 1 || len(content) > ssa.MaxContent {
		return nil
	}
	for _, d := range content {
		if d.Known() {
			return content
		}
	}
	if len(content) == 0 {
		return content
	}
	return nil
}

// FactOf joins a type and what can be carried of a content.
func FactOf(t ssa.Type, content []ssa.Dim) []ops.Inferred {
	return []ops.Inferred{{Type: t, Content: ContentFor(t, content)}}
}
