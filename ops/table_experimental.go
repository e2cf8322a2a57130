package ops

var experimentalOps = []*Op{
	&Affine,
	&ParametricSoftplus,
	&ScaledTanh,
	&Scale,
	&ImageScaler,
	&Crop,
	&DynamicSlice,
}

func init() { Register(experimentalOps...) }
