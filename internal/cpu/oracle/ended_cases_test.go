//go:build linux

package oracle

import (
	"strings"
	"testing"
)

// largeNodes are the nodes of [TestEveryKernelEnds]; a line "A B | {}(…)" is one node for each name.
func largeNodes(t *testing.T) (out []string) {
	for _, line := range strings.Split(strings.TrimSpace(large), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "//") {
			continue
		}
		names, form, ok := strings.Cut(line, " | ")
		if !ok {
			out = append(out, line)
			continue
		}
		for _, name := range strings.Fields(names) {
			out = append(out, strings.ReplaceAll(form, "{}", name))
		}
	}
	return out
}

// smallWork says why an operator needs no large node.
var smallWork = map[string]string{
	"Constant":                          "its result is an attribute, which is read when the node is prepared",
	"If":                                "runs bodies, whose nodes are looked at one by one",
	"Loop":                              "runs bodies, see TestEverythingEnds",
	"Scan":                              "runs bodies, whose nodes are looked at one by one",
	"SequenceMap":                       "runs bodies, whose nodes are looked at one by one",
	"Shape":                             "gives the dimensions",
	"Size":                              "gives one number",
	"OptionalHasElement":                "gives one truth value",
	"SequenceLength":                    "gives one number",
	"SequenceEmpty":                     "gives an empty sequence",
	"SequenceConstruct":                 "as many elements as operands, which are passed on",
	"Optional":                          "passes its operand on",
	"OptionalGetElement":                "copies as GiveOut does, see SequenceAt",
	"ImageDecoder":                      "decodes streams: the reader and the decoders look",
	"ai.onnx.ml.CastMap":                "maps hold as many entries as a caller has made",
	"ai.onnx.ml.DictVectorizer":         "maps hold as many entries as a caller has made",
	"ai.onnx.ml.TreeEnsemble":           "the kernel of TreeEnsembleRegressor",
	"ai.onnx.preview.training.Gradient": "interprets a graph, whose nodes are looked at one by one",
}

