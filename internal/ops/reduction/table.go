package reduction

import "github.com/berth-onnx/berth/ops"

// Ops are the operators of this package, one line each.
var Ops = []*ops.Op{
	&ArgMax,
	&ArgMin,
	&CumProd,
	&CumSum,
	&Hardmax,
	&LogSoftmax,
	&ReduceL1,
	&ReduceL2,
	&ReduceLogSum,
	&ReduceLogSumExp,
	&ReduceMax,
	&ReduceMean,
	&ReduceMin,
	&ReduceProd,
	&ReduceSum,
	&ReduceSumSquare,
	&Softmax,
	&TopK,
}

func init() { ops.Register(Ops...) }
