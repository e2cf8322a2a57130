package rare

import "github.com/berth-onnx/berth/ops"

// Ops are the operators of this package, one line each.
var Ops = []*ops.Op{
	&Inverse,
	&GatedAdd,
	&ScaledSiLU,
	&HyperConnectionPreMix,
	&HyperConnectionPostMix,
	&GatedRMSNorm,
	&BranchwiseRMSNorm,
	&EngramGate,
	&LinearAttentionGate,
	&NGramRepeatBlock,
	&NGramHashMapping,
	&VarlenNGramHashMapping,
	&BifurcationDetector,
	&MurmurHash3,
	&CropAndResize,
	&ConvTransposeWithDynamicPads,
	&UnfoldTensor,
	&SampleOp,
	&DynamicTimeWarping,
	&WordConvEmbedding,
	&Tokenizer,
	&MoE,
	&QMoE,
	&CDist,
	&MSLinearAttention,
	&MSCausalConvWithState,
	&MRotaryEmbedding,
}

func init() { ops.Register(Ops...) }
