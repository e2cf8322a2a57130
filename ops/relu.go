package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Relu cuts off negative elements: https://onnx.ai/onnx/operators/onnx__Relu.html
// NaN stays NaN.
var Relu = unaryOp("Relu", 14, "Y = max(0, X)", unary{
	float: func(x float64) float64 {
		if x < 0 {
			return 0
		}
		return x
	},
	int:  func(x int64) int64 { return max(x, 0) },
	uint: func(x uint64) uint64 { return x },
}.eval, formBy(typeStep{6, floatTypes}, typeStep{13, bfloatType}, typeStep{14, anyType})).legacy().but(ZeroSignPassed, Idempotent)

// LeakyRelu scales negative elements: https://onnx.ai/onnx/operators/onnx__LeakyRelu.html
var LeakyRelu = unaryOp("LeakyRelu", 16, "Y = X < 0 ? alpha·X : X", evalLeakyRelu,
	formBy(typeStep{6, floatTypes}, typeStep{16, anyType})).legacy().with(floatAttr("alpha", 0.01)).but(ZeroSignPassed, Composes)

func evalLeakyRelu(c *Call) {
	unary{float: leakyRelu(float64(Float(c.Node, "alpha")))}.eval(c)
}

// ThresholdedRelu keeps what is above alpha:
// https://onnx.ai/onnx/operators/onnx__ThresholdedRelu.html
var ThresholdedRelu = unaryOp("ThresholdedRelu", 22, "Y = X > alpha ? X : 0", evalThresholdedRelu,
	formBy(typeStep{10, floatTypes}, typeStep{22, anyType})).with(floatAttr("alpha", 1)).but(ZeroSignPassed, Composes)

func evalThresholdedRelu(c *Call) {
	alpha := float64(Float(c.Node, "alpha"))
	unary{float: func(x float64) float64 {
		if x > alpha {
			return x
		}
		return 0
	}}.eval(c)
}

// PRelu scales negative elements by a tensor that broadcasts to X:
// https://onnx.ai/onnx/operators/onnx__PRelu.html
var PRelu = Op{
	Name: "PRelu", Since: 16, Doc: "Y = X < 0 ? slope·X : X",
	Form:  formBy(typeStep{7, floatTypes}, typeStep{9, wideTypes}, typeStep{16, anyType}),
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: rule(inferPRelu), Eval: kernel(evalPRelu),
	Facts:    Facts{Traits: elementwise.but(ElementwiseInLayout, ZeroSignPassed)},
	Attrs:    []AttrSpec{consumedInputs},
	Upgrades: []Upgrade{{Below: 7, Source: changelog("PRelu", 7), Apply: upgradePRelu}},
}

// upgradePRelu lines a per-channel slope [C] up with axis 1 of X.
func upgradePRelu(u *Upgrader, n *ssa.Node) error {
	slope, x := InType(n, 1), InType(n, 0)
	if slope.Rank() != 1 || slope.Shape[0].Is(1) {
		return nil
	}
	if x.Rank() < 0 {
		return fmt.Errorf("a slope per channel needs an operand of known rank")
	}
	if trailing := x.Rank() - 2; trailing > 0 {
		unsqueezeTrailing(u, n, 1, 1, trailing)
	}
	return nil
}

func inferPRelu(n *ssa.Node) []Inferred {
	dt := sameDType(n, 0, 1)
	try(BroadcastTypes(dt, InType(n, 0), InType(n, 1)))
	return try(SameAs(n))
}

func evalPRelu(c *Call) {
	x, slope := c.Array(0), c.Array(1)
	if x != nil && slope != nil {
		shape := try(BroadcastShapes(x.Shape, slope.Shape))
		if n, err := ndarray.NumElems(shape); err != nil || n != x.Len() || len(shape) != len(x.Shape) {
			failf("slope of shape %v does not broadcast to %v", slope.Shape, x.Shape)
		}
	}
	arithmetic{
		float: func(x, s float64) float64 {
			if x < 0 {
				return s * x
			}
			return x
		},
		int: func(x, s int64) int64 {
			if x < 0 {
				return s * x
			}
			return x
		},
		uint: func(x, _ uint64) uint64 { return x },
	}.eval(c)
}
