package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// QEmbedLayerNormalization is EmbedLayerNormalization over quantized tables: the
// scales are operands 8 to 12, the zero points 13 to 17, in the order word,
// position, segment, gamma, beta.
var QEmbedLayerNormalization = Op{
	Domain: microsoft, Name: "QEmbedLayerNormalization", Since: 1, Doc: "output = LayerNormalization(word[ids] + position + segment[ids]), tables quantized",
	MinIn: 1, MaxIn: 18, MinOut: 1, MaxOut: 2,
	Attrs: []AttrSpec{floatAttr("epsilon", 1e-12)},
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred {
		ids := InType(n, 0)
		y := ssa.TensorOf(InType(n, 8).DType, dimOf(ids, 0), dimOf(ids, 1), dimOf(InType(n, 2), 1))
		return []Inferred{{Type: y}, {Type: ssa.TensorOf(ids.DType, dimOf(ids, 0))}}
	}),
	Eval: kernel(evalQEmbedNorm),
}

// evalQEmbedNorm dequantizes the tables and leaves the rest to
// EmbedLayerNormalization, whose first eight operands are the same.
func evalQEmbedNorm(c *Call) {
	inner := *c
	inner.In = make([]ndarray.Value, 8)
	copy(inner.In, c.In)
	for i := range 5 {
		a := c.Array(2 + i)
		if a == nil {
			continue
		}
		if !byteInts.has(a.DType) {
			check(unsupportedType(a.DType))
		}
		p := qparamOf(c, 8+i, 13+i, a.DType)
		inner.In[2+i] = ndarray.Of(p.real(a), a.Shape...)
	}
	if c.Has(1) != c.Has(4) {
		failf("segment_ids and segment_embedding come together")
	}
	evalEmbedNorm(&inner)
	c.Out = inner.Out
}

// BiasSoftmax is the softmax of data + bias over the dimensions from axis on, of
// the com.microsoft domain. The bias broadcasts; is_inner_broadcast only says
// along which dimensions.
var BiasSoftmax = Op{
	Domain: microsoft, Name: "BiasSoftmax", Since: 1, Doc: "output = softmax(data + bias) over the dimensions from axis on",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("axis", 1), intAttr("is_inner_broadcast").required()},
	Infer: SameAs, Facts: Facts{Traits: general, InPlace: inPlaceFirst},
	Eval: floatKernel(evalBiasSoftmax[float32], evalBiasSoftmax[float64]),
}

func evalBiasSoftmax[T float32 | float64](c *Call) {
	x := tensor(c, 0)
	axis := try(NormAxis(Int(c.Node, "axis"), x.Rank()))
	bias := spread[T]("bias", tensor(c, 1), x.Shape)
	y := newResult[T](c, 0, x.DType, x.Shape...)
	copy(y.V, elements[T](x))
	scaleShift(y.V, nil, bias)
	softmaxRows(y.V, sizeOf(x.Shape[axis:]))
	y.store()
}

// MSGridSample is GridSample with the old names of its modes, of the
// com.microsoft domain.
var MSGridSample = Op{
	Domain: microsoft, Name: "GridSample", Since: 1, Doc: GridSample.Doc,
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("align_corners", 0), strAttr("mode", "bilinear", "nearest", "bicubic"),
		strAttr("padding_mode", "zeros", "border", "reflection")},
	Facts: Facts{Traits: general, Cost: gridSampleCost}, Infer: rule(inferGridSample), Eval: kernel(evalGridSample),
}
