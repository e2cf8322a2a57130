package rewrite

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Activations written out. A pattern is read from its last node back; constants may
// stand on either side, and x + 3 may be any chain that adds up to it (Context.linear,
// Context.plus).
//
//	1 / (1 + exp(-x))                                  Sigmoid(x)
//	clip(a*x + b, 0, 1),  clip(a*x + b, 0, h) / h      HardSigmoid(x; a, b)
//	x * clip(x + 3, 0, 6) / 6                          HardSwish(x)
//	x * sigmoid(a*x)                                   Swish(x; a)
//	x * tanh(softplus(x))                              Mish(x)
//	x/2 * (1 + erf(x/√2))                              Gelu(x)
//	x/2 * (1 + tanh(√(2/π) * (x + 0.044715 x³)))       Gelu(x; tanh)
//
// Source: the formulas and function bodies at https://onnx.ai/onnx/operators/.

// fuseSigmoid: 1/(1 + exp(-x)).
func fuseSigmoid(c *Context, n *ssa.Node) bool {
	x := operandOf(operandOf(c.plus(n.In[0], 1, n), "Exp"), "Neg")
	return x != nil && c.fused(n, "Sigmoid", []*ssa.Value{x})
}

// hardSigmoid is h * HardSigmoid(x; alpha, beta), written out with depth nodes ahead of a Clip.
type hardSigmoid struct {
	x              *ssa.Value
	alpha, beta, h float64
	depth          int
}

func (s *hardSigmoid) attrs() []ssa.Attr {
	return []ssa.Attr{ssa.FloatAttr("alpha", float32(s.alpha)), ssa.FloatAttr("beta", float32(s.beta))}
}

// attribute reports that a number for elements of x may be stored as an attribute, which is a float32.
func attribute(x *ssa.Value, v float64) bool {
	return v == 0 || normal(ndarray.Float32, v) && (x.Type.DType != ndarray.Float64 || float64(float32(v)) == v)
}

// hardSigmoidOf reads v as clip(a*x + b, 0, h) = h * HardSigmoid(x; a/h, b/h); nil if it is something else.
func (c *Context) hardSigmoidOf(v *ssa.Value) *hardSigmoid {
	if m := def(v, "HardSigmoid"); m != nil {
		return &hardSigmoid{m.In[0], float64(ops.Float(m, "alpha")), float64(ops.Float(m, "beta")), 1, 0}
	}
	m := def(v, "Clip")
	if m == nil {
		return nil
	}
	k, ok := clampOf(m)
	if !ok || k.lo != 0 || math.IsInf(k.hi, 1) || k.hi <= 0 {
		return nil
	}
	x, a, b, depth := c.linear(m.In[0], m)
	s := &hardSigmoid{x, a / k.hi, b / k.hi, k.hi, depth}
	if !attribute(x, s.alpha) || !attribute(x, s.beta) {
		return nil
	}
	return s
}

// fuseHardSigmoidClip: clip(a*x + b, 0, 1).
func fuseHardSigmoidClip(c *Context, n *ssa.Node) bool {
	s := c.hardSigmoidOf(n.Out[0])
	return s != nil && s.h == 1 && s.depth > 0 && c.fused(n, "HardSigmoid", []*ssa.Value{s.x}, s.attrs()...)
}

// fuseHardSigmoid: clip(a*x + b, 0, h) / h.
func fuseHardSigmoid(c *Context, n *ssa.Node) bool {
	p := c.productOf(n)
	if len(p.factors) != 1 || def(p.factors[0], "Clip") == nil || soleReader(c, p.factors[0]) == nil {
		return false
	}
	s := c.hardSigmoidOf(p.factors[0])
	return s != nil && s.depth > 0 && near(p.coef*s.h, 1, n.Out[0].Type.DType) &&
		c.fused(n, "HardSigmoid", []*ssa.Value{s.x}, s.attrs()...)
}

// fuseHardSwish: x * clip(x + 3, 0, 6) / 6. Where the operator set lacks it, x
// times HardSigmoid is still fewer nodes.
func fuseHardSwish(c *Context, n *ssa.Node) bool {
	p := c.productOf(n)
	if len(p.factors) != 2 {
		return false
	}
	dt := n.Out[0].Type.DType
	for i := range 2 {
		x, v := p.factors[1-i], p.factors[i]
		s := c.hardSigmoidOf(v)
		if s == nil || s.x != x || soleReader(c, v) == nil || !near(p.coef*s.h, 1, dt) {
			continue
		}
		if near(s.alpha, 1.0/6, dt) && near(s.beta, 0.5, dt) && c.fused(n, "HardSwish", []*ssa.Value{x}) {
			return true
		}
		return s.depth > 0 && c.runs("HardSigmoid", dt) && c.become(n, "Mul", []*ssa.Value{x, c.op(n, v.Name, "HardSigmoid", []*ssa.Value{x}, s.attrs()...)})
	}
	return false
}

