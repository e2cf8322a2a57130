package gradient

import (
	"math"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The derivatives of activations and of trigonometric and hyperbolic functions, written with
// y = f(x), d the adjoint of y.

func init() {
	for name, f := range map[string]func(g *builder, x, y *ssa.Value) *ssa.Value{
		"Tan":  func(g *builder, _, y *ssa.Value) *ssa.Value { return g.plusNumber(g.square(y), 1) },
		"Asin": func(g *builder, x, _ *ssa.Value) *ssa.Value { return g.inverseRoot(g.oneMinus(g.square(x))) },
		"Acos": func(g *builder, x, _ *ssa.Value) *ssa.Value {
			return g.op("Neg", g.inverseRoot(g.oneMinus(g.square(x))))
		},
		"Atan":  func(g *builder, x, _ *ssa.Value) *ssa.Value { return g.op("Reciprocal", g.plusNumber(g.square(x), 1)) },
		"Sinh":  func(g *builder, x, _ *ssa.Value) *ssa.Value { return g.op("Cosh", x) },
		"Cosh":  func(g *builder, x, _ *ssa.Value) *ssa.Value { return g.op("Sinh", x) },
		"Asinh": func(g *builder, x, _ *ssa.Value) *ssa.Value { return g.inverseRoot(g.plusNumber(g.square(x), 1)) },
		"Acosh": func(g *builder, x, _ *ssa.Value) *ssa.Value { return g.inverseRoot(g.plusNumber(g.square(x), -1)) },
		"Atanh": func(g *builder, x, _ *ssa.Value) *ssa.Value { return g.op("Reciprocal", g.oneMinus(g.square(x))) },
		"Softsign": func(g *builder, x, _ *ssa.Value) *ssa.Value {
			return g.op("Reciprocal", g.square(g.plusNumber(g.op("Abs", x), 1)))
		},
		"Mish": mishSlope,
	} {
		rules[name] = pointwise(func(g *builder, x, y, d *ssa.Value) *ssa.Value { return g.op("Mul", d, f(g, x, y)) })
	}
	for name, f := range map[string]func(g *builder, n *ssa.Node, x, y *ssa.Value) *ssa.Value{
		"Elu": eluSlope, "Selu": eluSlope, "Celu": celuSlope, "HardSigmoid": hardSigmoidSlope, "HardSwish": hardSwishSlope,
		"ThresholdedRelu": thresholdedSlope, "Swish": swishSlope, "Gelu": geluSlope,
	} {
		rules[name] = func(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
			return []*ssa.Value{g.op("Mul", dy[0], f(g, n, n.In[0], n.Out[0]))}
		}
	}
	rules["PRelu"] = preluGradient
}

func (g *builder) square(x *ssa.Value) *ssa.Value { return g.op("Mul", x, x) }

func (g *builder) plusNumber(x *ssa.Value, v float64) *ssa.Value {
	return g.op("Add", x, g.number(x, v))
}

func (g *builder) oneMinus(x *ssa.Value) *ssa.Value { return g.op("Sub", g.number(x, 1), x) }

// inverseRoot is 1/√x.
func (g *builder) inverseRoot(x *ssa.Value) *ssa.Value { return g.op("Reciprocal", g.op("Sqrt", x)) }

// mishSlope: with s = tanh(softplus(x)), (x·s)' = s + x·(1 - s²)·sigmoid(x).
func mishSlope(g *builder, x, _ *ssa.Value) *ssa.Value {
	s := g.op("Tanh", g.op("Softplus", x))
	return g.op("Add", s, g.op("Mul", g.op("Mul", x, g.oneMinus(g.square(s))), g.op("Sigmoid", x)))
}

// eluSlope: γ where x > 0, else γ·α·e^x, which is y + γ·α; γ is 1 for Elu.
func eluSlope(g *builder, n *ssa.Node, x, y *ssa.Value) *ssa.Value {
	alpha, gamma := float64(ops.Float(n, "alpha")), 1.0
	if n.Op == "Selu" {
		gamma = float64(ops.Float(n, "gamma"))
	}
	return g.op("Where", g.above(x, 0), g.number(x, gamma), g.plusNumber(y, gamma*alpha))
}

// celuSlope: 1 where x > 0, else e^(x/α), which is y/α + 1.
func celuSlope(g *builder, n *ssa.Node, x, y *ssa.Value) *ssa.Value {
	falling := g.plusNumber(g.scaled(y, 1/float64(ops.Float(n, "alpha"))), 1)
	return g.op("Where", g.above(x, 0), g.number(x, 1), falling)
}

// inside is a where 0 < y < 1, else 0.
func (g *builder) inside(y *ssa.Value, a float64) *ssa.Value {
	between := g.op("And", g.above(y, 0), g.op("Less", y, g.number(y, 1)))
	return g.op("Where", between, g.number(y, a), g.number(y, 0))
}

func hardSigmoidSlope(g *builder, n *ssa.Node, _, y *ssa.Value) *ssa.Value {
	return g.inside(y, float64(ops.Float(n, "alpha")))
}

// hardSwishSlope: with s = HardSigmoid(x, 1/6, 1/2), (x·s)' = s + x·s'.
func hardSwishSlope(g *builder, _ *ssa.Node, x, _ *ssa.Value) *ssa.Value {
	s := g.with("HardSigmoid", []*ssa.Value{x}, ssa.FloatAttr("alpha", 1.0/6), ssa.FloatAttr("beta", 0.5))
	return g.op("Add", s, g.op("Mul", x, g.inside(s, 1.0/6)))
}

func thresholdedSlope(g *builder, n *ssa.Node, x, _ *ssa.Value) *ssa.Value {
	return g.op("Where", g.above(x, float64(ops.Float(n, "alpha"))), g.number(x, 1), g.number(x, 0))
}

// swishSlope: with s = sigmoid(αx), (x·s)' = s + α·x·s·(1 - s).
func swishSlope(g *builder, n *ssa.Node, x, _ *ssa.Value) *ssa.Value {
	alpha := float64(ops.Float(n, "alpha"))
	s := g.op("Sigmoid", g.scaled(x, alpha))
	return g.op("Add", s, g.op("Mul", g.scaled(x, alpha), g.op("Mul", s, g.oneMinus(s))))
}

// geluSlope: Φ(x) + x·φ(x), or for the approximation (1 + t)/2 + x·(1 - t²)·u'/2 with
// t = tanh(u), u = √(2/π)·(x + 0.044715x³).
func geluSlope(g *builder, n *ssa.Node, x, _ *ssa.Value) *ssa.Value {
	if ops.Str(n, "approximate") == "tanh" {
		k := math.Sqrt(2 / math.Pi)
		u := g.scaled(g.op("Mul", x, g.plusNumber(g.scaled(g.square(x), 0.044715), 1)), k)
		t := g.op("Tanh", u)
		slope := g.plusNumber(g.scaled(g.square(x), 3*0.044715*k), k)
		return g.scaled(g.op("Add", g.plusNumber(t, 1), g.op("Mul", g.op("Mul", x, slope), g.oneMinus(g.square(t)))), 0.5)
	}
	share := g.scaled(g.plusNumber(g.op("Erf", g.scaled(x, math.Sqrt(0.5))), 1), 0.5)
	density := g.scaled(g.op("Exp", g.scaled(g.square(x), -0.5)), 1/math.Sqrt(2*math.Pi))
	return g.op("Add", share, g.op("Mul", x, density))
}

// preluGradient: x where x > 0, else slope·x; the slope broadcasts.
func preluGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	x, slope, d := n.In[0], n.In[1], dy[0]
	out := make([]*ssa.Value, 2)
	if g.wants(n, 0) {
		out[0] = g.op("Where", g.above(x, 0), d, g.op("Mul", d, slope))
	}
	if g.wants(n, 1) {
		out[1] = g.sumTo(g.op("Where", g.above(x, 0), g.number(d, 0), g.op("Mul", d, x)), slope)
	}
	return out
}
