package ops

var microsoftOps = []*Op{
	&DynamicQuantizeLSTM,
}
