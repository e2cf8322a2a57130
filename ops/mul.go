package ops

import "github.com/berth-onnx/berth/ssa"

// Mul is elementwise multiplication: https://onnx.ai/onnx/operators/onnx__Mul.html
var Mul = binaryOp("Mul", 14, "C = A · B", arithmetic{
	float: func(a, b float64) float64 { return a * b },
	int:   func(a, b int64) int64 { return a * b },
	uint:  func(a, b uint64) uint64 { return a * b },
	cplx:  func(a, b complex128) complex128 { return a * b },
}.eval, exactly(ssa.Dim.Mul), arithmeticForm()).broadcasting().legacy().but(Commutative, UnitOne, ZeroSignPassed)
