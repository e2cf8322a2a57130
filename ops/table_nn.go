package ops

var nnOps = []*Op{
	&Conv,
	&ConvTranspose,
	&DeformConv,
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
}
