package ops

const modulePath = "github.com/berth-onnx/berth/"

// walled names the package of every operator that ops/standard does not link: few
// models hold them, and they bring much code along. A test compares it with the
// tables of those packages.
var walled = map[string][]Key{
	"ops/image": {{"", "ImageDecoder"}},
	"ops/signal": {
		{"", "BlackmanWindow"},
		{"", "DFT"},
		{"", "HammingWindow"},
		{"", "HannWindow"},
		{"", "MelWeightMatrix"},
		{"", "STFT"},
	},
	"ops/text": {{"", "RegexFullMatch"}, {"", "StringNormalizer"}},
	"ops/training": {
		{"ai.onnx.preview.training", "Adagrad"},
		{"ai.onnx.preview.training", "Adam"},
		{"ai.onnx.preview.training", "Gradient"},
		{"ai.onnx.preview.training", "Momentum"},
	},
	"ops/rare": {
		{"", "Affine"},
		{"", "AffineGrid"},
		{"", "CausalConvWithState"},
		{"", "Col2Im"},
		{"", "Crop"},
		{"", "DeformConv"},
		{"", "DynamicSlice"},
		{"", "ImageScaler"},
		{"", "LinearAttention"},
		{"", "MaxRoiPool"},
		{"", "ParametricSoftplus"},
		{"", "Scale"},
		{"", "ScaledTanh"},
		{"ai.onnx.ml", "CastMap"},
		{"ai.onnx.ml", "DictVectorizer"},
		{"ai.onnx.ml", "FeatureVectorizer"},
		{"ai.onnx.ml", "SVMClassifier"},
		{"ai.onnx.ml", "SVMRegressor"},
		{"ai.onnx.preview", "FlexAttention"},
		{"com.microsoft", "BiasAdd"},
		{"com.microsoft", "BiasSoftmax"},
		{"com.microsoft", "BiasSplitGelu"},
		{"com.microsoft", "BifurcationDetector"},
		{"com.microsoft", "BranchwiseRMSNorm"},
		{"com.microsoft", "CDist"},
		{"com.microsoft", "CausalConvWithState"},
		{"com.microsoft", "ConvTransposeWithDynamicPads"},
		{"com.microsoft", "CropAndResize"},
		{"com.microsoft", "DecoderMaskedMultiHeadAttention"},
		{"com.microsoft", "DynamicTimeWarping"},
		{"com.microsoft", "EngramGate"},
		{"com.microsoft", "GatedAdd"},
		{"com.microsoft", "GatedRMSNorm"},
		{"com.microsoft", "GemmFastGelu"},
		{"com.microsoft", "GroupNorm"},
		{"com.microsoft", "HyperConnectionPostMix"},
		{"com.microsoft", "HyperConnectionPreMix"},
		{"com.microsoft", "Inverse"},
		{"com.microsoft", "LinearAttention"},
		{"com.microsoft", "LinearAttentionGate"},
		{"com.microsoft", "MRotaryEmbedding"},
		{"com.microsoft", "MatMulBnb4"},
		{"com.microsoft", "MoE"},
		{"com.microsoft", "MulInteger"},
		{"com.microsoft", "MurmurHash3"},
		{"com.microsoft", "NGramHashMapping"},
		{"com.microsoft", "NGramRepeatBlock"},
		{"com.microsoft", "QEmbedLayerNormalization"},
		{"com.microsoft", "QLinearReduceMean"},
		{"com.microsoft", "QLinearWhere"},
		{"com.microsoft", "QMoE"},
		{"com.microsoft", "ReduceSumInteger"},
		{"com.microsoft", "SampleOp"},
		{"com.microsoft", "ScaledSiLU"},
		{"com.microsoft", "SkipGroupNorm"},
		{"com.microsoft", "SparseAttention"},
		{"com.microsoft", "Tokenizer"},
		{"com.microsoft", "UnfoldTensor"},
		{"com.microsoft", "Unique"},
		{"com.microsoft", "VarlenNGramHashMapping"},
		{"com.microsoft", "WordConvEmbedding"},
	},
}

// PackageFor returns the import path of the package that brings an operator which
// ops/standard does not link, "" if there is none.
func PackageFor(domain, name string) string {
	for dir, keys := range walled {
		for _, k := range keys {
			if k == (Key{domain, name}) {
				return modulePath + dir
			}
		}
	}
	return ""
}
