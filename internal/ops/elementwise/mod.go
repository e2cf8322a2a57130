package elementwise

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Mod is the remainder of a division: https://onnx.ai/onnx/operators/onnx__Mod.html
//
//	fmod=0   C = A - floor(A/B)·B   has the sign of B, like Python's %
//	fmod=1   C = A - trunc(A/B)·B   has the sign of A, like C's fmod
//
// An integer remainder by 0 is an error.
var Mod = kit.WithAttrs(binaryOp("Mod", 28, "C = A mod B", evalMod, remainderContent, modForm),
	ops.IntAttr("fmod", 0).Between(0, 1)).But(ops.ZeroSignPassed, ops.FailsIntegers)

// modForm: floats with fmod=0 are allowed since 28 only.
func modForm(n *ssa.Node) int {
	dt := ops.InType(n, 0).DType
	if dt.IsFloat() && ops.Int(n, "fmod") == 0 {
		return 28
	}
	return kit.VersionFor(dt, kit.From(10, kit.FloatTypes|kit.IntegerTypes), kit.From(13, kit.AnyType))
}

func evalMod(c *ops.Call) {
	checkDivisor(c)
	mod := binary{
		float: math.Mod,
		int:   func(a, b int64) int64 { return a % b },
		uint:  func(a, b uint64) uint64 { return a % b },
	}
	if ops.Int(c.Node, "fmod") == 0 {
		mod.float = floorMod
		mod.int = func(a, b int64) int64 {
			if r := a % b; r == 0 || (r < 0) == (b < 0) {
				return r
			}
			return a%b + b
		}
	}
	mod.eval(c)
}

// floorMod gives a remainder the sign of the divisor, zeros included.
func floorMod(a, b float64) float64 {
	switch r := math.Mod(a, b); {
	case r == 0:
		return math.Copysign(0, b)
	case (r < 0) != (b < 0):
		return r + b // for an infinite b this is b itself
	default:
		return r
	}
}
