package elementwise

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Abs is the absolute value: https://onnx.ai/onnx/operators/onnx__Abs.html
// The smallest integer of a signed type is its own absolute value.
var Abs = withContent(withConsumedInputs(unaryOp("Abs", 13, "Y = |X|", unary{
	float: math.Abs,
	int:   func(x int64) int64 { return max(x, -x) },
	uint:  func(x uint64) uint64 { return x },
}.eval, kit.FormBy(kit.From(6, kit.FloatTypes|kit.IntegerTypes), kit.From(13, kit.AnyType)))), absContent).But(ops.ZeroSignCleared, ops.Idempotent)

func absContent(d ssa.Dim) ssa.Dim {
	if k, ok := d.Const(); ok {
		return ssa.D(max(k, -k))
	}
	if d.NonNegative() {
		return d
	}
	return ssa.Dim{}
}
