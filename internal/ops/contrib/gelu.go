package contrib

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
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
