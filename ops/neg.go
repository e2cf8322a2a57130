package ops

import "github.com/berth-onnx/berth/ssa"

// Neg flips the sign: https://onnx.ai/onnx/operators/onnx__Neg.html
var Neg = unaryOp("Neg", 13, "Y = -X", unary{
	float: func(x float64) float64 { return -x },
	int:   func(x int64) int64 { return -x },
}.eval, formBy(typeStep{6, floatTypes | signedTypes}, typeStep{13, anyType})).legacy().
	following(func(d ssa.Dim) ssa.Dim { return d.MulN(-1) }).but(ZeroSignPassed, Involutive)
