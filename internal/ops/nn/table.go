package nn

import "github.com/berth-onnx/berth/ops"

// Ops are the operators of this package, one line each.
var Ops = []*ops.Op{
	&Conv,
	&ConvTranspose,
	&MaxPool,
	&AveragePool,
	&LpPool,
	&GlobalAveragePool,
	&GlobalMaxPool,
	&GlobalLpPool,
	&MaxUnpool,
	&BatchNormalization,
	&InstanceNormalization,
	&GroupNormalization,
	&LayerNormalization,
	&RMSNormalization,
	&MeanVarianceNormalization,
	&LpNormalization,
	&LRN,
	&Dropout,
	&RNN,
	&GRU,
	&LSTM,
	&Attention,
	&RotaryEmbedding,
	&SwiGLU,
	&NegativeLogLikelihoodLoss,
	&SoftmaxCrossEntropyLoss,
}

func init() { ops.Register(Ops...) }
