package movement

import "github.com/berth-onnx/berth/ops"

// Ops are the operators of this package, one line each.
var Ops = []*ops.Op{
	&Trilu,
	&Identity,
	&Shape,
	&Size,
	&Reshape,
	&Flatten,
	&Squeeze,
	&Unsqueeze,
	&Transpose,
	&Slice,
	&Gather,
	&Concat,
	&Split,
	&Pad,
	&Tile,
	&Expand,
	&GatherElements,
	&GatherND,
	&Scatter,
	&ScatterElements,
	&ScatterND,
	&TensorScatter,
	&NonZero,
	&Unique,
	&Compress,
	&OneHot,
	&CenterCropPad,
	&DepthToSpace,
	&SpaceToDepth,
	&ReverseSequence,
}

func init() { ops.Register(Ops...) }
