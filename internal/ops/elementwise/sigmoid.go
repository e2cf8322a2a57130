package elementwise

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// Sigmoid is the logistic function: https://onnx.ai/onnx/operators/onnx__Sigmoid.html
var Sigmoid = withConsumedInputs(floatOp("Sigmoid", 6, 13, "Y = 1 / (1 + e⁻ˣ)", kit.Sigmoid)).But(ops.ZeroSignCleared)

// HardSigmoid is the piecewise linear sigmoid:
// https://onnx.ai/onnx/operators/onnx__HardSigmoid.html
var HardSigmoid = kit.WithAttrs(withConsumedInputs(unaryOp("HardSigmoid", 22, "Y = max(0, min(1, alpha·X + beta))", evalHardSigmoid,
	kit.FloatForm(6, 22))), ops.FloatAttr("alpha", 0.2), ops.FloatAttr("beta", 0.5)).But(ops.ZeroSignCleared, ops.Composes)

func evalHardSigmoid(c *ops.Call) {
	alpha, beta := float64(ops.Float(c.Node, "alpha")), float64(ops.Float(c.Node, "beta"))
	unary{float: func(x float64) float64 { return kit.Clamp01(alpha*x + beta) }}.eval(c)
}

// HardSwish is X times the hard sigmoid with alpha 1/6 and beta 1/2:
// https://onnx.ai/onnx/operators/onnx__HardSwish.html
var HardSwish = floatOp("HardSwish", 14, 22, "Y = X · max(0, min(1, X/6 + 1/2))", kit.HardSwish).But(ops.ZeroSignPassed)

// Swish is X times the sigmoid of alpha·X: https://onnx.ai/onnx/operators/onnx__Swish.html
var Swish = alphaOp("Swish", 24, "Y = X · sigmoid(alpha·X)", 1, kit.Since(24), func(alpha float64) kit.RealFunc {
	return func(x float64) float64 { return x * kit.Sigmoid(alpha*x) }
})
