package elementwise

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
)

// Sum adds any number of tensors: https://onnx.ai/onnx/operators/onnx__Sum.html
// Narrow floats are added in float64 and rounded once.
var Sum = variadicOp("Sum", 13, "Y = X₀ + X₁ + …", variadic{step: addition},
	kit.FloatForm(8, 13))

// Mean averages any number of tensors: https://onnx.ai/onnx/operators/onnx__Mean.html
var Mean = variadicOp("Mean", 13, "Y = (X₀ + X₁ + … + Xₙ₋₁) / n", variadic{step: addition, mean: true},
	kit.FloatForm(8, 13))
