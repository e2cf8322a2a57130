package ops

var nnOps = []*Op{}
