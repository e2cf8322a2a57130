package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// SplitToSequence cuts a tensor into a sequence:
// https://onnx.ai/onnx/operators/onnx__SplitToSequence.html
//
// A scalar split is the length of every part (the last may be shorter), a list
// the length of each. Without it the parts have length 1, and keepdims=0 drops
// the axis.
var SplitToSequence = Op{
	Name: "SplitToSequence", Since: 24, Form: typeForm(11, 24), Doc: "output_sequence = consecutive parts of input along axis",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("axis", 0), intAttr("keepdims", 1)},
	Facts: Facts{Traits: general}, Infer: rule(inferSplitToSequence), Eval: kernel(evalSplitToSequence),
}

func inferSplitToSequence(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	if !t.Ranked {
		return One(ssa.SequenceOf(t))
	}
	axis := try(NormAxis(Int(n, "axis"), len(t.Shape)))
	dims := slices.Clone(t.Shape)
	if n.Input(1) == nil {
		dims[axis] = ssa.D(1)
		if Int(n, "keepdims") == 0 {
			dims = slices.Delete(dims, axis, axis+1)
		}
		return One(ssa.SequenceOf(ssa.TensorOf(t.DType, dims...)))
	}
	dims[axis] = ssa.Dim{}
	if parts, ok := ConstInts(n, 1); ok && len(parts) > 0 {
		total, static := t.Shape[axis].Const()
		scalar := InType(n, 1).Rank() == 0
		same := !slices.ContainsFunc(parts, func(p int64) bool { return p != parts[0] })
		if scalar && static && parts[0] > 0 && total%parts[0] == 0 || !scalar && same {
			dims[axis] = ssa.D(parts[0])
		}
	}
	return One(ssa.SequenceOf(ssa.TensorOf(t.DType, dims...)))
}

// seqParts returns the length of every part of a dimension.
func seqParts(split *ndarray.Array, dim int) []int {
	if split == nil {
		return slices.Repeat([]int{1}, dim)
	}
	if !split.DType.IsInteger() || split.Rank() > 1 {
		failf("split is %s, it must be an integer or a list of them", split)
	}
	if split.Rank() == 0 {
		size := split.Int(0)
		if size < 1 {
			failf("parts of length %d are not possible", size)
		}
		var out []int
		for left := int64(dim); left > 0; left -= size {
			out = append(out, int(min(size, left)))
		}
		return out
	}
	sum := int64(0)
	out := make([]int, split.Len())
	for i := range out {
		k := split.Int(i)
		if k < 0 || k > int64(dim)-sum {
			failf("part %d has length %d, the axis has %d", i, k, dim)
		}
		sum += k
		out[i] = int(k)
	}
	if sum != int64(dim) {
		failf("the parts add up to %d, the axis has %d", sum, dim)
	}
	return out
}

func evalSplitToSequence(c *Call) {
	a := tensor(c, 0)
	axis := try(NormAxis(Int(c.Node, "axis"), a.Rank()))
	if c.Has(1) && c.Array(1) == nil {
		failf("operand 1 is no tensor")
	}
	parts := seqParts(c.Array(1), a.Shape[axis])
	s := &ndarray.Sequence{Elem: a.DType}
	at := 0
	for _, p := range parts {
		shape := slices.Clone(a.Shape)
		shape[axis] = p
		item := try(ndarray.New(a.DType, shape...))
		copyPart(item, a, axis, at)
		at += p
		if !c.Has(1) && Int(c.Node, "keepdims") == 0 {
			item = item.Reshaped(slices.Delete(shape, axis, axis+1)...)
		}
		s.Items = append(s.Items, item)
	}
	check(c.SetOutput(0, s))
}
