package rare

import (
	"github.com/berth-onnx/berth/internal/ops/contrib"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// DecoderMaskedMultiHeadAttention is MultiHeadAttention of one query per sequence,
// of the com.microsoft domain.
//
// Self-attention: K and V are [B,1,N*H] and join a past, which is as long as the cache
// can get (past_present_share_buffer); past_sequence_length says how much of it is
// filled. With beams, sequence i*width+j takes position t of its past from sequence
// i*width+cache_indirection[i,j,t]:
//
//	past [B,N,M,H] filled to p    present = past with K at p    keys = positions 0 … p
//
// Cross-attention: K and V are [B,N,L,H]. Result 3 is the scores before the softmax.
var DecoderMaskedMultiHeadAttention = ops.Op{
	Domain: contrib.Microsoft, Name: "DecoderMaskedMultiHeadAttention", Since: 1, Doc: "output = softmax(scale * q·Kᵀ + mask) · V for one query per sequence",
	MinIn: 1, MaxIn: 11, MinOut: 1, MaxOut: 4,
	Attrs: []*ops.AttrSpec{ops.FloatAttr("mask_filter_value", -10000), ops.IntAttr("num_heads").Mandatory().AtLeast(1),
		ops.IntAttr("output_qk"), ops.IntAttr("past_present_share_buffer"), ops.FloatAttr("scale")},
	Infer: kit.Rule(contrib.InferDecoderMasked), Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.CachedCost(1)}, Eval: kit.FloatKernel(contrib.EvalDecoderMasked, nil),
}
