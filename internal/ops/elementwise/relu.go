package elementwise

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Relu cuts off negative elements: https://onnx.ai/onnx/operators/onnx__Relu.html
// NaN stays NaN.
var Relu = withConsumedInputs(unaryOp("Relu", 14, "Y = max(0, X)", unary{
	float: func(x float64) float64 {
		if x < 0 {
			return 0
		}
		return x
	},
	int:  func(x int64) int64 { return max(x, 0) },
	uint: func(x uint64) uint64 { return x },
}.eval, kit.FormBy(kit.From(6, kit.FloatTypes), kit.From(13, kit.BfloatType), kit.From(14, kit.AnyType)))).But(ops.ZeroSignPassed, ops.Idempotent)

// LeakyRelu scales negative elements: https://onnx.ai/onnx/operators/onnx__LeakyRelu.html
var LeakyRelu = withConsumedInputs(alphaOp("LeakyRelu", 16, "Y = X < 0 ? alpha·X : X", 0.01, kit.FloatForm(6, 16), kit.LeakyRelu))

// ThresholdedRelu keeps what is above alpha:
// https://onnx.ai/onnx/operators/onnx__ThresholdedRelu.html
var ThresholdedRelu = alphaOp("ThresholdedRelu", 22, "Y = X > alpha ? X : 0", 1, kit.FloatForm(10, 22), func(alpha float64) kit.RealFunc {
	return func(x float64) float64 {
		if x > alpha {
			return x
		}
		return 0
	}
})

// PRelu scales negative elements by a tensor that broadcasts to X:
// https://onnx.ai/onnx/operators/onnx__PRelu.html
var PRelu = ops.Op{
	Name: "PRelu", Since: 16, Doc: "Y = X < 0 ? slope·X : X",
	Form:  kit.FormBy(kit.From(7, kit.FloatTypes), kit.From(9, kit.WideTypes), kit.From(16, kit.AnyType)),
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: kit.Rule(inferPRelu), Eval: kit.Kernel(evalPRelu),
	Facts:    ops.Facts{Traits: ops.ElementwiseTraits.But(ops.ElementwiseInLayout, ops.ZeroSignPassed)},
	Attrs:    []*ops.AttrSpec{kit.ConsumedInputs},
	Upgrades: []ops.Upgrade{{Below: 7, Source: kit.Changelog("PRelu", 7), Apply: upgradePRelu}},

	Downgrades: []ops.Downgrade{{Below: 7, Form: kit.FormBy(kit.From(1, kit.FloatTypes), kit.From(7, kit.AnyType)), Apply: downgradePRelu}},
}

// downgradePRelu makes a slope per channel one of rank 1.
func downgradePRelu(u *ops.Upgrader, n *ssa.Node) error {
	x, slope := ops.InType(n, 0).Rank(), ops.InType(n, 1)
	if k := slope.Rank(); k > 1 && k == x-1 {
		squeezeTrailing(u, n, 1, 1)
	}
	if s := ops.InType(n, 1); s.Rank() != 1 || !s.Shape[0].Is(1) && slope.Rank() != max(x-1, 1) {
		return fmt.Errorf("slope %s is not one per channel", slope)
	}
	return nil
}

// upgradePRelu lines a per-channel slope [C] up with axis 1 of X.
func upgradePRelu(u *ops.Upgrader, n *ssa.Node) error {
	slope, x := ops.InType(n, 1), ops.InType(n, 0)
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

func inferPRelu(n *ssa.Node) []ops.Inferred {
	kit.SameDType(n, 0, 1)
	kit.Check(ops.CheckBroadcast("slope", ops.InType(n, 1), ops.InType(n, 0)))
	return kit.Try(ops.SameAs(n))
}

func evalPRelu(c *ops.Call) {
	x, slope, shape := operandPair(c)
	if !slices.Equal(shape, x.Shape) {
		kit.Failf("slope of shape %v does not broadcast to %v", slope.Shape, x.Shape)
	}
	binary{
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
