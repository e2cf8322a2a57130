package rewrite

import (
	"math"
	"slices"
	"sort"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Fuse recognizes operators that exporters wrote out in smaller ones: activations
// (fuseact.go) and normalizations (fusenorm.go). The result is always one standard ONNX
// operator; where the operator set the model may use is too old for it, the pattern
// stays (Options.MaxOpset).
var Fuse = &Pass{
	Name: "fuse", Doc: "operators written out in smaller ones -> the operator",
	rules: []rule{
		{"x/2 * (1 + erf(x/√2)) -> Gelu", named("Mul"), fuseGelu},
		{"x * clip(x + 3, 0, 6) / 6 -> HardSwish", named("Mul", "Div"), fuseHardSwish},
		{"x * sigmoid(a*x) -> Swish", named("Mul"), fuseSwish},
		{"x * tanh(softplus(x)) -> Mish", named("Mul"), fuseMish},
		{"clip(a*x + b, 0, h) / h -> HardSigmoid", named("Mul", "Div"), fuseHardSigmoid},
		{"clip(a*x + b, 0, 1) -> HardSigmoid", named("Clip"), fuseHardSigmoidClip},
		{"1 / (1 + exp(-x)) -> Sigmoid", named("Reciprocal"), fuseSigmoid},
		{"exp(x - max x) / sum -> Softmax", named("Div"), fuseSoftmax},
		{"(x - mean) / sqrt(variance + eps) -> LayerNormalization", named("Div"), fuseLayerNorm},
		{"x / sqrt(mean(x^2) + eps) -> RMSNormalization", named("Div"), fuseRMSNorm},
		{"Reshape, InstanceNormalization, Reshape -> GroupNormalization", named("Reshape"), fuseGroupNorm},
	},
}

// fused replaces n by op on the operands, if the operator sets allow that and the result
// has the shape of operand 0, as every result of this pass has.
func (c *Context) fused(n *ssa.Node, op string, in []*ssa.Value, attrs ...ssa.Attr) bool {
	x, y := in[0].Type, n.Out[0].Type
	if x.Ranked && y.Ranked && !sameShape(x, y) {
		return false
	}
	made := &ssa.Node{Op: op, In: in, Attrs: attrs, Out: n.Out}
	if !c.allows(made) {
		c.withheld[n] = made
		return false
	}
	return c.become(n, op, in, attrs...)
}

// withheldFrom counts, by operator, the patterns of a graph that need a newer operator set.
func (c *Context) withheldFrom(g *ssa.Graph) (out []Withheld) {
	g.Walk(func(g *ssa.Graph) {
		for _, n := range g.Nodes {
			m := c.withheld[n]
			if m == nil {
				continue
			}
			w := Withheld{Op: m.Op, Opset: formOf(m)}
			i := slices.IndexFunc(out, func(x Withheld) bool { return x.Op == w.Op && x.Opset == w.Opset })
			if i < 0 {
				i, out = len(out), append(out, w)
			}
			out[i].Count++
		}
	})
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		return a.Opset < b.Opset || a.Opset == b.Opset && a.Op < b.Op
	})
	return out
}

// near compares a constant with the number of a formula: exporters round to the
// element type, which may happen to several factors of it.
func near(got, want float64, dt ndarray.DType) bool {
	tol := max(2*formats[dt].unit, 1e-12)
	if dt == ndarray.Float32 {
		tol = 1e-6 // also numbers written with seven digits
	}
	return math.Abs(got-want) <= tol*math.Abs(want)
}

// product is coef times the factors: Mul and Div by numbers, flattened through
// nodes that only the product reads.
type product struct {
	coef    float64
	factors []*ssa.Value
}

func (c *Context) productOf(n *ssa.Node) product {
	p := product{coef: 1}
	c.multiply(&p, n)
	return p
}

func (c *Context) multiply(p *product, n *ssa.Node) {
	in := n.In
	if is(n, "Div") {
		k, ok := numberBeside(n, 1)
		if !ok {
			p.factors = append(p.factors, n.Out[0])
			return
		}
		p.coef /= k
		in = in[:1]
	}
	for i, v := range in {
		if k, ok := numberBeside(n, i); ok {
			p.coef *= k
		} else if m := def(v, "Mul", "Div"); m != nil && c.only(v, n) && len(p.factors) < 8 {
			c.multiply(p, m)
		} else {
			p.factors = append(p.factors, v)
		}
	}
}

// number is the value of a constant of one element.
func number(v *ssa.Value) (float64, bool) {
	if v == nil || v.Const == nil || v.Const.Len() != 1 {
		return 0, false
	}
	return scalar(v)
}

// numberBeside is the number that operand i of a node with two operands is, if the result
// has the shape of the other one: a number of shape [1,1] makes a matrix of a vector.
func numberBeside(n *ssa.Node, i int) (float64, bool) {
	k, ok := number(n.Input(i))
	if !ok || len(n.In) != 2 || n.In[1-i] == nil {
		return 0, false
	}
	shape := n.In[i].Const.Shape()
	return k, len(shape) == 0 || keepsShape(n.In[1-i].Type, shape)
}

// linear reads v as a*x + b with numbers a and b, through nodes only v's chain
// reads; depth says how many there were. It is v itself where b cancels ([sameRangeOfSum]).
func (c *Context) linear(v *ssa.Value, reader *ssa.Node) (x *ssa.Value, a, b float64, depth int) {
	var chain []*ssa.Node
	for x = v; ; {
		n := def(x, "Add", "Sub", "Mul", "Div")
		if n == nil || !c.only(x, reader) {
			break
		}
		y, at := otherThanNumber(n)
		if at < 0 || at == 1 && (n.Op == "Sub" || n.Op == "Div") {
			break
		}
		chain = append(chain, n)
		x, reader = y, n
	}
	a, b = 1, 0
	for _, n := range slices.Backward(chain) {
		_, at := otherThanNumber(n)
		k, _ := number(n.In[1-at])
		if n.Op == "Sub" {
			k = -k
		}
		switch n.Op {
		case "Add", "Sub":
			if b != 0 && !sameRangeOfSum(v.Type.DType, b, k, b+k) {
				return v, 1, 0, 0
			}
			b += k
		case "Mul":
			a, b = a*k, b*k
		case "Div":
			a, b = a/k, b/k
		}
	}
	return x, a, b, len(chain)
}

// otherThanNumber returns the operand that is no number and its index, -1 if it
// is not exactly one.
func otherThanNumber(n *ssa.Node) (*ssa.Value, int) {
	_, ok0 := numberBeside(n, 0)
	_, ok1 := numberBeside(n, 1)
	switch {
	case ok0 == ok1:
		return nil, -1
	case ok0:
		return n.In[1], 1
	}
	return n.In[0], 0
}

// plus returns v where the operand is v + k and only reader (if given) reads the
// sum.
func (c *Context) plus(sum *ssa.Value, k float64, reader *ssa.Node) *ssa.Value {
	n := def(sum, "Add")
	if n == nil || reader != nil && !c.only(sum, reader) {
		return nil
	}
	for i := range 2 {
		if f, ok := numberBeside(n, i); ok && f == k {
			return n.In[1-i]
		}
	}
	return nil
}
