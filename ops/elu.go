package ops

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Elu is the exponential linear unit: https://onnx.ai/onnx/operators/onnx__Elu.html
var Elu = unaryOp("Elu", 22, "Y = X < 0 ? alpha·(eˣ - 1) : X", evalElu,
	formBy(typeStep{6, floatTypes}, typeStep{22, anyType})).legacy().with(ssa.AttrFloat, "alpha")

func evalElu(c *Call) {
	unary{float: elu(float64(c.Node.Float("alpha", 1)))}.eval(c)
}

// Selu is the scaled exponential linear unit: https://onnx.ai/onnx/operators/onnx__Selu.html
var Selu = unaryOp("Selu", 22, "Y = gamma · (X > 0 ? X : alpha·eˣ - alpha)", evalSelu,
	formBy(typeStep{6, floatTypes}, typeStep{22, anyType})).legacy().with(ssa.AttrFloat, "alpha", "gamma")

func evalSelu(c *Call) {
	alpha, gamma := float64(c.Node.Float("alpha", seluAlpha)), float64(c.Node.Float("gamma", seluGamma))
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
	formBy(typeStep{12, typesOf(ndarray.Float32)}, typeStep{28, anyType})).with(ssa.AttrFloat, "alpha")

func evalCelu(c *Call) {
	alpha := float64(c.Node.Float("alpha", 1))
	unary{float: func(x float64) float64 {
		return math.Max(0, x) + math.Min(0, alpha*math.Expm1(x/alpha))
	}}.eval(c)
}
