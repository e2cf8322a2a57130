package ops

var controlOps = []*Op{
	&If,
	&Loop,
	&Scan,
}

func init() { Register(controlOps...) }
