package ops

var quantOps = []*Op{
	&QuantizeLinear,
	&DequantizeLinear,
	&DynamicQuantizeLinear,
	&ConvInteger,
	&MatMulInteger,
	&QLinearConv,
	&QLinearMatMul,
}

func init() { Register(quantOps...) }
