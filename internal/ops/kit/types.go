package kit

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// UnionType is the most precise type that both describe: dimensions that
// differ become unknown.
func UnionType(a, b ssa.Type) ssa.Type {
	if a.Kind == ssa.KindUnknown || a.Kind != b.Kind || a.DType != b.DType {
		if a.Kind == b.Kind && a.Kind == ssa.KindTensor {
			return ssa.Type{Kind: ssa.KindTensor}
		}
		return ssa.Type{}
	}
	if a.Elem != nil && b.Elem != nil {
		e := UnionType(*a.Elem, *b.Elem)
		a.Elem = &e
	}
	if !a.Ranked || !b.Ranked || len(a.Shape) != len(b.Shape) {
		a.Ranked, a.Shape = false, nil
		return a
	}
	shape := make([]ssa.Dim, len(a.Shape))
	for i := range shape {
		if a.Shape[i].Equal(b.Shape[i]) {
			shape[i] = a.Shape[i]
		}
	}
	a.Shape = shape
	return a
}

// UnknownDims returns k unknown dimensions.
func UnknownDims(k int) []ssa.Dim { return make([]ssa.Dim, k) }

// DimsOf returns numbers as dimensions, not nil.
func DimsOf(ints []int64) []ssa.Dim {
	dims := make([]ssa.Dim, len(ints))
	Convert(nil, dims, ints, ssa.D)
	return dims
}

// TensorOfRank returns a tensor type of known rank and unknown dimensions;
// unranked for a negative rank.
func TensorOfRank(dt ndarray.DType, rank int) ssa.Type {
	if rank < 0 {
		return ssa.UnrankedTensor(dt)
	}
	return ssa.TensorOf(dt, UnknownDims(rank)...)
}

// CheckDims fails on dimensions that are negative numbers.
func CheckDims(dims []ssa.Dim) {
	for i, d := range dims {
		if k, ok := d.Const(); ok && k < 0 {
			Failf("dimension %d of the shape is %d", i, k)
		}
	}
}

// Retyped is a tensor type with another element type.
func Retyped(t ssa.Type, dt ndarray.DType) ssa.Type {
	return ssa.Type{Kind: ssa.KindTensor, DType: dt, Ranked: t.Ranked, Shape: t.Shape}
}

// FirstType is the type rule of operators whose results have operand 0's type.
func FirstType(results int) func(*ssa.Node) []ops.Inferred {
	return func(n *ssa.Node) []ops.Inferred {
		out := make([]ops.Inferred, results)
		for i := range out {
			out[i].Type = ops.InType(n, 0)
		}
		return out
	}
}

// DimOf returns dimension i of a type, counted from the end when negative;
// unknown if the type has no such dimension.
func DimOf(t ssa.Type, i int) ssa.Dim {
	if i < 0 {
		i += len(t.Shape)
	}
	if !t.Ranked || i < 0 || i >= len(t.Shape) {
		return ssa.Dim{}
	}
	return t.Shape[i]
}

// BindCaptures gives the last parameters of a body the types and contents of
// the captured operands.
func BindCaptures(n *ssa.Node, body *ssa.Graph) error {
	caps := n.Captured()
	if len(body.Params) < len(caps) {
		return fmt.Errorf("body %q has %d parameters for %d captured values", body.Name, len(body.Params), len(caps))
	}
	for i, p := range body.Params[len(body.Params)-len(caps):] {
		if caps[i] == nil {
			return fmt.Errorf("captured operand %d is absent", i)
		}
		p.Type, p.Content = caps[i].Type, caps[i].Content
	}
	return nil
}
