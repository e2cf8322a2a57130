package ops

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
)

// IsNaN marks elements that are not a number: https://onnx.ai/onnx/operators/onnx__IsNaN.html
var IsNaN = Op{
	Name: "IsNaN", Since: 20, Doc: "Y = X is NaN",
	Form:  formBy(typeStep{9, floatTypes}, typeStep{13, bfloatType}, typeStep{20, anyType}),
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Infer: rule(inferPredicate), Eval: kernel(func(c *Call) { predicate(c, math.IsNaN) }),
	Facts: Facts{Traits: elementwise.but(ZeroSignIgnored)},
}

// IsInf marks infinite elements: https://onnx.ai/onnx/operators/onnx__IsInf.html
// Each sign can be switched off.
var IsInf = Op{
	Name: "IsInf", Since: 20, Doc: "Y = X is +∞ (detect_positive) or -∞ (detect_negative)",
	Form:  formBy(typeStep{10, floatTypes &^ typesOf(ndarray.Float16)}, typeStep{20, anyType}),
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("detect_negative", 1), intAttr("detect_positive", 1)},
	Infer: rule(inferPredicate), Eval: kernel(evalIsInf),
	Facts: Facts{Traits: elementwise.but(ZeroSignIgnored)},
}

func evalIsInf(c *Call) {
	neg, pos := Int(c.Node, "detect_negative") != 0, Int(c.Node, "detect_positive") != 0
	predicate(c, func(x float64) bool { return pos && math.IsInf(x, 1) || neg && math.IsInf(x, -1) })
}
