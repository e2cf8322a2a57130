package ops

var controlOps = []*Op{
	&If,
	&Loop,
	&Scan,
}
