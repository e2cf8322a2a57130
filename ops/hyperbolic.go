package ops

import "math"

// hyperbolicOp is one of the hyperbolic functions: float types, bfloat16 since 22.
func hyperbolicOp(name, doc string, f func(float64) float64) Op {
	return unaryOp(name, 22, doc, unary{float: f}.eval, formBy(typeStep{9, floatTypes}, typeStep{22, anyType}))
}

// Sinh is the hyperbolic sine: https://onnx.ai/onnx/operators/onnx__Sinh.html
var Sinh = hyperbolicOp("Sinh", "Y = (eˣ - e⁻ˣ) / 2", math.Sinh).but(ZeroSignPassed, Composes)

// Cosh is the hyperbolic cosine: https://onnx.ai/onnx/operators/onnx__Cosh.html
var Cosh = hyperbolicOp("Cosh", "Y = (eˣ + e⁻ˣ) / 2", math.Cosh).but(ZeroSignCleared, Composes)

// Asinh is the inverse hyperbolic sine: https://onnx.ai/onnx/operators/onnx__Asinh.html
var Asinh = hyperbolicOp("Asinh", "Y = asinh X", math.Asinh).but(ZeroSignPassed, Composes)

// Acosh is the inverse hyperbolic cosine, NaN below 1:
// https://onnx.ai/onnx/operators/onnx__Acosh.html
var Acosh = hyperbolicOp("Acosh", "Y = acosh X", math.Acosh).but(ZeroSignIgnored, Composes)

// Atanh is the inverse hyperbolic tangent, NaN outside [-1, 1]:
// https://onnx.ai/onnx/operators/onnx__Atanh.html
var Atanh = hyperbolicOp("Atanh", "Y = atanh X", math.Atanh).but(ZeroSignPassed, Composes)

// Tanh is the hyperbolic tangent: https://onnx.ai/onnx/operators/onnx__Tanh.html
var Tanh = unaryOp("Tanh", 13, "Y = (eˣ - e⁻ˣ) / (eˣ + e⁻ˣ)", unary{float: math.Tanh}.eval,
	formBy(typeStep{6, floatTypes}, typeStep{13, anyType})).legacy().but(ZeroSignPassed, Composes)
