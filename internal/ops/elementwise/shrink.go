package elementwise

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// Shrink moves elements towards 0: https://onnx.ai/onnx/operators/onnx__Shrink.html
// Integers are computed as floats and truncated.
var Shrink = kit.WithAttrs(unaryOp("Shrink", 9, "Y = X < -lambd ? X + bias : X > lambd ? X - bias : 0", evalShrink, kit.Since(9)), ops.FloatAttr("lambd", 0.5), ops.FloatAttr("bias", 0)).But(ops.ZeroSignPassed, ops.Composes)

func evalShrink(c *ops.Call) {
	bias, lambd := float64(ops.Float(c.Node, "bias")), float64(ops.Float(c.Node, "lambd"))
	f := func(x float64) float64 { return kit.Shrunk(x, lambd, bias) }
	unary{
		float: f,
		int:   func(x int64) int64 { return kit.TruncToInt64(f(float64(x))) },
		uint:  func(x uint64) uint64 { return uint64(kit.TruncToInt64(f(float64(x)))) },
	}.eval(c)
}
