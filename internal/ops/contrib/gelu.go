package contrib

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// MSGelu is Gelu of the com.microsoft domain: Y = X/2 · (1 + erf(X/√2)).
var MSGelu = ops.Op{
	Domain: Microsoft, Name: "Gelu", Since: 1, Doc: "Y = X/2 · (1 + erf(X/√2))",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.ElementwiseTraits},
	Eval: kit.Kernel(func(c *ops.Call) { kit.EvalBiased(c, kit.Gelu) }),
}

// BiasGelu is gelu(A + B), B a vector along the last dimension.
var BiasGelu = ops.Op{
	Domain: Microsoft, Name: "BiasGelu", Since: 1, Doc: "C = gelu(A + B)",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst},
	Eval: kit.Kernel(func(c *ops.Call) { kit.EvalBiased(c, kit.Gelu) }),
}

// FastGelu is gelu by its tanh approximation, of X + bias:
//
//	Y = X/2 · (1 + tanh(√(2/π) · (X + 0.044715·X³)))
var FastGelu = ops.Op{
	Domain: Microsoft, Name: "FastGelu", Since: 1, Doc: "Y = gelu(X + bias) by the tanh approximation",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.GeneralTraits, InPlace: kit.InPlaceFirst},
	Eval: kit.Kernel(func(c *ops.Call) { kit.EvalBiased(c, kit.GeluTanh) }),
}

// QuickGelu is x * sigmoid(alpha * x).
var QuickGelu = ops.Op{
	Domain: Microsoft, Name: "QuickGelu", Since: 1, Doc: "Y = X * sigmoid(alpha * X)",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.FloatAttr("alpha", 1.702)},
	Infer: ops.SameAs, Facts: ops.Facts{Traits: ops.ElementwiseTraits},
	Eval: kit.Kernel(func(c *ops.Call) {
		alpha := float64(ops.Float(c.Node, "alpha"))
		kit.EvalBiased(c, func(x float64) float64 { return x * kit.Sigmoid(alpha*x) })
	}),
}

// BiasSplitGelu adds a bias and gates the first half of the last dimension by
// the gelu of the second: Y = X1 * gelu(X2), [X1 X2] = X + bias.
var BiasSplitGelu = ops.Op{
	Domain: Microsoft, Name: "BiasSplitGelu", Since: 1, Doc: "Y = X1 * gelu(X2), [X1 X2] = X + bias",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		x := ops.InType(n, 0)
		if x.Ranked && x.Rank() != 3 {
			kit.Failf("operand %s, expected rank 3", x)
		}
		return ops.One(ssa.TensorOf(x.DType, kit.DimOf(x, 0), kit.DimOf(x, 1), kit.DimOf(x, 2).FloorDiv(ssa.D(2))))
	}),
	Eval: kit.FloatKernel(evalBiasSplitGelu[float32], evalBiasSplitGelu[float64]),
}

func evalBiasSplitGelu[T float32 | float64](c *ops.Call) {
	watch := kit.Watching(c)
	x := c.Array(0)
	kit.WantRank("X", x, 3)
	d := x.Shape[2]
	if d%2 != 0 {
		kit.Failf("X has shape %v, whose last dimension is odd", x.Shape)
	}
	kit.WantShape("bias", c.Array(1), d)
	y := kit.NewResult[T](c, 0, x.DType, x.Shape[0], x.Shape[1], d/2)
	v, b := kit.Elements[T](c, x), kit.Elements[T](c, c.Array(1))
	for i := range y.V {
		watch.Did(1)
		row, j := i/(d/2)*d, i%(d/2)
		y.V[i] = (v[row+j] + b[j]) * T(kit.Gelu(float64(v[row+d/2+j]+b[d/2+j])))
	}
	y.Store()
}
