package ops

import "github.com/berth-onnx/berth/ssa"

// arithmeticForm is the Form of the four basic operations: which element types
// they took on over time.
func arithmeticForm() func(*ssa.Node) int {
	return formBy(typeStep{7, floatTypes | wideTypes}, typeStep{13, bfloatType}, typeStep{14, anyType})
}

// Add is elementwise addition: https://onnx.ai/onnx/operators/onnx__Add.html
var Add = binaryOp("Add", 14, "C = A + B", addition.eval, arithmeticForm()).commutative().broadcasting()

// addition is also what Sum folds with.
var addition = arithmetic{
	float: func(a, b float64) float64 { return a + b },
	int:   func(a, b int64) int64 { return a + b },
	uint:  func(a, b uint64) uint64 { return a + b },
	cplx:  func(a, b complex128) complex128 { return a + b },
}
