package elementwise

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// Gelu is the Gaussian error linear unit: https://onnx.ai/onnx/operators/onnx__Gelu.html
//
//	approximate="none"   Y = X/2 · (1 + erf(X/√2))
//	approximate="tanh"   Y = X/2 · (1 + tanh(√(2/π) · (X + 0.044715·X³)))
var Gelu = kit.WithAttrs(unaryOp("Gelu", 20, "Y = X/2 · (1 + erf(X/√2))", evalGelu, kit.Since(20)), ops.StrAttr("approximate", "none", "tanh")).But(ops.ZeroSignPassed, ops.Composes)

func evalGelu(c *ops.Call) {
	f := kit.Gelu
	if ops.Str(c.Node, "approximate") == "tanh" {
		f = kit.GeluTanh
	}
	unary{float: f}.eval(c)
}
