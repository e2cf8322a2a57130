package ops

var tensorOps = []*Op{
	&Identity,
	&Constant,
	&ConstantOfShape,
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
}
