package ops

var sequenceOps = []*Op{}
