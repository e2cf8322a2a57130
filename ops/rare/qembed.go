package rare

import (
	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// QEmbedLayerNormalization is EmbedLayerNormalization over quantized tables: the
// scales are operands 8 to 12, the zero points 13 to 17, in the order word,
// position, segment, gamma, beta.
var QEmbedLayerNormalization = ops.Op{
	Domain: contrib.Microsoft, Name: "QEmbedLayerNormalization", Since: 1, Doc: "output = LayerNormalization(word[ids] + position + segment[ids]), tables quantized",
	MinIn: 1, MaxIn: 18, MinOut: 1, MaxOut: 2,
	Attrs: []*ops.AttrSpec{ops.FloatAttr("epsilon", 1e-12)},
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		ids := ops.InType(n, 0)
		y := ssa.TensorOf(ops.InType(n, 8).DType, kit.DimOf(ids, 0), kit.DimOf(ids, 1), kit.DimOf(ops.InType(n, 2), 1))
		return []ops.Inferred{{Type: y}, {Type: ssa.TensorOf(ids.DType, kit.DimOf(ids, 0))}}
	}),
	Eval: kit.Kernel(contrib.EvalQEmbedNorm),
}
