package sequence

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// ConcatFromSequence joins the members of a sequence along an axis, or stacks
// them along a new one: https://onnx.ai/onnx/operators/onnx__ConcatFromSequence.html
var ConcatFromSequence = ops.Op{
	Name: "ConcatFromSequence", Since: 11, Doc: "concat_result = members one after the other along axis",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis").Mandatory(), ops.IntAttr("new_axis", 0)},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(inferConcatFromSequence), Eval: kit.Kernel(evalConcatFromSequence),
}

func inferConcatFromSequence(n *ssa.Node) []ops.Inferred {
	t := elemOf(ops.InType(n, 0))
	if !t.Ranked {
		return ops.One(ssa.UnrankedTensor(t.DType))
	}
	stack := ops.Int(n, "new_axis") != 0
	axis := kit.Try(ops.NormAxis(ops.Int(n, "axis"), len(t.Shape)+kit.Btoi(stack)))
	dims := slices.Clone(t.Shape)
	if stack {
		dims = slices.Insert(dims, axis, ssa.Dim{})
	}
	dims[axis] = ssa.Dim{}
	return ops.One(ssa.TensorOf(t.DType, dims...))
}

func evalConcatFromSequence(c *ops.Call) {
	s := needSequence(c, 0)
	if len(s.Items) == 0 {
		kit.Failf("the sequence is empty: the shape of the result is not known")
	}
	stack, axis := ops.Int(c.Node, "new_axis") != 0, ops.Int(c.Node, "axis")
	parts := kit.Make[*ndarray.Array](c, len(s.Items))
	for i, v := range s.Items {
		a, ok := v.(*ndarray.Array)
		if !ok {
			kit.Failf("member %d is no tensor", i)
		}
		if stack {
			k := kit.Try(ops.NormAxis(axis, a.Rank()+1))
			a = a.Reshaped(slices.Insert(slices.Clone(a.Shape), k, 1)...)
		}
		parts[i] = a
	}
	kit.ConcatArrays(c, parts, axis)
}
