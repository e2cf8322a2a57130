package backward

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/linalg"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Accumulate is Gemm with a C of all elements that the result may lie over: a moment takes the derivative of a weight where it is.
//
//	Y = alpha · A' · B' + beta · C
var Accumulate = ops.Op{
	Domain: ops.Private, Name: "Accumulate", Since: 1, Doc: "Y = alpha·A'·B' + beta·C, over C",
	MinIn: 3, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.FloatAttr("alpha", 1), ops.FloatAttr("beta", 1), ops.IntAttr("transA", 0), ops.IntAttr("transB", 0)},
	Infer: kit.Rule(linalg.InferGemm),
	Eval:  kit.FloatKernel(accumulate[float32], accumulate[float64]),
	Facts: ops.Facts{Traits: ops.IgnoringTraits.But(ops.FailsNever), Cost: kit.GemmCost, InPlace: func(n *ssa.Node) []ops.Pair {
		if !ops.SameLayout(n.In[2].Type, n.Out[0].Type) {
			return nil
		}
		return []ops.Pair{{In: 2, Out: 0}}
	}},
}

// accumulate adds C as it was, since the product is written first.
func accumulate[T float32 | float64](c *ops.Call) {
	call := *c
	call.In = slices.Clone(c.In)
	call.In[2] = kit.Beside(c, 0, 2)
	linalg.AddProduct[T](&call).Store()
}
