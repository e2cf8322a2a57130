package generator

import "github.com/berth-onnx/berth/ops"

// Ops are the operators of this package, one line each.
var Ops = []*ops.Op{
	&Bernoulli,
	&EyeLike,
	&Multinomial,
	&RandomNormal,
	&RandomNormalLike,
	&RandomUniform,
	&RandomUniformLike,
	&Range,
	&Constant,
	&ConstantOfShape,
}

func init() { ops.Register(Ops...) }
