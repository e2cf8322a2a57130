package ops

import "math"

// Exp is the natural exponential: https://onnx.ai/onnx/operators/onnx__Exp.html
var Exp = unaryOp("Exp", 13, "Y = eˣ", unary{float: math.Exp}.eval,
	formBy(typeStep{6, floatTypes}, typeStep{13, anyType})).legacy().but(ZeroSignCleared, Composes)

// Log is the natural logarithm: https://onnx.ai/onnx/operators/onnx__Log.html
// Log of 0 is -∞, of a negative element NaN.
var Log = unaryOp("Log", 13, "Y = ln X", unary{float: math.Log}.eval,
	formBy(typeStep{6, floatTypes}, typeStep{13, anyType})).legacy().but(ZeroSignIgnored, Composes)
