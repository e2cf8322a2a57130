package elementwise

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// Sinh is the hyperbolic sine: https://onnx.ai/onnx/operators/onnx__Sinh.html
var Sinh = floatOp("Sinh", 9, 22, "Y = (eˣ - e⁻ˣ) / 2", kit.Sinh).But(ops.ZeroSignPassed)

// Cosh is the hyperbolic cosine: https://onnx.ai/onnx/operators/onnx__Cosh.html
var Cosh = floatOp("Cosh", 9, 22, "Y = (eˣ + e⁻ˣ) / 2", kit.Cosh).But(ops.ZeroSignCleared)

// Asinh is the inverse hyperbolic sine: https://onnx.ai/onnx/operators/onnx__Asinh.html
var Asinh = floatOp("Asinh", 9, 22, "Y = asinh X", math.Asinh).But(ops.ZeroSignPassed)

// Acosh is the inverse hyperbolic cosine, NaN below 1:
// https://onnx.ai/onnx/operators/onnx__Acosh.html
var Acosh = floatOp("Acosh", 9, 22, "Y = acosh X", math.Acosh).But(ops.ZeroSignIgnored)

// Atanh is the inverse hyperbolic tangent, NaN outside [-1, 1]:
// https://onnx.ai/onnx/operators/onnx__Atanh.html
var Atanh = floatOp("Atanh", 9, 22, "Y = atanh X", math.Atanh).But(ops.ZeroSignPassed)

// Tanh is the hyperbolic tangent: https://onnx.ai/onnx/operators/onnx__Tanh.html
var Tanh = withConsumedInputs(floatOp("Tanh", 6, 13, "Y = (eˣ - e⁻ˣ) / (eˣ + e⁻ˣ)", math.Tanh)).But(ops.ZeroSignPassed)
