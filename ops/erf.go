package ops

import "math"

// Erf is the error function: https://onnx.ai/onnx/operators/onnx__Erf.html
//
//	erf(x) = 2/√π ∫₀ˣ exp(-t²) dt
//
// Integers, which operator sets 9 to 12 allowed, are computed as floats and
// truncated.
var Erf = unaryOp("Erf", 13, "Y = erf(X)", unary{
	float: math.Erf,
	int:   func(x int64) int64 { return int64(math.Erf(float64(x))) },
	uint:  func(x uint64) uint64 { return uint64(math.Erf(float64(x))) },
}.eval, formBy(typeStep{9, floatTypes}, typeStep{13, anyType})).but(ZeroSignPassed, Composes)
