package text

import "github.com/berth-onnx/berth/ops"

// Ops are the operators of this package, one line each.
var Ops = []*ops.Op{
	&StringConcat,
	&StringSplit,
	&StringNormalizer,
	&RegexFullMatch,
	&TfIdfVectorizer,
}

func init() { ops.Register(Ops...) }
