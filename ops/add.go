package ops

import "github.com/berth-onnx/berth/ssa"

// Add is elementwise addition: https://onnx.ai/onnx/operators/onnx__Add.html
var Add = binaryOp("Add", 14, "C = A + B", addition.eval, exactly(ssa.Dim.Add), arithmeticForm()).
	broadcasting().legacy().but(Commutative, UnitNegativeZero, ZeroSignPassed)
