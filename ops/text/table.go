package text

import "github.com/berth-onnx/berth/ops"

// Ops are the operators of this package, one line each.
var Ops = []*ops.Op{
	&StringNormalizer,
	&RegexFullMatch,
}

func init() { ops.Register(Ops...) }
