package ops

var microsoftOps = []*Op{}