// fuseSwish: x * sigmoid(a*x).
func fuseSwish(c *Context, n *ssa.Node) bool {
	p := c.productOf(n)
	if len(p.factors) != 2 || p.coef != 1 {
		return false
	}
	for i := range 2 {
		m := def(p.factors[i], "Sigmoid")
		if m == nil || soleReader(c, m.Out[0]) == nil {
			continue
		}
		if x, a, b, _ := c.linear(m.In[0], m); x == p.factors[1-i] && b == 0 && attribute(x, a) {
			return c.fused(n, "Swish", []*ssa.Value{x}, ssa.FloatAttr("alpha", float32(a)))
		}
	}
	return false
}

// fuseMish: x * tanh(softplus(x)).
func fuseMish(c *Context, n *ssa.Node) bool {
	for i := range 2 {
		x := operandOf(operandOf(n.In[i], "Tanh"), "Softplus")
		if x != nil && x == n.In[1-i] && c.only(n.In[i], n) {
			return c.fused(n, "Mish", []*ssa.Value{x})
		}
	}
	return false
}

// fuseGelu: x/2 * (1 + erf(x/sqrt(2))), or with tanh(sqrt(2/pi) * (x + 0.044715 x^3))
// instead of erf.
func fuseGelu(c *Context, n *ssa.Node) bool {
	p := c.productOf(n)
	dt := n.Out[0].Type.DType
	if len(p.factors) != 2 || !near(p.coef, 0.5, dt) {
		return false
	}
	for i := range 2 {
		x, sum := p.factors[1-i], p.factors[i]
		reader := soleReader(c, sum)
		if reader == nil {
			continue
		}
		inner := c.plus(sum, 1, reader)
		if e := def(inner, "Erf"); e != nil {
			y, a, b, _ := c.linear(e.In[0], e)
			if y == x && b == 0 && near(a, math.Sqrt(0.5), dt) {
				return c.fused(n, "Gelu", []*ssa.Value{x})
			}
		}
		if e := def(inner, "Tanh"); e != nil && c.geluTanhArgument(e.In[0], x) {
			return c.fused(n, "Gelu", []*ssa.Value{x}, ssa.StringAttr("approximate", "tanh"))
		}
	}
	return false
}

// geluTanhArgument recognizes sqrt(2/pi) * (x + 0.044715 x^3), also factored as
// sqrt(2/pi) * x * (1 + 0.044715 x^2).
func (c *Context) geluTanhArgument(v, x *ssa.Value) bool {
	m := def(v, "Mul", "Div")
	if m == nil {
		return false
	}
	p := c.productOf(m)
	if !near(p.coef, math.Sqrt(2/math.Pi), x.Type.DType) {
		return false
	}
	switch len(p.factors) {
	case 1:
		s := def(p.factors[0], "Add")
		return s != nil && (s.In[0] == x && c.powerOf(s.In[1], x, 3) || s.In[1] == x && c.powerOf(s.In[0], x, 3))
	case 2:
		for i := range 2 {
			if p.factors[i] == x && c.powerOf(c.plus(p.factors[1-i], 1, nil), x, 2) {
				return true
			}
		}
	}
	return false
}

// powerOf reports that v is 0.044715 * x^k.
func (c *Context) powerOf(v, x *ssa.Value, k int) bool {
	m := def(v, "Mul", "Div")
	if m == nil {
		return false
	}
	p := c.productOf(m)
	degree := 0
	for _, f := range p.factors {
		switch pow := def(f, "Pow"); {
		case f == x:
			degree++
		case pow != nil && pow.In[0] == x:
			e, ok := numberBeside(pow, 1)
			if !ok || e != 2 && e != 3 {
				return false
			}
			degree += int(e)
		case def(f, "Mul") != nil && f.Def.In[0] == x && f.Def.In[1] == x:
			degree += 2
		default:
			return false
		}
	}
	return degree == k && near(p.coef, 0.044715, x.Type.DType)
}
