package ops

import "github.com/berth-onnx/berth/ssa"

// arithmeticForm is the Form of the four basic operations: which element types
// they took on over time.
func arithmeticForm() func(*ssa.Node) int {
	return formBy(typeStep{7, floatTypes | wideTypes}, typeStep{13, bfloatType}, typeStep{14, anyType})
}

// Add is elementwise addition: https://onnx.ai/onnx/operators/onnx__Add.html
var Add = Op{
	Name: "Add", Since: 14, Form: arithmeticForm(), Doc: "C = A + B",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer:    rule(inferArithmetic),
	Eval:     kernel(addition.eval),
	Facts:    Facts{Elementwise: true, Commutative: true},
	Upgrades: legacyBroadcast("Add"),
}

// addition is also what Sum folds with.
var addition = arithmetic{
	float: func(a, b float64) float64 { return a + b },
	f32:   func(a, b float32) float32 { return a + b },
	int:   func(a, b int64) int64 { return a + b },
	uint:  func(a, b uint64) uint64 { return a + b },
	cplx:  func(a, b complex128) complex128 { return a + b },
}
