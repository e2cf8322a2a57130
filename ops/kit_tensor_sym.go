package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// always is an [Upgrade.Below] that every operator set is below: the rule of
// deprecated operators, which are replaced wherever they appear.
const always = 1 << 30

// typeForm gives the Form of an operator whose changelog, from base on, only
// admitted more element types: the oldest of the listed versions that knows all
// element types of the node. widened is in ascending order.
func typeForm(base int, widened ...int) func(*ssa.Node) int {
	return func(n *ssa.Node) int {
		need := base
		for _, vs := range [][]*ssa.Value{n.In, n.Out} {
			for _, v := range vs {
				if v != nil {
					need = max(need, typeSince(v.Type, base, widened))
				}
			}
		}
		return need
	}
}

// viewVersions are the versions at which the operators that take every element
// type (Identity, Reshape, Cast, If, …) were widened.
var viewVersions = []int{13, 19, 21, 23, 24, 25}

// typeSince is the first of the listed versions that is not older than the
// element type itself.
func typeSince(t ssa.Type, base int, widened []int) int {
	if t.Elem != nil {
		return typeSince(*t.Elem, base, widened)
	}
	born := 0
	switch t.DType {
	case ndarray.BFloat16:
		born = 13
	case ndarray.Float8E4M3FN, ndarray.Float8E4M3FNUZ, ndarray.Float8E5M2, ndarray.Float8E5M2FNUZ:
		born = 19
	case ndarray.Uint4, ndarray.Int4:
		born = 21
	case ndarray.Float4E2M1:
		born = 23
	case ndarray.Float8E8M0:
		born = 24
	case ndarray.Uint2, ndarray.Int2:
		born = 25
	case ndarray.Float6E2M3, ndarray.Float6E3M2:
		born = 28
	}
	if born <= base {
		return base
	}
	for _, v := range widened {
		if v >= born {
			return v
		}
	}
	return base
}

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

// moveCost is the cost of an operator that only moves data: its result written
// once and as many bytes read.
func moveCost(n *ssa.Node) Cost {
	var c Cost
	for _, v := range n.Out {
		if v != nil {
			b, _ := v.Type.ByteSize()
			c.Bytes += 2 * int64(b)
		}
	}
	return c
}

// freeCost is the cost of a view.
func freeCost(*ssa.Node) Cost { return Cost{} }
