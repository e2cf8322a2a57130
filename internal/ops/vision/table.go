package vision

import "github.com/berth-onnx/berth/ops"

// Ops are the operators of this package, one line each.
var Ops = []*ops.Op{
	&Resize,
	&Upsample,
	&GridSample,
	&NonMaxSuppression,
	&RoiAlign,
}

func init() { ops.Register(Ops...) }
