package ml

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// ArrayFeatureExtractor picks columns: https://onnx.ai/onnx/operators/onnx_aionnxml_ArrayFeatureExtractor.html
//
// A vector counts as a single row, so the result has at least two dimensions.
var ArrayFeatureExtractor = ops.Op{
	Domain: mlDomain, Name: "ArrayFeatureExtractor", Since: 1, Doc: "Z[…, i] = X[…, Y[i]]",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		t := ops.InType(n, 0)
		picks := ops.InType(n, 1).NumElems()
		switch t.Rank() {
		case -1:
			return ops.One(ssa.UnrankedTensor(t.DType))
		case 0:
			kit.Failf("operand 0 is a scalar")
		case 1:
			return ops.One(ssa.TensorOf(t.DType, ssa.D(1), picks))
		}
		return ops.One(ssa.TensorOf(t.DType, append(slices.Clone(t.Shape[:len(t.Shape)-1]), picks)...))
	}),
	Eval: kit.Kernel(func(c *ops.Call) {
		a, y := kit.Tensor(c, 0), kit.Tensor(c, 1)
		if a.Rank() == 0 {
			kit.Failf("operand 0 is a scalar")
		}
		if a.Rank() == 1 {
			a = a.Reshaped(1, a.Shape[0])
		}
		axis := a.Rank() - 1
		picks := kit.WrapIndices(c, y, a.Shape[axis])
		out := kit.Result(c, 0, a.DType, append(slices.Clone(a.Shape[:axis]), len(picks))...)
		kit.TakeAlong(c, out, a, axis, picks)
	}),
}
