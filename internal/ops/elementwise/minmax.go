package elementwise

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Min is the elementwise minimum of any number of tensors:
// https://onnx.ai/onnx/operators/onnx__Min.html
// NaN in any operand gives NaN (math.Min would prefer -Inf).
var Min = variadicOp("Min", 13, "Y = min(X₀, X₁, …)", variadic{step: binary{
	float: func(a, b float64) float64 { return min(a, b) },
	int:   func(a, b int64) int64 { return min(a, b) },
	uint:  func(a, b uint64) uint64 { return min(a, b) },
}, content: exactly(ssa.Dim.Min)}, minMaxForm).But(ops.Idempotent)

// Max is the elementwise maximum of any number of tensors:
// https://onnx.ai/onnx/operators/onnx__Max.html
// NaN in any operand gives NaN (math.Max would prefer +Inf).
var Max = variadicOp("Max", 13, "Y = max(X₀, X₁, …)", variadic{step: binary{
	float: func(a, b float64) float64 { return max(a, b) },
	int:   func(a, b int64) int64 { return max(a, b) },
	uint:  func(a, b uint64) uint64 { return max(a, b) },
}, content: exactly(ssa.Dim.Max)}, minMaxForm).But(ops.Idempotent)

var minMaxForm = kit.FormBy(kit.From(8, kit.FloatTypes), kit.From(12, kit.IntegerTypes), kit.From(13, kit.AnyType))
