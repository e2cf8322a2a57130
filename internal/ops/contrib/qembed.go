package contrib

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/vision"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// QEmbedLayerNormalization is EmbedLayerNormalization over quantized tables: the
// scales are operands 8 to 12, the zero points 13 to 17, in the order word,
// position, segment, gamma, beta.
func QEmbedLayerNormalization() ops.Op {
	return ops.Op{
		Domain: Microsoft, Name: "QEmbedLayerNormalization", Since: 1, Doc: "output = LayerNormalization(word[ids] + position + segment[ids]), tables quantized",
		MinIn: 1, MaxIn: 18, MinOut: 1, MaxOut: 2,
		Attrs: []*ops.AttrSpec{ops.FloatAttr("epsilon", 1e-12)},
		Facts: ops.Facts{Traits: ops.GeneralTraits, Whole: true}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
			ids := ops.InType(n, 0)
			y := ssa.TensorOf(ops.InType(n, 8).DType, kit.DimOf(ids, 0), kit.DimOf(ids, 1), kit.DimOf(ops.InType(n, 2), 1))
			return []ops.Inferred{{Type: y}, {Type: ssa.TensorOf(ids.DType, kit.DimOf(ids, 0))}}
		}),
		Eval: kit.Kernel(evalQEmbedNorm),
	}
}

// evalQEmbedNorm dequantizes the tables and leaves the rest to
// EmbedLayerNormalization, whose first eight operands are the same.
func evalQEmbedNorm(c *ops.Call) {
	inner := *c
	inner.In = make([]ndarray.Value, 8)
	copy(inner.In, c.In)
	for i := range 5 {
		a := c.Array(2 + i)
		if a == nil {
			continue
		}
		if !kit.ByteInts.Has(a.DType) {
			kit.Check(kit.UnsupportedType(a.DType))
		}
		inner.In[2+i] = ndarray.Of(quantParamsOf(c, 8+i, 13+i, a.DType).real(c, a), a.Shape...)
	}
	if c.Has(1) != c.Has(4) {
		kit.Failf("segment_ids and segment_embedding come together")
	}
	evalEmbedNorm(&inner)
	c.Out = inner.Out
}

// MSGridSample is GridSample with the old names of its modes, of the
// com.microsoft domain.
var MSGridSample = ops.Op{
	Domain: Microsoft, Name: "GridSample", Since: 1, Doc: vision.GridSample.Doc,
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("align_corners", 0), ops.StrAttr("mode", "bilinear", "nearest", "bicubic"),
		ops.StrAttr("padding_mode", "zeros", "border", "reflection")},
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: vision.GridSampleCost}, Infer: kit.Rule(vision.InferGridSample), Eval: kit.Kernel(vision.EvalGridSample),
}
