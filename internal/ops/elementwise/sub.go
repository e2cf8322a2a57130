package elementwise

import (
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Sub is elementwise subtraction: https://onnx.ai/onnx/operators/onnx__Sub.html
var Sub = withConsumedInputs(broadcasting(binaryOp("Sub", 14, "C = A - B", binary{
	float: func(a, b float64) float64 { return a - b },
	int:   func(a, b int64) int64 { return a - b },
	uint:  func(a, b uint64) uint64 { return a - b },
	cplx:  func(a, b complex128) complex128 { return a - b },
}.eval, exactly(ssa.Dim.Sub), arithmeticForm))).But(ops.UnitZero, ops.ZeroSignPassed)
