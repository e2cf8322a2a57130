package ops

import ()

// Gelu is the Gaussian error linear unit: https://onnx.ai/onnx/operators/onnx__Gelu.html
//
//	approximate="none"   Y = X/2 · (1 + erf(X/√2))
//	approximate="tanh"   Y = X/2 · (1 + tanh(√(2/π) · (X + 0.044715·X³)))
var Gelu = unaryOp("Gelu", 20, "Y = X/2 · (1 + erf(X/√2))", evalGelu, since(20)).with(strAttr("approximate", "none", "tanh")).but(ZeroSignPassed, Composes)

func evalGelu(c *Call) {
	switch kind := Str(c.Node, "approximate"); kind {
	case "none":
		unary{float: gelu}.eval(c)
	case "tanh":
		unary{float: geluTanh}.eval(c)
	default:
		check(badAttr("approximate", kind, "none or tanh"))
	}
}
