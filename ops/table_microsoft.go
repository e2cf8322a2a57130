package ops

var microsoftOps = []*Op{
	&DynamicQuantizeLSTM,
	&MSGelu,
	&BiasGelu,
	&FastGelu,
	&QuickGelu,
	&BiasSplitGelu,
	&FusedConv,
	&NhwcConv,
	&NhwcFusedConv,
	&NhwcMaxPool,
	&FusedMatMul,
	&TransposeMatMul,
	&FusedMatMulActivation,
	&FusedGemm,
	&GemmFastGelu,
	&SimplifiedLayerNormalization,
	&MSSimplifiedLayerNormalization,
	&SkipLayerNormalization,
	&SkipSimplifiedLayerNormalization,
	&EmbedLayerNormalization,
}
