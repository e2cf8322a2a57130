package ops

// Shrink moves elements towards 0: https://onnx.ai/onnx/operators/onnx__Shrink.html
// Integers are computed as floats and truncated.
var Shrink = unaryOp("Shrink", 9, "Y = X < -lambd ? X + bias : X > lambd ? X - bias : 0", evalShrink, since(9)).
	with(floatAttr("lambd", 0.5), floatAttr("bias", 0)).but(ZeroSignPassed, Composes)

func evalShrink(c *Call) {
	bias, lambd := float64(Float(c.Node, "bias")), float64(Float(c.Node, "lambd"))
	f := func(x float64) float64 {
		switch {
		case x < -lambd:
			return x + bias
		case x > lambd:
			return x - bias
		}
		return 0
	}
	unary{
		float: f,
		int:   func(x int64) int64 { return truncToInt64(f(float64(x))) },
		uint:  func(x uint64) uint64 { return uint64(truncToInt64(f(float64(x)))) },
	}.eval(c)
}
