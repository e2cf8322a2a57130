package elementwise

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// Softplus is a smooth Relu: https://onnx.ai/onnx/operators/onnx__Softplus.html
var Softplus = floatOp("Softplus", 1, 22, "Y = ln(1 + eˣ)", kit.Softplus).But(ops.ZeroSignCleared)

// Softsign squashes to (-1, 1): https://onnx.ai/onnx/operators/onnx__Softsign.html
// Infinities give NaN, as the quotient of the formula does.
var Softsign = floatOp("Softsign", 1, 22, "Y = X / (1 + |X|)", func(x float64) float64 { return x / (1 + math.Abs(x)) }).But(ops.ZeroSignPassed)

// Mish is X times the tanh of its softplus: https://onnx.ai/onnx/operators/onnx__Mish.html
var Mish = floatOp("Mish", 18, 22, "Y = X · tanh(softplus(X))", func(x float64) float64 { return x * math.Tanh(kit.Softplus(x)) }).But(ops.ZeroSignPassed)
