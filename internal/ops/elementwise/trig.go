package elementwise

import (
	"math"

	"github.com/berth-onnx/berth/ops"
)

// Sin is the sine of an angle in radians: https://onnx.ai/onnx/operators/onnx__Sin.html
var Sin = floatOp("Sin", 7, 22, "Y = sin X", math.Sin).But(ops.ZeroSignPassed)

// Cos is the cosine of an angle in radians: https://onnx.ai/onnx/operators/onnx__Cos.html
var Cos = floatOp("Cos", 7, 22, "Y = cos X", math.Cos).But(ops.ZeroSignIgnored)

// Tan is the tangent of an angle in radians: https://onnx.ai/onnx/operators/onnx__Tan.html
var Tan = floatOp("Tan", 7, 22, "Y = tan X", math.Tan).But(ops.ZeroSignPassed)

// Asin is the arc sine in radians, NaN outside [-1, 1]:
// https://onnx.ai/onnx/operators/onnx__Asin.html
var Asin = floatOp("Asin", 7, 22, "Y = asin X", math.Asin).But(ops.ZeroSignPassed)

// Acos is the arc cosine in radians, NaN outside [-1, 1]:
// https://onnx.ai/onnx/operators/onnx__Acos.html
var Acos = floatOp("Acos", 7, 22, "Y = acos X", math.Acos).But(ops.ZeroSignCleared)

// Atan is the arc tangent in radians: https://onnx.ai/onnx/operators/onnx__Atan.html
var Atan = floatOp("Atan", 7, 22, "Y = atan X", math.Atan).But(ops.ZeroSignPassed)
