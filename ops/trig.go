package ops

import "math"

// trigOp is one of the circular functions: float types, bfloat16 since 22.
func trigOp(name, doc string, f func(float64) float64) Op {
	return unaryOp(name, 22, doc, unary{float: f}.eval, formBy(typeStep{7, floatTypes}, typeStep{22, anyType}))
}

// Sin is the sine of an angle in radians: https://onnx.ai/onnx/operators/onnx__Sin.html
var Sin = trigOp("Sin", "Y = sin X", math.Sin).but(ZeroSignPassed, Composes)

// Cos is the cosine of an angle in radians: https://onnx.ai/onnx/operators/onnx__Cos.html
var Cos = trigOp("Cos", "Y = cos X", math.Cos).but(ZeroSignIgnored, Composes)

// Tan is the tangent of an angle in radians: https://onnx.ai/onnx/operators/onnx__Tan.html
var Tan = trigOp("Tan", "Y = tan X", math.Tan).but(ZeroSignPassed, Composes)

// Asin is the arc sine in radians, NaN outside [-1, 1]:
// https://onnx.ai/onnx/operators/onnx__Asin.html
var Asin = trigOp("Asin", "Y = asin X", math.Asin).but(ZeroSignPassed, Composes)

// Acos is the arc cosine in radians, NaN outside [-1, 1]:
// https://onnx.ai/onnx/operators/onnx__Acos.html
var Acos = trigOp("Acos", "Y = acos X", math.Acos).but(ZeroSignCleared, Composes)

// Atan is the arc tangent in radians: https://onnx.ai/onnx/operators/onnx__Atan.html
var Atan = trigOp("Atan", "Y = atan X", math.Atan).but(ZeroSignPassed, Composes)
