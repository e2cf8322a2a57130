package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// unknownDims returns k unknown dimensions.
func unknownDims(k int) []ssa.Dim { return make([]ssa.Dim, k) }

// tensorOfRank returns a tensor type of known rank and unknown dimensions;
// unranked for a negative rank.
func tensorOfRank(dt ndarray.DType, rank int) ssa.Type {
	if rank < 0 {
		return ssa.UnrankedTensor(dt)
	}
	return ssa.TensorOf(dt, unknownDims(rank)...)
}

// lenOf returns how many elements rank-1 operand i has, -1 if not known.
func lenOf(n *ssa.Node, i int) int {
	if c := ContentOf(n, i); c != nil && InType(n, i).Rank() != 0 {
		return len(c)
	}
	t := InType(n, i)
	if t.Rank() == 1 {
		if k, ok := t.Shape[0].Const(); ok && k >= 0 && k < 1<<20 {
			return int(k)
		}
	}
	return -1
}

// contentFor returns content if a value of type t can carry it, else nil.
func contentFor(t ssa.Type, content []ssa.Dim) []ssa.Dim {
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

// factOf joins a type and what can be carried of a content.
func factOf(t ssa.Type, content []ssa.Dim) []Inferred {
	return []Inferred{{Type: t, Content: contentFor(t, content)}}
}

// checkDims fails on dimensions that are negative numbers.
func checkDims(dims []ssa.Dim) {
	for i, d := range dims {
		if k, ok := d.Const(); ok && k < 0 {
			failf("dimension %d of the shape is %d", i, k)
		}
	}
}

// wholeView says that result 0 is operand 0's bytes under another shape.
func wholeView(n *ssa.Node) []Alias {
	if n.Output(0) == nil || !isPlainTensor(n.In[0]) {
		return nil
	}
	return []Alias{{In: 0, Out: 0}}
}

// isPlainTensor reports a tensor whose elements are bytes (no strings).
func isPlainTensor(v *ssa.Value) bool {
	return v != nil && v.Type.Kind == ssa.KindTensor && v.Type.DType != ndarray.String && v.Type.DType != ndarray.Undefined
}

// onesBefore reports that every dimension before axis is 1: a range of indices
// along axis is then contiguous in memory.
func onesBefore(t ssa.Type, axis int) bool {
	for _, d := range t.Shape[:axis] {
		if !d.Is(1) {
			return false
		}
	}
	return true
}

// bytesAfter returns the bytes of one index step along axis of a static type.
func bytesAfter(t ssa.Type, axis int) int64 {
	n := int64(t.DType.Size())
	for _, d := range t.Shape[axis+1:] {
		k, _ := d.Const()
		n *= k
	}
	return n
}

// retyped is a tensor type with another element type.
func retyped(t ssa.Type, dt ndarray.DType) ssa.Type {
	return ssa.Type{Kind: ssa.KindTensor, DType: dt, Ranked: t.Ranked, Shape: t.Shape}
}

// firstType is the type rule of operators whose results have operand 0's type.
func firstType(results int) func(*ssa.Node) []Inferred {
	return func(n *ssa.Node) []Inferred {
		out := make([]Inferred, results)
		for i := range out {
			out[i].Type = InType(n, 0)
		}
		return out
	}
}

// dimOf returns dimension i of a type, counted from the end when negative;
// unknown if the type has no such dimension.
func dimOf(t ssa.Type, i int) ssa.Dim {
	if i < 0 {
		i += len(t.Shape)
	}
	if !t.Ranked || i < 0 || i >= len(t.Shape) {
		return ssa.Dim{}
	}
	return t.Shape[i]
}
