package sequence

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// SplitToSequence cuts a tensor into a sequence:
// https://onnx.ai/onnx/operators/onnx__SplitToSequence.html
//
// A scalar split is the length of every part (the last may be shorter), a list
// the length of each. Without it the parts have length 1, and keepdims=0 drops
// the axis. It does so where split is the scalar 1, too: the text says that keepdims counts only without split, but
// ONNX Runtime computes it so, and PyTorch writes unbind in this form.
var SplitToSequence = ops.Op{
	Name: "SplitToSequence", Since: 24, Form: kit.TypeForm(11, 24), Doc: "output_sequence = consecutive parts of input along axis",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis", 0), ops.IntAttr("keepdims", 1)},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferSplitToSequence), Eval: kit.Kernel(evalSplitToSequence),
}

func inferSplitToSequence(n *ssa.Node) []ops.Inferred {
	t := ops.InType(n, 0)
	if !t.Ranked {
		return ops.One(ssa.SequenceOf(t))
	}
	axis := kit.Try(ops.NormAxis(ops.Int(n, "axis"), len(t.Shape)))
	dims := slices.Clone(t.Shape)
	parts, known := ops.ConstInts(n, 1)
	drops := ops.Int(n, "keepdims") == 0
	mayDrop := drops && n.Input(1) != nil && (!ops.InType(n, 1).Ranked || ops.InType(n, 1).Rank() == 0)
	switch {
	case mayDrop && !known:
		return ops.One(ssa.SequenceOf(ssa.UnrankedTensor(t.DType)))
	case n.Input(1) == nil || mayDrop && len(parts) == 1 && parts[0] == 1:
		dims[axis] = ssa.D(1)
		if drops {
			dims = slices.Delete(dims, axis, axis+1)
		}
		return ops.One(ssa.SequenceOf(ssa.TensorOf(t.DType, dims...)))
	}
	dims[axis] = ssa.Dim{}
	if known && len(parts) > 0 {
		total, static := t.Shape[axis].Const()
		scalar := ops.InType(n, 1).Rank() == 0
		sum := int64(0)
		for _, p := range parts {
			sum += p
		}
		if !scalar && static && sum != total {
			kit.Failf("the parts add up to %d, the axis has %d", sum, total)
		}
		same := !slices.ContainsFunc(parts, func(p int64) bool { return p != parts[0] })
		if scalar && static && parts[0] > 0 && total%parts[0] == 0 || !scalar && same {
			dims[axis] = ssa.D(parts[0])
		}
	}
	return ops.One(ssa.SequenceOf(ssa.TensorOf(t.DType, dims...)))
}

// seqParts returns the length of every part of a dimension.
func seqParts(c *ops.Call, split *ndarray.Array, dim int) []int {
	if split == nil {
		return evenParts(c, dim, 1)
	}
	if !split.DType.IsInteger() || split.Rank() > 1 {
		kit.Failf("split is %s, it must be an integer or a list of them", split)
	}
	if split.Rank() == 0 {
		size := split.Int(0)
		if size < 1 {
			kit.Failf("parts of length %d are not possible", size)
		}
		return evenParts(c, dim, int(min(size, int64(max(dim, 1)))))
	}
	left := int64(dim)
	out := kit.Make[int](c, split.Len())
	for i := range out {
		k := split.Int(i)
		if k < 0 || k > left {
			kit.Failf("part %d has length %d, the axis has %d", i, k, dim)
		}
		left -= k
		out[i] = int(k)
	}
	if left != 0 {
		kit.Failf("the parts add up to %d, the axis has %d", int64(dim)-left, dim)
	}
	return out
}

// evenParts cuts a dimension into parts of one length; the last may be shorter.
func evenParts(c *ops.Call, dim, size int) []int {
	out := kit.Make[int](c, dim/size+(dim%size+size-1)/size)
	for i := range out {
		out[i] = min(size, dim-i*size)
	}
	return out
}

func evalSplitToSequence(c *ops.Call) {
	a := kit.Tensor(c, 0)
	axis := kit.Try(ops.NormAxis(ops.Int(c.Node, "axis"), a.Rank()))
	var split *ndarray.Array
	if c.Has(1) {
		split = kit.Tensor(c, 1)
	}
	parts, at := seqParts(c, split, a.Shape[axis]), 0
	s := &ndarray.Sequence{Elem: a.DType, Items: kit.Make[ndarray.Value](c, len(parts))}
	for i, p := range parts {
		shape := slices.Clone(a.Shape)
		shape[axis] = p
		item := kit.New(c, a.DType, shape...)
		kit.CopyPart(c, item, a, axis, at)
		at += p
		if ops.Int(c.Node, "keepdims") == 0 && (split == nil || split.Rank() == 0 && split.Int(0) == 1) {
			item = item.Reshaped(slices.Delete(shape, axis, axis+1)...)
		}
		s.Items[i] = item
	}
	kit.Check(c.SetOutput(0, s))
}
