package ops

var trainingOps = []*Op{}
