package all_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	_ "github.com/berth-onnx/berth/ops/all"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// TestSchemaRefuses lists values that kernels take for granted that they do not get:
// import and inference refuse them by the schema.
func TestSchemaRefuses(t *testing.T) {
	for _, c := range []struct {
		domain, op string
		attr       ssa.Attr
	}{
		{"", "Attention", ssa.IntAttr("qk_matmul_output_mode", 4)},
		{"", "Conv", ssa.IntAttr("group", 0)},
		{"", "Conv", ssa.IntsAttr("strides", 1, 0)},
		{"", "Conv", ssa.StringAttr("auto_pad", "SAME")},
		{"", "ConvTranspose", ssa.IntsAttr("output_padding", -1)},
		{"", "DeformConv", ssa.IntAttr("offset_group", 0)},
		{"", "DequantizeLinear", ssa.IntAttr("block_size", -1)},
		{"", "GRU", ssa.StringAttr("direction", "sideways")},
		{"", "GroupNormalization", ssa.IntAttr("num_groups", 0)},
		{"", "ImageDecoder", ssa.StringAttr("pixel_format", "CMYK")},
		{"", "LRN", ssa.IntAttr("size", 0)},
		{"", "LinearAttention", ssa.IntAttr("kv_num_heads", 0)},
		{"", "LinearAttention", ssa.StringAttr("update_rule", "other")},
		{"", "LpNormalization", ssa.IntAttr("p", 3)},
		{"", "LpPool", ssa.IntAttr("p", 0)},
		{"", "MaxPool", ssa.IntAttr("storage_order", 2)},
		{"", "MaxUnpool", ssa.IntsAttr("kernel_shape", 0)},
		{"", "NegativeLogLikelihoodLoss", ssa.StringAttr("reduction", "max")},
		{"", "StringNormalizer", ssa.StringAttr("case_change_action", "TITLE")},
		{"", "TfIdfVectorizer", ssa.IntsAttr("ngram_indexes", -1)},
		{"ai.onnx.ml", "CastMap", ssa.StringAttr("map_form", "ROUND")},
		{"ai.onnx.ml", "FeatureVectorizer", ssa.IntsAttr("inputdimensions", -1)},
		{"ai.onnx.ml", "LinearRegressor", ssa.IntAttr("targets", 0)},
		{"ai.onnx.ml", "Normalizer", ssa.StringAttr("norm", "L3")},
		{"ai.onnx.ml", "SVMClassifier", ssa.IntsAttr("vectors_per_class", -1)},
		{"ai.onnx.ml", "SVMRegressor", ssa.StringAttr("kernel_type", "CUBIC")},
		{"ai.onnx.ml", "SVMRegressor", ssa.StringAttr("post_transform", "OTHER")},
		{"ai.onnx.ml", "TreeEnsemble", ssa.IntAttr("n_targets", 1<<40)},
		{"com.microsoft", "CausalConvWithState", ssa.IntAttr("dilation", 0)},
		{"com.microsoft", "CausalConvWithState", ssa.IntAttr("state_window", 9)},
		{"com.microsoft", "CropAndResize", ssa.StringAttr("mode", "cubic")},
		{"com.microsoft", "GatedRMSNorm", ssa.StringAttr("activation", "relu")},
		{"com.microsoft", "GroupNorm", ssa.IntAttr("activation", 2)},
		{"com.microsoft", "GroupQueryAttention", ssa.IntAttr("kv_num_heads", 0)},
		{"com.microsoft", "HyperConnectionPreMix", ssa.IntAttr("num_branches", -1)},
		{"com.microsoft", "MRotaryEmbedding", ssa.IntAttr("mrope_layout", 2)},
		{"com.microsoft", "MatMulBnb4", ssa.IntAttr("quant_type", 2)},
		{"com.microsoft", "MatMulNBits", ssa.IntAttr("N", 0)},
		{"com.microsoft", "MoE", ssa.IntAttr("k", 0)},
		{"com.microsoft", "MoE", ssa.StringAttr("activation_type", "tanh")},
		{"com.microsoft", "MultiHeadAttention", ssa.IntAttr("num_heads", 0)},
		{"com.microsoft", "NGramHashMapping", ssa.IntAttr("max_ngram_size", 1)},
		{"com.microsoft", "SparseAttention", ssa.IntAttr("sparse_block_size", 0)},
		{"com.microsoft", "Tokenizer", ssa.IntAttr("mincharnum", 0)},
		{"com.microsoft", "UnfoldTensor", ssa.IntAttr("step", 0)},
	} {
		t.Run(c.op+" "+c.attr.Name, func(t *testing.T) {
			o := ops.Lookup(c.domain, c.op)
			require.NotNil(t, o)
			var refused *ops.AttrError
			require.True(t, errors.As(o.CheckAttr(&c.attr, 0), &refused))
		})
	}
}
