package experimental

import "github.com/berth-onnx/berth/ops"

// Ops are the operators of this package, one line each.
var Ops = []*ops.Op{
	&Affine,
	&ParametricSoftplus,
	&ScaledTanh,
	&Scale,
	&ImageScaler,
	&Crop,
	&DynamicSlice,
}

func init() { ops.Register(Ops...) }
