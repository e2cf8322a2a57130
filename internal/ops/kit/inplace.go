package kit

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Facts about results that share the bytes of operands: views ([ops.Facts.Alias]), results
// of the same size ([ops.Facts.InPlace]) and smaller ones ([ops.Facts.Smaller]).

// WholeView says that result 0 is operand 0's bytes under another shape.
func WholeView(n *ssa.Node) []ops.Alias {
	if n.Output(0) == nil || !IsPlainTensor(n.In[0]) {
		return nil
	}
	return []ops.Alias{{In: 0, Out: 0}}
}

// KnownView is [WholeView] of operators with a shape or axes as operand 1, unless a kernel has to check what that holds.
func KnownView(n *ssa.Node) []ops.Alias {
	if !ops.TargetKnown(n) {
		return nil
	}
	return WholeView(n)
}

// IsPlainTensor reports a tensor whose elements are bytes (no strings).
func IsPlainTensor(v *ssa.Value) bool {
	return v != nil && v.Type.Kind == ssa.KindTensor && v.Type.DType != ndarray.String && v.Type.DType != ndarray.Undefined
}

// InPlaceFirst is the InPlace fact of operators that may write result 0 over
// operand 0.
func InPlaceFirst(n *ssa.Node) []ops.Pair {
	if x, y := n.Input(0), n.Output(0); x != nil && y != nil && ops.SameLayout(x.Type, y.Type) {
		return []ops.Pair{{In: 0, Out: 0}}
	}
	return nil
}

// NarrowingFirst is [ops.Narrowing] for operators that read only operand 0 element by
// element.
func NarrowingFirst(n *ssa.Node) []ops.Pair {
	for _, p := range ops.Narrowing(n) {
		if p.In == 0 {
			return []ops.Pair{p}
		}
	}
	return nil
}
