package ops

import (
	"github.com/berth-onnx/berth/ssa"
)

// Sigmoid is the logistic function: https://onnx.ai/onnx/operators/onnx__Sigmoid.html
var Sigmoid = unaryOp("Sigmoid", 13, "Y = 1 / (1 + e⁻ˣ)", unary{float: sigmoid}.eval,
	formBy(typeStep{6, floatTypes}, typeStep{13, anyType})).legacy()

// HardSigmoid is the piecewise linear sigmoid:
// https://onnx.ai/onnx/operators/onnx__HardSigmoid.html
var HardSigmoid = unaryOp("HardSigmoid", 22, "Y = max(0, min(1, alpha·X + beta))", evalHardSigmoid,
	formBy(typeStep{6, floatTypes}, typeStep{22, anyType})).legacy().with(ssa.AttrFloat, "alpha", "beta")

func evalHardSigmoid(c *Call) {
	alpha, beta := float64(c.Node.Float("alpha", 0.2)), float64(c.Node.Float("beta", 0.5))
	unary{float: func(x float64) float64 { return clamp01(alpha*x + beta) }}.eval(c)
}

// HardSwish is X times the hard sigmoid with alpha 1/6 and beta 1/2:
// https://onnx.ai/onnx/operators/onnx__HardSwish.html
var HardSwish = unaryOp("HardSwish", 22, "Y = X · max(0, min(1, X/6 + 1/2))", unary{float: hardSwish}.eval,
	formBy(typeStep{14, floatTypes}, typeStep{22, anyType}))

// Swish is X times the sigmoid of alpha·X: https://onnx.ai/onnx/operators/onnx__Swish.html
var Swish = unaryOp("Swish", 24, "Y = X · sigmoid(alpha·X)", evalSwish, since(24)).with(ssa.AttrFloat, "alpha")

func evalSwish(c *Call) {
	alpha := float64(c.Node.Float("alpha", 1))
	unary{float: func(x float64) float64 { return x * sigmoid(alpha*x) }}.eval(c)
}
