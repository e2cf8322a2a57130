package ops

import (
	"errors"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
)

// Div is elementwise division: https://onnx.ai/onnx/operators/onnx__Div.html
// Integer quotients are cut off towards 0; dividing an integer by 0 is an error.
var Div = Op{
	Name: "Div", Since: 14, Form: arithmeticForm(), Doc: "C = A / B",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: rule(inferArithmetic), Eval: kernel(evalDiv),
	Facts:    Facts{Elementwise: true},
	Upgrades: legacyBroadcast("Div"),
}

// errZeroDivisor is the error of integer division by zero.
var errZeroDivisor = errors.New("integer division by zero")

func evalDiv(c *Call) {
	checkDivisor(c)
	evalArithmetic(c, arithmetic{
		float: func(a, b float64) float64 { return a / b },
		f32:   func(a, b float32) float32 { return a / b },
		int:   func(a, b int64) int64 { return a / b },
		uint:  func(a, b uint64) uint64 { return a / b },
		cplx:  func(a, b complex128) complex128 { return a / b },
	})
}

// checkDivisor rejects a zero in an integer operand 1 that meets any element of
// operand 0.
func checkDivisor(c *Call) {
	a, b := c.Array(0), c.Array(1)
	if a == nil || b == nil || !b.DType.IsInteger() || a.Len() == 0 {
		return
	}
	zero := false
	switch b.DType.Size() {
	case 1:
		zero = slices.Contains(b.Data, 0)
	case 2:
		zero = slices.Contains(ndarray.Slice[uint16](b), 0)
	case 4:
		zero = slices.Contains(ndarray.Slice[uint32](b), 0)
	default:
		zero = slices.Contains(ndarray.Slice[uint64](b), 0)
	}
	if zero {
		check(errZeroDivisor)
	}
}
