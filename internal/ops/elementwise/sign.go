package elementwise

import (
	"cmp"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// Sign is -1, 0 or 1: https://onnx.ai/onnx/operators/onnx__Sign.html
// NaN stays NaN, both zeros give 0.
var Sign = unaryOp("Sign", 13, "Y = X > 0 ? 1 : X < 0 ? -1 : 0", unary{
	float: func(x float64) float64 {
		switch {
		case x > 0:
			return 1
		case x < 0:
			return -1
		case x == 0:
			return 0
		}
		return x
	},
	int:  func(x int64) int64 { return int64(cmp.Compare(x, 0)) },
	uint: func(x uint64) uint64 { return min(x, 1) },
}.eval, kit.FormBy(kit.From(9, kit.FloatTypes|kit.IntegerTypes), kit.From(13, kit.AnyType))).But(ops.ZeroSignPassed, ops.Idempotent)
