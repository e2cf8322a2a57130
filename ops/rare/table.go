package rare

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/experimental"
	"github.com/berth-onnx/berth/ops"
)

// Ops are the operators that this package links: its own, and those that the default domain has dropped.
var Ops = slices.Concat(own, experimental.Ops)

// own are the operators of this package, one line each.
var own = []*ops.Op{
	&AffineGrid,
	&DeformConv,
	&FeatureVectorizer,
	&CastMap,
	&DictVectorizer,
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
	&MSGroupNorm,
	&SkipGroupNorm,
	&BiasAdd,
	&BiasSplitGelu,
	&BiasSoftmax,
	&MSUnique,
	&MaxRoiPool,
	&DecoderMaskedMultiHeadAttention,
	&FlexAttention,
	&LinearAttention,
	&CausalConvWithState,
	&SparseAttention,
	&QEmbedLayerNormalization,
	&ReduceSumInteger,
	&QLinearReduceMean,
	&QLinearWhere,
	&Col2Im,
	&GemmFastGelu,
	&MulInteger,
	&MatMulBnb4,
	&SVMClassifier,
	&SVMRegressor,
}

func init() { ops.Register(own...) }
