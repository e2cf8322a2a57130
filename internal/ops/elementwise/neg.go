package elementwise

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Neg flips the sign: https://onnx.ai/onnx/operators/onnx__Neg.html
var Neg = withContent(withConsumedInputs(unaryOp("Neg", 13, "Y = -X", unary{
	float: func(x float64) float64 { return -x },
	int:   func(x int64) int64 { return -x },
}.eval, kit.FormBy(kit.From(6, kit.FloatTypes|kit.SignedTypes), kit.From(13, kit.AnyType)))), func(d ssa.Dim) ssa.Dim { return d.MulN(-1) }).But(ops.ZeroSignPassed, ops.Involutive)
