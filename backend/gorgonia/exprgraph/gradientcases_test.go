package exprgraph_test

import (
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// unaryCases are functions of one operand with the interval that numbers are drawn from.
func unaryCases() (list []gradientCase) {
	for _, u := range []struct {
		op        string
		low, high float64
	}{
		{"Identity", -1, 1}, {"Neg", -1, 1}, {"Exp", -1, 1}, {"Log", 0.3, 2}, {"Sqrt", 0.3, 2}, {"Sin", -1, 1}, {"Cos", -1, 1},
		{"Abs", 0.1, 1}, {"Relu", 0.1, 1}, {"Reciprocal", 0.5, 2}, {"Sigmoid", -2, 2}, {"Tanh", -2, 2}, {"Softplus", -2, 2},
		{"Erf", -2, 2}, {"LeakyRelu", -2, -0.1}, {"Floor", 0.1, 0.9}, {"Ceil", 0.1, 0.9}, {"Round", 0.6, 0.9}, {"Sign", 0.1, 0.9},
		{"Softmax", -2, 2}, {"LogSoftmax", -2, 2}, {"ReduceSum", -1, 1}, {"ReduceMean", -1, 1}, {"ReduceSumSquare", -1, 1},
		{"ReduceL1", 0.1, 1}, {"ReduceL2", -1, 1}, {"ReduceMax", -1, 1}, {"ReduceMin", -1, 1}, {"ReduceLogSumExp", -1, 1},
		{"Flatten", -1, 1}, {"Transpose", -1, 1}, {"Dropout", -1, 1},
		{"Elu", -1, -0.1}, {"Selu", -1, -0.1}, {"Celu", -1, -0.1}, {"Softsign", -2, 2}, {"HardSigmoid", -1, 1}, {"HardSwish", -1, 1},
		{"ThresholdedRelu", 1.1, 2}, {"Swish", -2, 2}, {"Gelu", -2, 2}, {"Mish", -2, 2}, {"Tan", -1, 1}, {"Asin", -0.8, 0.8}, {"Acos", -0.8, 0.8},
		{"Atan", -2, 2}, {"Sinh", -1, 1}, {"Cosh", -1, 1}, {"Asinh", -2, 2}, {"Acosh", 1.2, 2}, {"Atanh", -0.8, 0.8},
		{"ReduceLogSum", 0.5, 1.5}, {"ReduceProd", 0.5, 1.5}, {"Shrink", 0.6, 2}, {"Trilu", -1, 1}, {"LpNormalization", 0.3, 2},
	} {
		list = append(list, gradientCase{op: u.op, in: []operand{within(u.low, u.high, 3, 4)}})
	}
	return list
}

var image = around(2, 4, 6, 6)

// gradientCases are the operators whose derivatives are tested.
var gradientCases = slices.Concat(unaryCases(), []gradientCase{
	{op: "Add", in: []operand{around(3, 4), around(4)}},
	{op: "Sub", in: []operand{around(3, 1), around(3, 4)}},
	{op: "Mul", in: []operand{around(3, 4), around(4)}},
	{op: "Div", in: []operand{around(3, 4), positive(4)}},
	{op: "Pow", in: []operand{positive(3, 4), around(4)}},
	{op: "Sum", in: []operand{around(3, 4), around(4), around(1)}},
	{op: "Mean", in: []operand{around(3, 4), around(4)}},
	{op: "Max", in: []operand{around(3, 4), around(4)}},
	{op: "Min", in: []operand{around(3, 4), around(4)}},
	{op: "Where", in: []operand{fixed([]bool{true, false, true, false}, 4), around(3, 4), around(4)}},
	{op: "Clip", in: []operand{around(3, 4), fixed([]float64{-0.5}), fixed([]float64{0.5})}},
	{op: "PRelu", in: []operand{within(-2, -0.1, 3, 4), around(4)}},
	{op: "MatMul", in: []operand{around(2, 3, 4), around(4, 5)}},
	{op: "Gemm", in: []operand{around(4, 3), around(5, 4), around(5)}, attrs: []ssa.Attr{ssa.IntAttr("transA", 1), ssa.IntAttr("transB", 1), ssa.FloatAttr("alpha", 0.5), ssa.FloatAttr("beta", 2)}},
	{op: "Conv", in: []operand{image, around(3, 4, 3, 3), around(3)}, attrs: []ssa.Attr{ssa.IntsAttr("pads", 1, 0, 1, 1), ssa.IntsAttr("strides", 2, 1)}},
	{op: "Conv", in: []operand{image, around(4, 2, 3, 3)}, attrs: []ssa.Attr{ssa.IntAttr("group", 2), ssa.IntsAttr("dilations", 2, 1)}},
	{op: "Conv", in: []operand{image, around(8, 1, 3, 3)}, attrs: []ssa.Attr{ssa.IntAttr("group", 4), ssa.IntsAttr("strides", 2, 2), ssa.IntsAttr("pads", 1, 1, 1, 1)}},
	{op: "ConvTranspose", in: []operand{image, around(4, 3, 3, 2), around(3)}, attrs: []ssa.Attr{ssa.IntsAttr("strides", 2, 1), ssa.IntsAttr("pads", 1, 0, 0, 1), ssa.IntsAttr("output_padding", 1, 0)}},
	{op: "ConvTranspose", in: []operand{image, around(4, 1, 3, 3)}, attrs: []ssa.Attr{ssa.IntAttr("group", 4)}},
	{op: "ConvTranspose", in: []operand{image, around(4, 2, 2, 2)}, attrs: []ssa.Attr{ssa.IntAttr("group", 2), ssa.IntsAttr("strides", 2, 2)}},
	{op: "MaxPool", in: []operand{image}, attrs: []ssa.Attr{ssa.IntsAttr("kernel_shape", 3, 2), ssa.IntsAttr("strides", 2, 2)}},
	{op: "AveragePool", in: []operand{image}, attrs: []ssa.Attr{ssa.IntsAttr("kernel_shape", 3, 2), ssa.IntsAttr("strides", 2, 2), ssa.IntsAttr("pads", 1, 0, 1, 0)}},
	{op: "AveragePool", in: []operand{image}, attrs: []ssa.Attr{ssa.IntsAttr("kernel_shape", 2, 2), ssa.IntsAttr("strides", 2, 2)}},
	{op: "GlobalAveragePool", in: []operand{image}},
	{op: "BatchNormalization", in: []operand{image, around(4), around(4), around(4), positive(4)}},
	{op: "LayerNormalization", in: []operand{around(3, 4), around(4), around(4)}, attrs: []ssa.Attr{ssa.IntAttr("stash_type", 11)}},
	{op: "InstanceNormalization", in: []operand{around(2, 3, 4), around(3), around(3)}},
	{op: "GroupNormalization", in: []operand{around(2, 4, 3), around(4), around(4)}, attrs: []ssa.Attr{ssa.IntAttr("num_groups", 2), ssa.IntAttr("stash_type", 11)}},
	{op: "Resize", in: []operand{around(1, 2, 3, 4), absent, absent, ints(1, 2, 7, 5)}, attrs: []ssa.Attr{ssa.StringAttr("mode", "linear")}},
	{op: "Resize", in: []operand{around(1, 1, 4, 4), absent, fixed([]float32{1, 1, 1.6, 2}, 4)}, attrs: []ssa.Attr{ssa.StringAttr("mode", "cubic"), ssa.StringAttr("coordinate_transformation_mode", "align_corners")}},
	{op: "Resize", in: []operand{around(1, 2, 3, 3), absent, absent, ints(1, 2, 7, 5)}, attrs: []ssa.Attr{ssa.StringAttr("mode", "nearest")}},
	{op: "Concat", in: []operand{around(3, 4), around(3, 2)}, attrs: []ssa.Attr{ssa.IntAttr("axis", 1)}},
	{op: "Split", in: []operand{around(4, 3)}, attrs: []ssa.Attr{ssa.IntAttr("num_outputs", 2)}},
	{op: "Reshape", in: []operand{around(3, 4), ints(2, 6)}},
	{op: "Squeeze", in: []operand{around(3, 1, 4), ints(1)}},
	{op: "Unsqueeze", in: []operand{around(3, 4), ints(1)}},
	{op: "Expand", in: []operand{around(3, 1), ints(2, 3, 4)}},
	{op: "Tile", in: []operand{around(3, 2), ints(2, 2)}},
	{op: "Pad", in: []operand{around(3, 2), ints(1, 0, 0, 2)}},
	{op: "Slice", in: []operand{around(5, 4), ints(4, 1), ints(0, 3), ints(0, 1), ints(-2, 1)}},
	{op: "Gather", in: []operand{around(5, 4), ints(3, 0, 3)}},
	{op: "GatherElements", in: []operand{around(3, 2), fixed([]int64{0, 2, 2, 1}, 2, 2)}},
	{op: "GatherND", in: []operand{around(3, 2), fixed([]int64{0, 1, 2, 0}, 2, 2)}},
	{op: "ScatterElements", in: []operand{around(3, 2), fixed([]int64{0, 2}, 1, 2), around(1, 2)}},
	{op: "DepthToSpace", in: []operand{around(1, 4, 2, 2)}, attrs: []ssa.Attr{ssa.IntAttr("blocksize", 2)}},
	{op: "SpaceToDepth", in: []operand{around(1, 1, 4, 4)}, attrs: []ssa.Attr{ssa.IntAttr("blocksize", 2)}},
	{op: "ReverseSequence", in: []operand{around(4, 2), ints(3, 2)}},
	{op: "Einsum", in: []operand{around(2, 3), around(3, 4)}, attrs: []ssa.Attr{ssa.StringAttr("equation", "ij,jk->ik")}},
	{op: "LpPool", in: []operand{image}, attrs: []ssa.Attr{ssa.IntsAttr("kernel_shape", 2, 2), ssa.IntsAttr("strides", 2, 1)}},
	{op: "GlobalMaxPool", in: []operand{image}}, {op: "GlobalLpPool", in: []operand{image}}, {op: "MeanVarianceNormalization", in: []operand{image}},
	{op: "MaxUnpool", in: []operand{around(1, 1, 2, 2), fixed([]int64{0, 3, 9, 14}, 1, 1, 2, 2)}, attrs: []ssa.Attr{ssa.IntsAttr("kernel_shape", 2, 2), ssa.IntsAttr("strides", 2, 2)}},
	{op: "Mod", in: []operand{within(5.1, 5.9, 3, 4), within(1.8, 1.9, 4)}, attrs: []ssa.Attr{ssa.IntAttr("fmod", 1)}},
	{op: "LRN", in: []operand{around(1, 5, 2, 2)}, attrs: []ssa.Attr{ssa.IntAttr("size", 3), ssa.FloatAttr("alpha", 0.5)}},
	{op: "RMSNormalization", in: []operand{around(3, 4), around(4)}, attrs: []ssa.Attr{ssa.IntAttr("stash_type", 11)}},
	{op: "SimplifiedLayerNormalization", in: []operand{around(3, 4), around(4)}, attrs: []ssa.Attr{ssa.IntAttr("stash_type", 11)}},
	{op: "SwiGLU", in: []operand{around(3, 4), around(3, 4)}}, {op: "CastLike", in: []operand{around(3, 4), fixed([]float64{1})}},
	{op: "CumSum", in: []operand{around(3, 5), fixed([]int64{1})}}, {op: "TopK", in: []operand{around(3, 5), ints(2)}},
	{op: "ScatterND", in: []operand{around(4, 2), fixed([]int64{2, 0}, 2, 1), around(2, 2)}},
	{op: "NegativeLogLikelihoodLoss", in: []operand{around(3, 4), fixed([]int64{2, 0, 1}, 3)}},
	{op: "SoftmaxCrossEntropyLoss", in: []operand{around(3, 4), fixed([]int64{2, 0, 1}, 3), fixed([]float64{0.5, 1.5, 1, 0.7}, 4)}},
	{op: "Attention", in: []operand{around(1, 2, 3, 2), around(1, 2, 4, 2), around(1, 2, 4, 3)}},
	{op: "RotaryEmbedding", in: []operand{around(1, 2, 3, 4), fixed([]float64{1, 0.5, 0.8, 0.6, 0.3, 0.9}, 3, 2), fixed([]float64{0.1, 0.7, 0.6, 0.8, 0.9, 0.4}, 3, 2), fixed([]int64{0, 2, 1}, 1, 3)}},
	{op: "RNN", in: []operand{around(4, 2, 2), around(1, 3, 2), around(1, 3, 3), around(1, 6)}, attrs: []ssa.Attr{ssa.IntAttr("hidden_size", 3)}},
	{op: "GRU", in: []operand{around(3, 2, 2), around(2, 9, 2), around(2, 9, 3), around(2, 18), absent, around(2, 2, 3)},
		attrs: []ssa.Attr{ssa.IntAttr("hidden_size", 3), ssa.IntAttr("linear_before_reset", 1), ssa.StringAttr("direction", "bidirectional")}},
	{op: "LSTM", in: []operand{around(3, 2, 2), around(1, 12, 2), around(1, 12, 3), around(1, 24)}, attrs: []ssa.Attr{ssa.IntAttr("hidden_size", 3)}},
	{op: "Cast", in: []operand{around(3, 4)}, attrs: []ssa.Attr{ssa.IntAttr("to", 11)}},
})
