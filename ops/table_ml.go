package ops

var mlOps = []*Op{}
