package elementwise

import (
	"github.com/berth-onnx/berth/ops"
)

// Div is elementwise division: https://onnx.ai/onnx/operators/onnx__Div.html
// Integer quotients are cut off towards 0; dividing an integer by 0 is an error.
var Div = withConsumedInputs(broadcasting(binaryOp("Div", 14, "C = A / B", evalDiv, quotientContent, arithmeticForm))).But(ops.UnitOne, ops.FailsIntegers)

func evalDiv(c *ops.Call) {
	checkDivisor(c)
	binary{
		float: func(a, b float64) float64 { return a / b },
		int:   func(a, b int64) int64 { return a / b },
		uint:  func(a, b uint64) uint64 { return a / b },
		cplx:  func(a, b complex128) complex128 { return a / b },
	}.eval(c)
}
