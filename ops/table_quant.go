package ops

var quantOps = []*Op{}
