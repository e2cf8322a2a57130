package quant

import "github.com/berth-onnx/berth/ops"

// Ops are the operators of this package, one line each.
var Ops = []*ops.Op{
	&QuantizeLinear,
	&DequantizeLinear,
	&DynamicQuantizeLinear,
	&ConvInteger,
	&MatMulInteger,
	&QLinearConv,
	&QLinearMatMul,
}

func init() { ops.Register(Ops...) }
