package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// ConcatFromSequence joins the members of a sequence along an axis, or stacks
// them along a new one: https://onnx.ai/onnx/operators/onnx__ConcatFromSequence.html
var ConcatFromSequence = Op{
	Name: "ConcatFromSequence", Since: 11, Doc: "concat_result = members one after the other along axis",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("axis").required(), intAttr("new_axis", 0)},
	Facts: Facts{Traits: general}, Infer: rule(inferConcatFromSequence), Eval: kernel(evalConcatFromSequence),
}

func inferConcatFromSequence(n *ssa.Node) []Inferred {
	t := elemOf(InType(n, 0))
	if !t.Ranked {
		return One(ssa.UnrankedTensor(t.DType))
	}
	stack := Int(n, "new_axis") != 0
	axis := try(NormAxis(Int(n, "axis"), len(t.Shape)+btoi(stack)))
	dims := slices.Clone(t.Shape)
	if stack {
		dims = slices.Insert(dims, axis, ssa.Dim{})
	} else {
		dims[axis] = ssa.Dim{}
	}
	return One(ssa.TensorOf(t.DType, dims...))
}

func evalConcatFromSequence(c *Call) {
	s := needSequence(c, 0)
	if len(s.Items) == 0 {
		failf("the sequence is empty: the shape of the result is not known")
	}
	stack, axis := Int(c.Node, "new_axis") != 0, Int(c.Node, "axis")
	parts := make([]*ndarray.Array, len(s.Items))
	for i, v := range s.Items {
		a, ok := v.(*ndarray.Array)
		if !ok {
			failf("member %d is no tensor", i)
		}
		if stack {
			k := try(NormAxis(axis, a.Rank()+1))
			a = a.Reshaped(slices.Insert(slices.Clone(a.Shape), k, 1)...)
		}
		parts[i] = a
	}
	concatArrays(c, parts, axis)
}
