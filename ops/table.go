package ops

// families is the operator table: one slice per family, one line per operator.
var families = [][]*Op{
	mathOps,
	tensorOps,
	controlOps,
	nnOps,
	quantOps,
	sequenceOps,
	mlOps,
	trainingOps,
	microsoftOps,
	experimentalOps,
}
