package elementwise

import (
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Mul is elementwise multiplication: https://onnx.ai/onnx/operators/onnx__Mul.html
var Mul = withConsumedInputs(broadcasting(binaryOp("Mul", 14, "C = A · B", binary{
	float: func(a, b float64) float64 { return a * b },
	int:   func(a, b int64) int64 { return a * b },
	uint:  func(a, b uint64) uint64 { return a * b },
	cplx:  func(a, b complex128) complex128 { return a * b },
}.eval, exactly(ssa.Dim.Mul), arithmeticForm))).But(ops.Commutative, ops.UnitOne, ops.ZeroSignPassed)
