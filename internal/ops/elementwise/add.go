package elementwise

import (
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Add is elementwise addition: https://onnx.ai/onnx/operators/onnx__Add.html
var Add = withConsumedInputs(broadcasting(binaryOp("Add", 14, "C = A + B", addition.eval, exactly(ssa.Dim.Add), arithmeticForm))).But(ops.Commutative, ops.UnitNegativeZero, ops.ZeroSignPassed)

// addition is also what Sum and Mean fold with.
var addition = binary{
	float: func(a, b float64) float64 { return a + b },
	int:   func(a, b int64) int64 { return a + b },
	uint:  func(a, b uint64) uint64 { return a + b },
	cplx:  func(a, b complex128) complex128 { return a + b },
}
