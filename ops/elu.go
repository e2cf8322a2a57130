package ops

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
)

// Elu is the exponential linear unit: https://onnx.ai/onnx/operators/onnx__Elu.html
var Elu = unaryOp("Elu", 22, "Y = X < 0 ? alpha·(eˣ - 1) : X", evalElu,
	formBy(typeStep{6, floatTypes}, typeStep{22, anyType})).legacy().with(floatAttr("alpha", 1)).but(ZeroSignPassed, Composes)

func evalElu(c *Call) {
	unary{float: elu(float64(Float(c.Node, "alpha")))}.eval(c)
}

// Selu is the scaled exponential linear unit: https://onnx.ai/onnx/operators/onnx__Selu.html
var Selu = unaryOp("Selu", 22, "Y = gamma · (X > 0 ? X : alpha·eˣ - alpha)", evalSelu,
	formBy(typeStep{6, floatTypes}, typeStep{22, anyType})).legacy().
	with(floatAttr("alpha", 1.6732).until(6), floatAttr("alpha", seluAlpha).since(6), floatAttr("gamma", 1.0507).until(6), floatAttr("gamma", seluGamma).since(6)).but(ZeroSignPassed, Composes)

func evalSelu(c *Call) {
	alpha, gamma := float64(Float(c.Node, "alpha")), float64(Float(c.Node, "gamma"))
	unary{float: func(x float64) float64 {
		if x > 0 {
			return gamma * x
		}
		return gamma * alpha * math.Expm1(x)
	}}.eval(c)
}

// Celu is the continuously differentiable exponential linear unit:
// https://onnx.ai/onnx/operators/onnx__Celu.html
var Celu = unaryOp("Celu", 28, "Y = max(0, X) + min(0, alpha·(exp(X/alpha) - 1))", evalCelu,
	formBy(typeStep{12, typesOf(ndarray.Float32)}, typeStep{28, anyType})).with(floatAttr("alpha", 1)).but(ZeroSignPassed, Composes)

func evalCelu(c *Call) {
	alpha := float64(Float(c.Node, "alpha"))
	unary{float: func(x float64) float64 {
		return math.Max(0, x) + math.Min(0, alpha*math.Expm1(x/alpha))
	}}.eval(c)
}
