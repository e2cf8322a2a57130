package ops

import "github.com/berth-onnx/berth/ssa"

// MSGelu is Gelu of the com.microsoft domain: Y = X/2 · (1 + erf(X/√2)).
var MSGelu = Op{
	Domain: microsoft, Name: "Gelu", Since: 1, Doc: "Y = X/2 · (1 + erf(X/√2))",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Infer: SameAs, Facts: Facts{Traits: elementwise},
	Eval: kernel(func(c *Call) { evalBiased(c, gelu) }),
}

// BiasGelu is gelu(A + B), B a vector along the last dimension.
var BiasGelu = Op{
	Domain: microsoft, Name: "BiasGelu", Since: 1, Doc: "C = gelu(A + B)",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: SameAs, Facts: Facts{Traits: general, InPlace: inPlaceFirst},
	Eval: kernel(func(c *Call) { evalBiased(c, gelu) }),
}

// FastGelu is gelu by its tanh approximation, of X + bias:
//
//	Y = X/2 · (1 + tanh(√(2/π) · (X + 0.044715·X³)))
var FastGelu = Op{
	Domain: microsoft, Name: "FastGelu", Since: 1, Doc: "Y = gelu(X + bias) by the tanh approximation",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: SameAs, Facts: Facts{Traits: general, InPlace: inPlaceFirst},
	Eval: kernel(func(c *Call) { evalBiased(c, geluTanh) }),
}

// QuickGelu is x * sigmoid(alpha * x).
var QuickGelu = Op{
	Domain: microsoft, Name: "QuickGelu", Since: 1, Doc: "Y = X * sigmoid(alpha * X)",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{floatAttr("alpha", 1.702)},
	Infer: SameAs, Facts: Facts{Traits: elementwise},
	Eval: kernel(func(c *Call) {
		alpha := float64(Float(c.Node, "alpha"))
		evalBiased(c, func(x float64) float64 { return x * sigmoid(alpha*x) })
	}),
}

// BiasSplitGelu adds a bias and gates the first half of the last dimension by
// the gelu of the second: Y = X1 * gelu(X2), [X1 X2] = X + bias.
var BiasSplitGelu = Op{
	Domain: microsoft, Name: "BiasSplitGelu", Since: 1, Doc: "Y = X1 * gelu(X2), [X1 X2] = X + bias",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred {
		x := InType(n, 0)
		if x.Ranked && x.Rank() != 3 {
			failf("operand %s, expected rank 3", x)
		}
		return One(ssa.TensorOf(x.DType, dimOf(x, 0), dimOf(x, 1), dimOf(x, 2).FloorDiv(ssa.D(2))))
	}),
	Eval: floatKernel(evalBiasSplitGelu[float32], evalBiasSplitGelu[float64]),
}

func evalBiasSplitGelu[T float32 | float64](c *Call) {
	x := c.Array(0)
	wantRank("X", x, 3)
	d := x.Shape[2]
	if d%2 != 0 {
		failf("X has shape %v, whose last dimension is odd", x.Shape)
	}
	wantShape("bias", c.Array(1), d)
	y := newResult[T](c, 0, x.DType, x.Shape[0], x.Shape[1], d/2)
	v, b := elements[T](x), elements[T](c.Array(1))
	for i := range y.V {
		row, j := i/(d/2)*d, i%(d/2)
		y.V[i] = (v[row+j] + b[j]) * T(gelu(float64(v[row+d/2+j]+b[d/2+j])))
	}
	y.store()
}
