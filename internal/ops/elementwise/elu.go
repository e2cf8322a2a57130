package elementwise

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Elu is the exponential linear unit: https://onnx.ai/onnx/operators/onnx__Elu.html
var Elu = withConsumedInputs(alphaOp("Elu", 22, "Y = X < 0 ? alpha·(eˣ - 1) : X", 1, kit.FloatForm(6, 22), kit.Elu))

// Selu is the scaled exponential linear unit: https://onnx.ai/onnx/operators/onnx__Selu.html
var Selu = kit.WithAttrs(withConsumedInputs(unaryOp("Selu", 22, "Y = gamma · (X > 0 ? X : alpha·eˣ - alpha)", evalSelu, kit.FloatForm(6, 22))),
	ops.FloatAttr("alpha", 1.6732).Before(6), ops.FloatAttr("alpha", kit.SeluAlpha).From(6),
	ops.FloatAttr("gamma", 1.0507).Before(6), ops.FloatAttr("gamma", kit.SeluGamma).From(6)).But(ops.ZeroSignPassed, ops.Composes)

func evalSelu(c *ops.Call) {
	alpha, gamma := float64(ops.Float(c.Node, "alpha")), float64(ops.Float(c.Node, "gamma"))
	unary{float: func(x float64) float64 {
		if x > 0 {
			return gamma * x
		}
		return gamma * alpha * math.Expm1(x)
	}}.eval(c)
}

// Celu is the continuously differentiable exponential linear unit:
// https://onnx.ai/onnx/operators/onnx__Celu.html
var Celu = alphaOp("Celu", 28, "Y = max(0, X) + min(0, alpha·(exp(X/alpha) - 1))", 1,
	kit.FormBy(kit.From(12, kit.TypesOf(ndarray.Float32)), kit.From(28, kit.AnyType)), func(alpha float64) kit.RealFunc {
		return func(x float64) float64 { return math.Max(0, x) + math.Min(0, alpha*math.Expm1(x/alpha)) }
	})
