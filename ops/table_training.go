package ops

var trainingOps = []*Op{
	&Adam,
	&Adagrad,
	&Momentum,
	&Gradient,
}

func init() { Register(trainingOps...) }
