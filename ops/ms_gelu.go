package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ssa"
)

// MSGelu is Gelu of the com.microsoft domain: Y = X/2 · (1 + erf(X/√2)).
var MSGelu = Op{
	Domain: microsoft, Name: "Gelu", Since: 1, Doc: "Y = X/2 · (1 + erf(X/√2))",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Infer: SameAs, Facts: Facts{Elementwise: true},
	Eval: func(c *Call) error { return evalBiased(c, gelu) },
}

// BiasGelu is gelu(A + B), B a vector along the last dimension.
var BiasGelu = Op{
	Domain: microsoft, Name: "BiasGelu", Since: 1, Doc: "C = gelu(A + B)",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: SameAs, Facts: Facts{InPlace: inPlaceFirst},
	Eval: func(c *Call) error { return evalBiased(c, gelu) },
}

// FastGelu is gelu by its tanh approximation, of X + bias:
//
//	Y = X/2 · (1 + tanh(√(2/π) · (X + 0.044715·X³)))
var FastGelu = Op{
	Domain: microsoft, Name: "FastGelu", Since: 1, Doc: "Y = gelu(X + bias) by the tanh approximation",
	MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: SameAs, Facts: Facts{InPlace: inPlaceFirst},
	Eval: func(c *Call) error { return evalBiased(c, geluTanh) },
}

// QuickGelu is x * sigmoid(alpha * x).
var QuickGelu = Op{
	Domain: microsoft, Name: "QuickGelu", Since: 1, Doc: "Y = X * sigmoid(alpha * X)",
	MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{{Name: "alpha", Kind: ssa.AttrFloat}},
	Infer: SameAs, Facts: Facts{Elementwise: true},
	Eval: func(c *Call) error {
		alpha := float64(c.Node.Float("alpha", 1.702))
		return evalBiased(c, func(x float64) float64 { return x * sigmoid(alpha*x) })
	},
}

// BiasSplitGelu adds a bias and gates the first half of the last dimension by
// the gelu of the second: Y = X1 * gelu(X2), [X1 X2] = X + bias.
var BiasSplitGelu = Op{
	Domain: microsoft, Name: "BiasSplitGelu", Since: 1, Doc: "Y = X1 * gelu(X2), [X1 X2] = X + bias",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: func(n *ssa.Node) ([]Inferred, error) {
		x := InType(n, 0)
		if x.Ranked && x.Rank() != 3 {
			return nil, fmt.Errorf("operand %s, expected rank 3", x)
		}
		return One(ssa.TensorOf(x.DType, dimOf(x, 0), dimOf(x, 1), dimOf(x, 2).FloorDiv(ssa.D(2)))), nil
	},
	Eval: func(c *Call) error {
		return byReal(c, 0, evalBiasSplitGelu[float32], evalBiasSplitGelu[float64])
	},
}

// evalBiased applies f to operand 0 plus the optional vector operand 1.
func evalBiased(c *Call, f func(float64) float64) error {
	return byReal(c, 0, func(c *Call) error { return biased[float32](c, f) }, func(c *Call) error { return biased[float64](c, f) })
}

func biased[T realNum](c *Call, f func(float64) float64) error {
	x := c.Array(0)
	bias, err := spread[T]("bias", c.Array(1), x.Shape)
	if err != nil {
		return err
	}
	y, err := newReal[T](c, 0, x.DType, x.Shape...)
	if err != nil {
		return err
	}
	for i, v := range reals[T](x) {
		if bias != nil {
			v += bias[i%len(bias)]
		}
		y.V[i] = T(f(float64(v)))
	}
	return y.store()
}

func evalBiasSplitGelu[T float32 | float64](c *Call) error {
	x := c.Array(0)
	if err := wantRank("X", x, 3); err != nil {
		return err
	}
	d := x.Shape[2]
	if d%2 != 0 {
		return fmt.Errorf("X has shape %v, whose last dimension is odd", x.Shape)
	}
	if err := wantShape("bias", c.Array(1), d); err != nil {
		return err
	}
	y, err := newReal[T](c, 0, x.DType, x.Shape[0], x.Shape[1], d/2)
	if err != nil {
		return err
	}
	v, b := reals[T](x), reals[T](c.Array(1))
	for i := range y.V {
		row, j := i/(d/2)*d, i%(d/2)
		y.V[i] = (v[row+j] + b[j]) * T(gelu(float64(v[row+d/2+j]+b[d/2+j])))
	}
	return y.store()
}
