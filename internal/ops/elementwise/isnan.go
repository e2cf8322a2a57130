package elementwise

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// predicateOp maps every element of a float tensor to a boolean.
func predicateOp(name, doc string, form func(*ssa.Node) int, eval func(c *ops.Call)) ops.Op {
	o := unaryOp(name, 20, doc, eval, form).But(ops.ZeroSignIgnored, ops.Composes)
	o.Infer = kit.Rule(func(n *ssa.Node) []ops.Inferred { return ops.One(kit.Retyped(ops.InType(n, 0), ndarray.Bool)) })
	return o
}

func evalPredicate(c *ops.Call, f func(float64) bool) {
	a := kit.Tensor(c, 0)
	if !a.DType.IsFloat() {
		kit.Check(kit.UnsupportedType(a.DType))
	}
	out := kit.Result(c, 0, ndarray.Bool, a.Shape...)
	kit.Convert(c, ndarray.Slice[bool](out), kit.Elements[float64](c, a), f)
}

// IsNaN marks elements that are not a number: https://onnx.ai/onnx/operators/onnx__IsNaN.html
var IsNaN = predicateOp("IsNaN", "Y = X is NaN",
	kit.FormBy(kit.From(9, kit.FloatTypes), kit.From(13, kit.BfloatType), kit.From(20, kit.AnyType)),
	func(c *ops.Call) { evalPredicate(c, math.IsNaN) })

// IsInf marks infinite elements: https://onnx.ai/onnx/operators/onnx__IsInf.html
// Each sign can be switched off.
var IsInf = kit.WithAttrs(predicateOp("IsInf", "Y = X is +∞ (detect_positive) or -∞ (detect_negative)",
	kit.FormBy(kit.From(10, kit.FloatTypes&^kit.TypesOf(ndarray.Float16)), kit.From(20, kit.AnyType)), evalIsInf),
	ops.IntAttr("detect_negative", 1), ops.IntAttr("detect_positive", 1))

func evalIsInf(c *ops.Call) {
	neg, pos := ops.Int(c.Node, "detect_negative") != 0, ops.Int(c.Node, "detect_positive") != 0
	evalPredicate(c, func(x float64) bool { return pos && math.IsInf(x, 1) || neg && math.IsInf(x, -1) })
}
