package linalg

import "github.com/berth-onnx/berth/ops"

// Ops are the operators of this package, one line each.
var Ops = []*ops.Op{
	&Det,
	&Einsum,
	&Gemm,
	&MatMul,
}

func init() { ops.Register(Ops...) }
