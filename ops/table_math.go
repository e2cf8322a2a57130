package ops

var mathOps = []*Op{
	&Add,
}
