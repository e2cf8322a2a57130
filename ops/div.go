package ops

import (
	"errors"
	"slices"
)

// Div is elementwise division: https://onnx.ai/onnx/operators/onnx__Div.html
// Integer quotients are cut off towards 0; dividing an integer by 0 is an error.
var Div = binaryOp("Div", 14, "C = A / B", evalDiv, arithmeticForm()).broadcasting()

// errZeroDivisor is the error of integer division by zero.
var errZeroDivisor = errors.New("integer division by zero")

func evalDiv(c *Call) {
	checkDivisor(c)
	arithmetic{
		float: func(a, b float64) float64 { return a / b },
		int:   func(a, b int64) int64 { return a / b },
		uint:  func(a, b uint64) uint64 { return a / b },
		cplx:  func(a, b complex128) complex128 { return a / b },
	}.eval(c)
}

// checkDivisor rejects a zero in an integer operand 1 that meets any element of
// operand 0.
func checkDivisor(c *Call) {
	a, b := c.Array(0), c.Array(1)
	if a == nil || b == nil || !b.DType.IsInteger() || a.Len() == 0 {
		return
	}
	if slices.Contains(b.Ints(), 0) {
		check(errZeroDivisor)
	}
}
