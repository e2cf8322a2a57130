package ops

var tensorOps = []*Op{}
