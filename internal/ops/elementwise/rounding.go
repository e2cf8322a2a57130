package elementwise

import (
	"math"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// sameContent is the content rule of roundings: contents are integers already.
func sameContent(d ssa.Dim) ssa.Dim { return d }

// Floor rounds down: https://onnx.ai/onnx/operators/onnx__Floor.html
var Floor = withContent(withConsumedInputs(floatOp("Floor", 6, 13, "Y = floor(X)", math.Floor)), sameContent).But(ops.ZeroSignPassed, ops.Idempotent)

// Ceil rounds up: https://onnx.ai/onnx/operators/onnx__Ceil.html
var Ceil = withContent(withConsumedInputs(floatOp("Ceil", 6, 13, "Y = ceil(X)", math.Ceil)), sameContent).But(ops.ZeroSignPassed, ops.Idempotent)

// Round rounds to the nearest integer, halves to the even one:
// https://onnx.ai/onnx/operators/onnx__Round.html
var Round = withContent(floatOp("Round", 11, 22, "Y = round_half_to_even(X)", math.RoundToEven), sameContent).But(ops.ZeroSignPassed, ops.Idempotent)
