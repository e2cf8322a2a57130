package elementwise

import (
	"math"

	"github.com/berth-onnx/berth/ops"
)

// Sqrt is the square root, NaN for negative elements:
// https://onnx.ai/onnx/operators/onnx__Sqrt.html
// A float32 root taken in float64 and rounded is the correctly rounded root.
var Sqrt = withConsumedInputs(floatOp("Sqrt", 6, 13, "Y = √X", math.Sqrt)).But(ops.ZeroSignPassed)

// Reciprocal is 1/X: https://onnx.ai/onnx/operators/onnx__Reciprocal.html
var Reciprocal = withConsumedInputs(floatOp("Reciprocal", 6, 13, "Y = 1 / X", func(x float64) float64 { return 1 / x })).But(ops.ZeroSignRead)
