package ops

import "math"

// Softplus is a smooth Relu: https://onnx.ai/onnx/operators/onnx__Softplus.html
var Softplus = unaryOp("Softplus", 22, "Y = ln(1 + eˣ)", unary{float: softplus}.eval,
	formBy(typeStep{1, floatTypes}, typeStep{22, anyType})).but(ZeroSignCleared, Composes)

// Softsign squashes to (-1, 1): https://onnx.ai/onnx/operators/onnx__Softsign.html
// Infinities give NaN, as the quotient of the formula does.
var Softsign = unaryOp("Softsign", 22, "Y = X / (1 + |X|)", unary{
	float: func(x float64) float64 { return x / (1 + math.Abs(x)) },
}.eval, formBy(typeStep{1, floatTypes}, typeStep{22, anyType})).but(ZeroSignPassed, Composes)

// Mish is X times the tanh of its softplus: https://onnx.ai/onnx/operators/onnx__Mish.html
var Mish = unaryOp("Mish", 22, "Y = X · tanh(softplus(X))", unary{
	float: func(x float64) float64 { return x * math.Tanh(softplus(x)) },
}.eval, formBy(typeStep{18, floatTypes}, typeStep{22, anyType})).but(ZeroSignPassed, Composes)
