package ops

var nnOps = []*Op{
	&Conv,
}
