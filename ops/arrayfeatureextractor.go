package ops

import (
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// ArrayFeatureExtractor picks columns: https://onnx.ai/onnx/operators/onnx_aionnxml_ArrayFeatureExtractor.html
//
// A vector counts as a single row, so the result has at least two dimensions.
var ArrayFeatureExtractor = Op{
	Domain: mlDomain, Name: "ArrayFeatureExtractor", Since: 1, Doc: "Z[…, i] = X[…, Y[i]]",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred {
		t := InType(n, 0)
		picks := InType(n, 1).NumElems()
		switch t.Rank() {
		case -1:
			return One(ssa.UnrankedTensor(t.DType))
		case 0:
			failf("operand 0 is a scalar")
		case 1:
			return One(ssa.TensorOf(t.DType, ssa.D(1), picks))
		}
		return One(ssa.TensorOf(t.DType, append(slices.Clone(t.Shape[:len(t.Shape)-1]), picks)...))
	}),
	Eval: kernel(func(c *Call) {
		a := tensor(c, 0)
		y := tensor(c, 1)
		if a.Rank() == 0 {
			failf("operand 0 is a scalar")
		}
		if a.Rank() == 1 {
			a = a.Reshaped(1, a.Shape[0])
		}
		axis := a.Rank() - 1
		picks := wrapIndices(y, a.Shape[axis])
		out := result(c, 0, a.DType, append(slices.Clone(a.Shape[:axis]), len(picks))...)
		takeAlong(out, a, axis, picks)
	}),
}
