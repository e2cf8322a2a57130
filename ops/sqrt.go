package ops

import "math"

// Sqrt is the square root, NaN for negative elements:
// https://onnx.ai/onnx/operators/onnx__Sqrt.html
// A float32 root taken in float64 and rounded is the correctly rounded root.
var Sqrt = unaryOp("Sqrt", 13, "Y = √X", unary{float: math.Sqrt}.eval,
	formBy(typeStep{6, floatTypes}, typeStep{13, anyType})).legacy().but(ZeroSignPassed, Composes)

// Reciprocal is 1/X: https://onnx.ai/onnx/operators/onnx__Reciprocal.html
var Reciprocal = unaryOp("Reciprocal", 13, "Y = 1 / X", unary{
	float: func(x float64) float64 { return 1 / x },
}.eval, formBy(typeStep{6, floatTypes}, typeStep{13, anyType})).legacy().but(ZeroSignRead, Composes)
