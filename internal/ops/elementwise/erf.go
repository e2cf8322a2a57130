package elementwise

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// Erf is the error function: https://onnx.ai/onnx/operators/onnx__Erf.html
//
//	erf(x) = 2/√π ∫₀ˣ exp(-t²) dt
//
// Integers, which operator sets 9 to 12 allowed, are computed as floats and
// truncated.
var Erf = unaryOp("Erf", 13, "Y = erf(X)", unary{
	float: math.Erf,
	int:   func(x int64) int64 { return int64(math.Erf(float64(x))) },
	uint:  func(x uint64) uint64 { return uint64(math.Erf(float64(x))) },
}.eval, kit.FloatForm(9, 13)).But(ops.ZeroSignPassed, ops.Composes)
