package sequence

import "github.com/berth-onnx/berth/ops"

// Ops are the operators of this package, one line each.
var Ops = []*ops.Op{
	&SequenceConstruct,
	&SequenceEmpty,
	&SequenceAt,
	&SequenceInsert,
	&SequenceErase,
	&SequenceLength,
	&SequenceMap,
	&SplitToSequence,
	&ConcatFromSequence,
	&Optional,
	&OptionalGetElement,
	&OptionalHasElement,
}

func init() { ops.Register(Ops...) }
