package elementwise

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// Exp is the natural exponential: https://onnx.ai/onnx/operators/onnx__Exp.html
var Exp = withConsumedInputs(floatOp("Exp", 6, 13, "Y = eˣ", kit.Exp)).But(ops.ZeroSignCleared)

// Log is the natural logarithm: https://onnx.ai/onnx/operators/onnx__Log.html
// Log of 0 is -∞, of a negative element NaN.
var Log = withConsumedInputs(floatOp("Log", 6, 13, "Y = ln X", kit.Log)).But(ops.ZeroSignIgnored)
