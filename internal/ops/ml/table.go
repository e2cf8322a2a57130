package ml

import "github.com/berth-onnx/berth/ops"

// Ops are the operators of this package, one line each.
var Ops = []*ops.Op{
	&ArrayFeatureExtractor,
	&Binarizer,
	&CategoryMapper,
	&Imputer,
	&LabelEncoder,
	&LinearClassifier,
	&LinearRegressor,
	&Normalizer,
	&OneHotEncoder,
	&Scaler,
	&TreeEnsemble,
	&TreeEnsembleClassifier,
	&TreeEnsembleRegressor,
	&ZipMap,
}

func init() { ops.Register(Ops...) }
