package ops

import "github.com/berth-onnx/berth/ssa"

// Min is the elementwise minimum of any number of tensors:
// https://onnx.ai/onnx/operators/onnx__Min.html
// NaN in any operand gives NaN (math.Min would prefer -Inf).
var Min = variadicOp("Min", 13, "Y = min(X₀, X₁, …)", variadic{step: arithmetic{
	float: func(a, b float64) float64 { return min(a, b) },
	int:   func(a, b int64) int64 { return min(a, b) },
	uint:  func(a, b uint64) uint64 { return min(a, b) },
}, content: exactly(ssa.Dim.Min)}, minMaxForm).but(ZeroSignPassed, Idempotent)

// Max is the elementwise maximum of any number of tensors:
// https://onnx.ai/onnx/operators/onnx__Max.html
// NaN in any operand gives NaN (math.Max would prefer +Inf).
var Max = variadicOp("Max", 13, "Y = max(X₀, X₁, …)", variadic{step: arithmetic{
	float: func(a, b float64) float64 { return max(a, b) },
	int:   func(a, b int64) int64 { return max(a, b) },
	uint:  func(a, b uint64) uint64 { return max(a, b) },
}, content: exactly(ssa.Dim.Max)}, minMaxForm).but(ZeroSignPassed, Idempotent)

func minMaxForm(n *ssa.Node) int {
	return versionFor(InType(n, 0).DType, typeStep{8, floatTypes}, typeStep{12, integerTypes}, typeStep{13, anyType})
}
