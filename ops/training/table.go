package training

import "github.com/berth-onnx/berth/ops"

// Ops are the operators of this package, one line each.
var Ops = []*ops.Op{
	&Adam,
	&Adagrad,
	&Momentum,
	&Gradient,
}

func init() { ops.Register(Ops...) }
