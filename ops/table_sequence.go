package ops

var sequenceOps = []*Op{
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
	&StringConcat,
	&StringSplit,
	&StringNormalizer,
	&RegexFullMatch,
	&TfIdfVectorizer,
	&ImageDecoder,
}

func init() { Register(sequenceOps...) }
