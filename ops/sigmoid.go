package ops

import ()

// Sigmoid is the logistic function: https://onnx.ai/onnx/operators/onnx__Sigmoid.html
var Sigmoid = unaryOp("Sigmoid", 13, "Y = 1 / (1 + e⁻ˣ)", unary{float: sigmoid}.eval,
	formBy(typeStep{6, floatTypes}, typeStep{13, anyType})).legacy().but(ZeroSignCleared, Composes)

// HardSigmoid is the piecewise linear sigmoid:
// https://onnx.ai/onnx/operators/onnx__HardSigmoid.html
var HardSigmoid = unaryOp("HardSigmoid", 22, "Y = max(0, min(1, alpha·X + beta))", evalHardSigmoid,
	formBy(typeStep{6, floatTypes}, typeStep{22, anyType})).legacy().with(floatAttr("alpha", 0.2), floatAttr("beta", 0.5)).but(ZeroSignCleared, Composes)

func evalHardSigmoid(c *Call) {
	alpha, beta := float64(Float(c.Node, "alpha")), float64(Float(c.Node, "beta"))
	unary{float: func(x float64) float64 { return clamp01(alpha*x + beta) }}.eval(c)
}

// HardSwish is X times the hard sigmoid with alpha 1/6 and beta 1/2:
// https://onnx.ai/onnx/operators/onnx__HardSwish.html
var HardSwish = unaryOp("HardSwish", 22, "Y = X · max(0, min(1, X/6 + 1/2))", unary{float: hardSwish}.eval,
	formBy(typeStep{14, floatTypes}, typeStep{22, anyType})).but(ZeroSignPassed, Composes)

// Swish is X times the sigmoid of alpha·X: https://onnx.ai/onnx/operators/onnx__Swish.html
var Swish = unaryOp("Swish", 24, "Y = X · sigmoid(alpha·X)", evalSwish, since(24)).with(floatAttr("alpha", 1)).but(ZeroSignPassed, Composes)

func evalSwish(c *Call) {
	alpha := float64(Float(c.Node, "alpha"))
	unary{float: func(x float64) float64 { return x * sigmoid(alpha*x) }}.eval(c)
}