const large = `
Abs Acos Acosh Affine Asin Asinh Atan Atanh Ceil Celu Clip Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish LeakyRelu Log Mish Neg ParametricSoftplus Reciprocal Relu Round ScaledTanh Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu Identity Dropout IsNaN IsInf | {}(float16[N])
ImageScaler(float32[1,1,N,4]) bias=[0.5]
Abs Relu Exp Clip | {}(float32[N])
Abs Neg Sign BitwiseNot Clip | {}(int8[N])
com.microsoft.Gelu com.microsoft.QuickGelu com.microsoft.ScaledSiLU com.microsoft.SampleOp | {}(float16[N])
com.microsoft.FastGelu com.microsoft.BiasGelu | {}(float16[N,64], float16[64])
com.microsoft.BiasSplitGelu(float16[1,N,64], float16[64])
Not(bool[N])
Add Sub Mul Div Pow Mod Max Min Mean Sum PRelu SwiGLU | {}(float16[64,N], float16[64,N])
Mod | {}(float32[64,N], float32[64,N]) fmod=1
Add Mul Mod Max | {}(int8[64,N], int8[N])
Add | {}(float32[64,N], float32[64,1])
BitwiseAnd BitwiseOr BitwiseXor | {}(int8[N], int8[N])
BitShift(uint8[N], uint8[N]) direction=LEFT
And Or Xor | {}(bool[N], bool[N])
Equal Greater GreaterOrEqual Less LessOrEqual | {}(float16[N], float16[N])
Equal(string[N], string[N])
Where(bool[N], float16[N], float16[N])
Where(bool[64,N], float32[N], float32[64,1])
Cast(float32[N]) to=10
Cast(float16[N]) to=17
Cast(uint8[N]) to=1
Cast(float32[N]) to=8
Cast(string[N]) to=8
CastLike(float32[N], float16[1])
BitCast(int8[N]) to=2
BitCast(float32[N]) to=6
Flatten(float32[N,8])
Reshape(float16[N,8], int64=8,N)
Squeeze(float16[1,N], int64=0)
Unsqueeze(float16[N], int64=0)
com.microsoft.ExpandDims(float16[N], int64:0)
ArgMax ArgMin | {}(float16[N,16]) axis=0
ArgMax(float16[1,N]) axis=1
CumSum CumProd | {}(float16[N], int64:0)
CumSum(float32[N,16], int64:0)
Hardmax Softmax LogSoftmax | {}(float16[N,16])
Hardmax | {}(float32[1,N])
ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare | {}(float16[N,64], int64=0)
ReduceL1 ReduceLogSumExp ReduceMax ReduceSum | {}(float32[64,N], int64=1)
ReduceSum ReduceMean | {}(float32[N], int64=0)
2= TopK(float32[N], int64=10)
2= TopK(float32[N,16], int64=3) axis=0
2= TopK(float16[64,N], int64=N) sorted=0
MatMul(float32[N,N], float32[N,N])
MatMul(float16[N,N], float16[N,N])
MatMul(float32[1,N], float32[N,1000])
MatMul(int32[N,N], int32[N,N])
Gemm(float32[N,N], float32[N,N], float32[N])
Gemm(float16[N,N], float16[N,N]) transA=1 transB=1
Gemm(float32[N,N], float32[N,N]) transA=1 alpha=0.5
Einsum(float32[N,N], float32[N,N]) equation=ij,kj->ik
Einsum(float32[N,N]) equation=ij->ji
Det com.microsoft.Inverse | {}(float32[N,N]!)
DFT(float32[1,N,1], _, int64:1)
DFT(float32[1,N,2], _, int64:1) inverse=1
DFT(float32[N,64,1], _, int64:1) onesided=1
DFT(float32[1,N,1], int64:5003, int64:1)
STFT(float32[1,8N,1], int64:64, float32[256])
STFT(float32[1,8N,1], int64:64, _, int64:256) onesided=0
BlackmanWindow HammingWindow HannWindow | {}(int64:N)
MelWeightMatrix(int64:64, int64:N, int64:16000, float32:0.0, float32:8000.0)
ConstantOfShape(int64=N)
EyeLike(float16[N,N])
RandomNormal RandomUniform | {}() shape=[N]
RandomNormalLike RandomUniformLike Bernoulli | {}(float16[N])
Multinomial(float32[4,N]) sample_size=10000
Multinomial(float32[1,16]) sample_size=N
Range(float32:0.0, float32:N, float32:1.0)
Range com.microsoft.Range | {}(int64:0, int64:N, int64:1)
CenterCropPad(float32[64,N], int64=32,2N)
Col2Im(float32[1,9,N], int64=3,2N, int64=3,3) pads=[1,1,1,1] strides=[6,2]
Compress(float16[N], bool[N])
Compress(float16[64,N], bool[64]) axis=0
Concat(float16[64,N], float16[64,N]) axis=1
Concat(int8[N], int8[N]) axis=0
ConcatFromSequence(seq float32[64]*N) axis=0
ConcatFromSequence(seq float32[1000]*N) axis=0 new_axis=1
Crop(float32[1,16,N,64]) border=[1,1,1,1]
DepthToSpace SpaceToDepth | {}(float16[1,16,N,64]) blocksize=2
DepthToSpace(float32[1,16,N,64]) blocksize=2
Expand(float16[N], int64=16,N)
Expand(float32[N,1], int64=N,16)
Gather(float16[1000,4], int64[N]<1000)
Gather(float32[4,1000], int32[N]<1000) axis=1
GatherElements(float16[1000,4], int64[N,4]<1000)
GatherND com.microsoft.GatherND | {}(float16[100,100,4], int64[N,2]<100)
NonZero(float16[N])
NonZero(float32[N,4])
OneHot(int64[N]<16, int64:16, float32[2])
Pad com.microsoft.Pad | {}(float16[N,8], int64=1,1,1,1)
Pad(float16[N,8], int64=1,1,1,1) mode=reflect
Pad(float32[N], int64=4N,4N)
ReverseSequence(float16[16,N,4], int64[N]<16)
Scatter ScatterElements | {}(float16[1000,4], int64[N,4]<1000, float16[N,4])
ScatterElements(float16[N], int64[N]<N, float16[N]) reduction=add
ScatterND(float16[1000,4], int64[N,1]<1000, float16[N,4])
ScatterND(float32[N], int64[N,1]<N, float32[N]) reduction=max
Slice(float16[N,8], int64=0,1, int64=N,5, int64=0,1)
Slice(float16[N], int64=-1, int64=-1000000000000, int64=0, int64=-1)
DynamicSlice(float16[N,8], int64=0,1, int64=N,5, int64=0,1)
2= Split(float16[64,N]) axis=1 num_outputs=2
TensorScatter(float16[1,2,N,64], float16[1,2,N,64])
Tile(float16[64,N], int64=4,4)
Transpose(float16[N,64])
Transpose(float32[N,64])
Transpose(float16[64,N,4]) perm=[1,0,2]
Trilu com.microsoft.Trilu | {}(float16[N,N])
4= Unique(float16[N])
4= Unique(int64[N]<N) sorted=0
3= com.microsoft.Unique(int32[N]<N)
SequenceAt(seq float16[N]*1, int64:0)
SequenceErase(seq float32[1]*N)
SequenceInsert(seq float32[1]*N, float32[1])
SplitToSequence(float16[N,64])
SplitToSequence(float16[64,N]) axis=1
StringConcat(string[N], string[N])
2= StringSplit(string[N])
StringNormalizer(string[N]) case_change_action=LOWER stopwords=['a','b']
RegexFullMatch(string[N]) pattern=w.*d
TfIdfVectorizer(int64[N]<4) max_gram_length=2 max_skip_count=3 min_gram_length=1 mode=TF ngram_counts=[0,2] ngram_indexes=[0,1,2] pool_int64s=[0,1,0,1]
TfIdfVectorizer(int64[N,16]<4) max_gram_length=2 max_skip_count=3 min_gram_length=1 mode=TF ngram_counts=[0,2] ngram_indexes=[0,1,2] pool_int64s=[0,1,0,1]
com.microsoft.MurmurHash3(int32[N])
com.microsoft.NGramHashMapping(int64[1,N]<1000, int64=3,5, int64=101,103) max_ngram_size=2 n_head_per_ngram=2 pad_id=0
com.microsoft.VarlenNGramHashMapping(int64[N]<1000, int64=3,5, int64=101,103, int32=0,N) max_ngram_size=2 n_head_per_ngram=2 pad_id=0
com.microsoft.DecoderMaskedMultiHeadAttention(float32[1,1,128], float32[1,2,N,64], float32[1,2,N,64]) num_heads=2
3= com.microsoft.SparseAttention(float32[1,N,128], float32[1,N,128], float32[1,N,128], float32[1,2,N,64], float32[1,2,N,64], int32[1,2]<1, int32[1,1]<1, int32:N, int32=N) num_heads=2 kv_num_heads=2 sparse_block_size=N
com.microsoft.Tokenizer(string[N]) mark=1 pad_value=p mincharnum=1 tokenexp=w.r
com.microsoft.WordConvEmbedding(int32[N,16]<100, float32[32,1,3,8], float32[32], float32[100,8])
AffineGrid(float32[1,2,3], int64=1,1,64,N)
GridSample com.microsoft.GridSample | {}(float32[1,4,64,64], float32[1,N,16,2])
GridSample(float32[1,4,64,64], float32[1,N,16,2]) mode=cubic
GridSample(float16[1,4,64,64], float16[1,N,16,2]) mode=nearest
MaxRoiPool(float32[1,4,64,64], float32[N,5]) pooled_shape=[7,7]
RoiAlign(float32[1,4,64,64], float32[N,4], int64[N]<1) output_height=7 output_width=7 sampling_ratio=2
NonMaxSuppression(float32[1,N,4], float32[1,4,N], int64:N, float32:0.9)
Resize(float16[1,4,64,N], _, _, int64=1,4,128,2N) mode=linear
Resize(float32[1,4,64,N], _, _, int64=1,4,128,2N) mode=cubic
Resize(float32[1,4,64,N], _, _, int64=1,4,128,2N)
Resize(float32[N], _, _, int64=4N) mode=linear
com.microsoft.CropAndResize(float32[1,4,64,64], float32[N,4], int32[N]<1, int32=16,16)
com.microsoft.UnfoldTensor(float16[N]) dim=0 size=8 step=1
com.microsoft.DynamicTimeWarping(float32[N,N])
Conv(float32[1,16,N,64], float32[16,16,3,3])
Conv(float32[1,64,64,N], float32[64,64,3,3]) pads=[1,1,1,1]
Conv(float32[1,64,64,N], float32[64,1,3,3]) group=64
Conv(float16[1,16,N,64], float16[16,16,3,3])
Conv(float32[1,16,N], float32[16,16,3])
berth.internal.Conv(float32[1,16,N,64], float32[16,16,3,3], _, float32[1,16,N,64]) pads=[1,1,1,1] program=Add,Relu
berth.internal.Conv(float32[1,64,N,64], float32[64,1,3,3]) group=64 program=Sigmoid
berth.internal.Conv(float16[1,16,N,64], float16[16,16,3,3]) program=Tanh
berth.internal.ConvTranspose(float32[1,16,N,64], float32[16,16,2,2]) strides=[2,2] program=Relu
berth.internal.MatMul(float32[N,N], float32[N,N], float32[N,N]) program=Add,Relu
berth.internal.MatMul(float32[N,64], float32[64,64]) program=Tanh
berth.internal.Gemm(float32[N,N], float32[N,N], float32[N], float32[N,N]) program=Add,Relu
berth.internal.Gemm(float32[N,64], float32[64,64], _) program=Erf
berth.internal.Attention(float32[2,N,64], float32[2,N,64], float32[2,N,64]) form=rows
berth.internal.Attention(float32[2,N,64], float32[2,N,64], float32[2,N,64], float32[N,N]) form=rows
berth.internal.Attention(float32[2,1,64], float32[2,N,64], float32[2,N,64]) form=rows
berth.internal.BatchNormalization(float32[1,16,N], float32[16], float32[16], float32[16], float32[16], float32[1,16,N]) program=Add,Relu
berth.internal.BatchNormalization(float16[1,16,N], float16[16], float16[16], float16[16], float16[16]) program=Tanh
berth.internal.ConvWeights(float32[1,16,N,64], float32[1,16,N,64]) kernel_shape=[3,3] strides=[1,1] dilations=[1,1] pads=[1,1,1,1]
berth.internal.MaxPoolGradient(float32[1,16,N,64], float32[1,16,N,32]) kernel_shape=[1,2] strides=[1,2] dilations=[1,1] pads=[0,0,0,0]
berth.internal.Accumulate(float32[N,N], float32[N,N], float32[N,N])
berth.internal.Fused | {}(float32[64,N], float32[64,N]) program=Add,Tanh
berth.internal.Fused | {}(float16[N]) program=Exp
ConvTranspose(float32[1,16,N,16], float32[16,16,3,3]) strides=[2,2]
com.microsoft.ConvTransposeWithDynamicPads(float32[1,16,N,16], float32[16,16,3,3]) strides=[2,2]
com.microsoft.FusedConv(float32[1,16,N,64], float32[16,16,3,3]) activation=Relu
com.microsoft.NhwcConv(float32[1,N,64,16], float32[16,16,3,3])
com.microsoft.NhwcFusedConv(float32[1,N,64,16], float32[16,16,3,3]) activation=Relu
ConvInteger(uint8[1,16,N,64], uint8[16,16,3,3])
DeformConv(float32[1,4,66,N], float32[4,4,3,1], float32[1,6,64,N])
CausalConvWithState com.microsoft.CausalConvWithState | {}(float32[1,64,N], float32[64,1,4])
MaxPool AveragePool | {}(float32[1,16,N,64]) kernel_shape=[3,3]
MaxPool AveragePool | {}(float16[1,16,N,64]) kernel_shape=[3,3]
MaxPool AveragePool LpPool | {}(float32[1,1,N,N]) kernel_shape=[Nd2,Nd2]
AveragePool LpPool | {}(float64[1,1,N,N]) kernel_shape=[Nd2,Nd2]
MaxPool(uint8[1,1,N,N]) kernel_shape=[Nd2,Nd2]
2= MaxPool(float32[1,1,N,N]) kernel_shape=[Nd2,Nd2]
MaxPool AveragePool | {}(float32[1,1,4,4,N]) kernel_shape=[2,2,Nd2]
MaxPool(uint8[1,16,N,64]) kernel_shape=[3,3]
2= MaxPool(float32[1,16,N,64]) kernel_shape=[3,3]
LpPool(float32[1,16,N,64]) kernel_shape=[3,3]
com.microsoft.NhwcMaxPool(uint8[1,N,64,16]) kernel_shape=[3,3]
MaxUnpool(float32[1,1,N,64], int64[1,1,N,64]<64) kernel_shape=[2,2] strides=[2,2]
GlobalAveragePool GlobalMaxPool GlobalLpPool | {}(float16[1,1,N])
GlobalAveragePool GlobalMaxPool GlobalLpPool | {}(float32[1,16,N,4])
BatchNormalization(float16[1,16,N], float16[16], float16[16], float16[16], float16[16])
BatchNormalization(float32[1,16,N], float32[16], float32[16], float32[16], float32[16])
3= BatchNormalization(float32[1,16,N], float32[16], float32[16], float32[16], float32[16]) training_mode=1
InstanceNormalization(float16[1,16,N], float16[16], float16[16])
InstanceNormalization(float32[1,16,N], float32[16], float32[16])
GroupNormalization(float32[1,16,N], float32[16], float32[16]) num_groups=4
com.microsoft.GroupNorm(float32[1,N,4,16], float32[16], float32[16]) groups=4 activation=1
com.microsoft.SkipGroupNorm(float32[1,N,4,16], float32[16], float32[16], float32[1,N,4,16]) groups=4 activation=1
3= LayerNormalization(float16[N,64], float16[64], float16[64])
LayerNormalization(float32[1,N], float32[N], float32[N])
RMSNormalization(float16[N,64], float16[64])
RMSNormalization(float32[1,N], float32[N])
SimplifiedLayerNormalization com.microsoft.SimplifiedLayerNormalization | {}(float32[N,64], float32[64])
4= com.microsoft.SkipLayerNormalization(float16[1,N,64], float16[1,N,64], float16[64])
4= com.microsoft.SkipSimplifiedLayerNormalization(float32[1,N,64], float32[1,N,64], float32[64])
3= com.microsoft.EmbedLayerNormalization(int32[1,N]<100, int32[1,N]<2, float32[100,64], float32[N,64], float32[2,64], float32[64], float32[64], int32[1,N]<2)
2= com.microsoft.QEmbedLayerNormalization(int32[1,N]<100, int32[1,N]<2, uint8[100,64], uint8[N,64], uint8[2,64], uint8[64], uint8[64], int32[1,N]<2, float32:0.1, float32:0.1, float32:0.1, float32:0.1, float32:0.1, uint8:1, uint8:1, uint8:1, uint8:1, uint8:1)
MeanVarianceNormalization(float32[1,16,N,4])
LpNormalization(float16[N,64])
LpNormalization(float32[1,N])
LRN(float16[1,16,N]) size=3
LRN(float32[1,16,N,4]) size=3
LRN(float32[1,N,256]) size=N
2= LSTM(float32[N,4,64], float32[1,256,64], float32[1,256,64]) hidden_size=64
2= GRU(float32[N,4,64], float32[1,192,64], float32[1,192,64]) hidden_size=64
2= RNN(float32[N,4,64], float32[1,64,64], float32[1,64,64]) hidden_size=64
LSTM(float32[2,N,64], float32[1,256,64], float32[1,256,64]) hidden_size=64
2= com.microsoft.DynamicQuantizeLSTM(float32[N,4,64], uint8[1,64,256], uint8[1,64,256], _, _, _, _, _, float32[1], uint8[1], float32[1], uint8[1]) hidden_size=64
Attention(float32[1,1,512,512], float32[1,1,N,512], float32[1,1,N,64], float32=nan)
Attention(float32[1,N,128], float32[1,N,128], float32[1,N,128]) q_num_heads=2 kv_num_heads=2
Attention(float16[1,2,N,64], float16[1,2,N,64], float16[1,2,N,64]) is_causal=1
FlexAttention | ai.onnx.preview.{}(float32[1,2,N,64], float32[1,2,N,64], float32[1,2,N,64])
LinearAttention com.microsoft.LinearAttention | 2= {}(float32[1,N,128], float32[1,N,128], float32[1,N,128]) q_num_heads=2 kv_num_heads=2 update_rule=linear
RotaryEmbedding(float32[1,2,N,64], float32[1,N,32], float32[1,N,32])
com.microsoft.RotaryEmbedding(float32[1,2,N,64], int64[1,N]<100, float32[100,32], float32[100,32])
com.microsoft.MRotaryEmbedding(float32[1,2,N,64], int64[3,1,N]<100, float32[100,32], float32[100,32]) mrope_section=[16,8,8]
com.microsoft.Attention(float32[1,N,128], float32[128,384], float32[384]) num_heads=2
com.microsoft.MultiHeadAttention(float32[1,N,128], float32[1,N,128], float32[1,N,128]) num_heads=2
3= com.microsoft.GroupQueryAttention(float32[1,N,128], float32[1,N,128], float32[1,N,128], _, _, int32=N-1, int32:N) num_heads=2 kv_num_heads=2
com.microsoft.QAttention(uint8[1,N,128], uint8[128,384], float32[384], float32:0.1, float32:0.1, _, uint8:1, uint8:1) num_heads=2
com.microsoft.CDist(float32[N,64], float32[N,64])
com.microsoft.GatedAdd(float32[N,64], float32[N,64], float32[N,1])
com.microsoft.GatedRMSNorm(float32[N,64], float32[64], float32[N,64])
com.microsoft.BranchwiseRMSNorm(float32[N,64], float32[64]) num_branches=1
2= com.microsoft.EngramGate(float32[1,N,2,64], float32[1,N,2,64], float32[1,N,64], float32[2,64], float32[2,64], float32[2,64])
2= com.microsoft.LinearAttentionGate(float32[1,N,16], float32[16], float32[16], float32[1,N,16])
com.microsoft.HyperConnectionPreMix(float32[1,N,4,64], float32[1,N,4])
com.microsoft.HyperConnectionPostMix(float32[1,N,4,64], float32[1,N,64], float32[1,N,4], float32[1,N,4,4])
com.microsoft.BiasAdd(float32[1,N,64], float32[64], float32[1,N,64])
com.microsoft.BiasSoftmax(float32[N,64], float32[64]) axis=1 is_inner_broadcast=0
com.microsoft.FusedGemm(float32[N,N], float32[N,N]) activation=Relu
com.microsoft.GemmFastGelu(float32[N,N], float32[N,N])
com.microsoft.FusedMatMul com.microsoft.TransposeMatMul | {}(float32[N,N], float32[N,N]) transA=1
com.microsoft.FusedMatMulActivation(float32[N,N], float32[N,N]) activation=Relu
QuantizeLinear com.microsoft.QuantizeLinear | {}(float32[N], float32:0.1, uint8:1)
QuantizeLinear(float16[N,64], float16[64], uint8[64]) axis=1
DequantizeLinear com.microsoft.DequantizeLinear | {}(uint8[N], float32:0.1, uint8:1)
DequantizeLinear(int8[N,64], float16[64]) axis=1
3= DynamicQuantizeLinear(float32[N])
MatMulInteger(uint8[N,N], uint8[N,N])
com.microsoft.MatMulInteger16(int16[N,N], int16[N,N])
com.microsoft.MatMulIntegerToFloat(uint8[N,N], uint8[N,N], float32:0.1, float32:0.1)
com.microsoft.DynamicQuantizeMatMul(float32[N,N], uint8[N,N], float32:0.1)
QLinearMatMul(uint8[N,N], float32:0.1, uint8:1, uint8[N,N], float32:0.1, uint8:1, float32:0.1, uint8:1)
QLinearConv com.microsoft.QLinearConv | {}(uint8[1,16,N,64], float32:0.1, uint8:1, uint8[16,16,3,3], float32:0.1, uint8:1, float32:0.1, uint8:1)
com.microsoft.QGemm(uint8[N,N], float32:0.1, uint8:1, uint8[N,N], float32:0.1, uint8:1, _, float32:0.1, uint8:1)
com.microsoft.MulInteger(uint8[N], uint8:1, uint8[N], uint8:1)
com.microsoft.QLinearAdd com.microsoft.QLinearMul | {}(uint8[N], float32:0.1, uint8:1, uint8[N], float32:0.1, uint8:1, float32:0.1, uint8:1)
com.microsoft.QLinearAveragePool(uint8[1,16,N,16], float32:0.1, uint8:1, float32:0.1, uint8:1) kernel_shape=[3,3]
com.microsoft.QLinearGlobalAveragePool(uint8[1,16,N,16], float32:0.1, uint8:1, float32:0.1, uint8:1)
com.microsoft.QLinearConcat(float32:0.1, uint8:1, uint8[64,N], float32:0.1, uint8:1, uint8[64,N], float32:0.1, uint8:1) axis=1
com.microsoft.QLinearLeakyRelu com.microsoft.QLinearSigmoid | {}(uint8[N], float32:0.1, uint8:1, float32:0.1, uint8:1)
com.microsoft.QLinearSoftmax(uint8[64,N], float32:0.1, uint8:1, float32:0.1, uint8:1) axis=1 opset=13
com.microsoft.QLinearReduceMean(uint8[64,N], float32:0.1, uint8:1, float32:0.1, uint8:1) axes=[1] keepdims=1
com.microsoft.ReduceSumInteger(uint8[64,N]) axes=[1] keepdims=1
com.microsoft.QLinearWhere(bool[N], uint8[N], float32:0.1, uint8:1, uint8[N], float32:0.1, uint8:1, float32:0.1, uint8:1)
com.microsoft.MatMulNBits(float32[16,64], uint8[N,2,16], float32[N,2]) K=64 N=N bits=4 block_size=32
com.microsoft.MatMulNBits(float32[N,64], uint8[64,2,16], float32[64,2]) K=64 N=64 bits=4 block_size=32
com.microsoft.MatMulBnb4(float32[N,64], uint8[2048], float32[64]) K=64 N=64 block_size=64 quant_type=1
com.microsoft.GatherBlockQuantized(uint8[1000,32], int64[N]<1000, float32[1000,4]) bits=4 block_size=16 quantize_axis=1
com.microsoft.MoE(float32[N,64], float32[N,4], float32[4,128,64], _, float32[4,64,128]) k=2 activation_type=relu
com.microsoft.QMoE(float32[N,64], float32[N,4], uint8[4,128,32], float32[4,128], _, uint8[4,64,64], float32[4,64]) k=2 activation_type=relu expert_weight_bits=4
com.microsoft.NGramRepeatBlock(int64[64,N]<100, float32[64,100]) ngram_size=3
2= com.microsoft.BifurcationDetector(int64[N]<2, int64[N]<2, int64[1]<1)
SoftmaxCrossEntropyLoss(float32[N,16], int64[N]<16)
NegativeLogLikelihoodLoss(float32[N,16], int64[N]<16)
Upsample(float32[1,4,64,N], float32=1,1,2,2)
Scale(float32[N]) scale=2.0
2= ai.onnx.preview.training.Adagrad(float32:0.1, int64:1, float32[N], float32[N], float32[N]) norm_coefficient=0.1
3= ai.onnx.preview.training.Adam(float32:0.1, int64:1, float32[N], float32[N], float32[N], float32[N]) norm_coefficient=0.1
2= ai.onnx.preview.training.Momentum(float32:0.1, int64:1, float32[N], float32[N], float32[N]) alpha=0.1 beta=0.1 mode=standard norm_coefficient=0.1
ai.onnx.ml.ArrayFeatureExtractor(float32[4,1000], int64[N]<1000)
ai.onnx.ml.Binarizer(float32[N,4])
ai.onnx.ml.CategoryMapper(int64[N]<4) cats_int64s=[0,1] cats_strings=['a','b']
ai.onnx.ml.LabelEncoder(int64[N]<4) keys_int64s=[0,1] values_int64s=[1,2]
ai.onnx.ml.OneHotEncoder(int64[N]<4) cats_int64s=[0,1]
ai.onnx.ml.FeatureVectorizer(float32[N,4], float32[N,4])
ai.onnx.ml.Imputer(float32[N,4]) imputed_value_floats=[1.0]
ai.onnx.ml.Imputer(int64[N,4]) imputed_value_int64s=[1]
ai.onnx.ml.LinearClassifier(float32[N,4]) coefficients=[0.5*12] classlabels_ints=[0,1,2] intercepts=[0.5*3] post_transform=SOFTMAX
ai.onnx.ml.LinearRegressor(float32[N,4]) coefficients=[0.5*4] intercepts=[0.5]
ai.onnx.ml.Normalizer(float32[N,4]) norm=L2
ai.onnx.ml.Scaler(float32[N,4]) scale=[0.5]
ai.onnx.ml.SVMRegressor(float32[N,4]) coefficients=[0.5*64] support_vectors=[0.5*256] n_supports=64 rho=[0.5] kernel_type=RBF kernel_params=[0.5,0.5,2.0]
ai.onnx.ml.SVMClassifier(float32[N,4]) coefficients=[0.5*64] support_vectors=[0.5*256] vectors_per_class=[32,32] classlabels_ints=[0,1] rho=[0.5] kernel_type=RBF kernel_params=[0.5,0.5,2.0]
ai.onnx.ml.TreeEnsembleRegressor(float32[N,4]) n_targets=1 nodes_falsenodeids=[2,0,0] nodes_featureids=[0,0,0] nodes_modes=['BRANCH_LEQ','LEAF','LEAF'] nodes_nodeids=[0,1,2] nodes_treeids=[0,0,0] nodes_truenodeids=[1,0,0] nodes_values=[0.5*3] target_ids=[0,0] target_nodeids=[1,2] target_treeids=[0,0] target_weights=[0.5,1.5]
ai.onnx.ml.TreeEnsembleClassifier(float32[N,4]) classlabels_int64s=[0,1] nodes_falsenodeids=[2,0,0] nodes_featureids=[0,0,0] nodes_modes=['BRANCH_LEQ','LEAF','LEAF'] nodes_nodeids=[0,1,2] nodes_treeids=[0,0,0] nodes_truenodeids=[1,0,0] nodes_values=[0.5*3] class_ids=[0,1] class_nodeids=[1,2] class_treeids=[0,0] class_weights=[0.5,1.5]
ai.onnx.ml.ZipMap(float32[N,2]) classlabels_int64s=[0,1]
`
