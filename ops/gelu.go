package ops

import (
	"math"

	"github.com/berth-onnx/berth/ssa"
)

// Gelu is the Gaussian error linear unit: https://onnx.ai/onnx/operators/onnx__Gelu.html
//
//	approximate="none"   Y = X/2 · (1 + erf(X/√2))
//	approximate="tanh"   Y = X/2 · (1 + tanh(√(2/π) · (X + 0.044715·X³)))
var Gelu = unaryOp("Gelu", 20, "Y = X/2 · (1 + erf(X/√2))", evalGelu, since(20)).with(ssa.AttrString, "approximate")

func evalGelu(c *Call) {
	switch kind := c.Node.Str("approximate", "none"); kind {
	case "none":
		evalUnary(c, unary{float: gelu})
	case "tanh":
		evalUnary(c, unary{float: geluTanh})
	default:
		check(badAttr("approximate", kind, "none or tanh"))
	}
}

// gelu uses erfc, which keeps its digits where 1+erf would cancel.
func gelu(x float64) float64 { return 0.5 * x * math.Erfc(-x/math.Sqrt2) }

func geluTanh(x float64) float64 {
	return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}
