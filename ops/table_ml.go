package ops

var mlOps = []*Op{
	&ArrayFeatureExtractor,
	&Binarizer,
	&CastMap,
	&CategoryMapper,
	&DictVectorizer,
	&FeatureVectorizer,
	&Imputer,
	&LabelEncoder,
	&LinearClassifier,
	&LinearRegressor,
	&Normalizer,
	&OneHotEncoder,
	&Scaler,
	&SVMClassifier,
	&SVMRegressor,
	&TreeEnsemble,
	&TreeEnsembleClassifier,
	&TreeEnsembleRegressor,
	&ZipMap,
}

func init() { Register(mlOps...) }
