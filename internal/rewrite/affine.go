package rewrite

import (
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// FoldAffine folds an epilogue into weights: nodes behind a convolution or matrix
// product that only scale and shift its channels.
//
//	y = conv(x, W) + b                         Conv
//	z = (y - mean) / sqrt(var+eps) * g + h     BatchNormalization, all constant
//	r = z * k + l                              Mul, Add with one number per channel
//
//	r = s*y + t,  s = g*k/sqrt(var+eps),  t = (h - mean*g/sqrt(var+eps))*k + l
//	  = conv(x, s*W) + (s*b + t)
//
// The chain (BatchNormalization, Mul, Div, Add, Sub, Neg, in any order) is
// collected as one pair s, t per channel. It is folded into Conv, ConvTranspose,
// Gemm, MatMul (which keeps an Add for t), and into the scale and bias of a
// normalization. Weights are computed in float64 and rounded once.
var FoldAffine = &Pass{
	Name: "fold-affine", Doc: "Conv/Gemm/MatMul/normalization, then batch norm, Mul, Add by channel -> weights that do it all",
	rules: []rule{{"a linear node, a chain by channel -> the node with other weights", with(linear), foldEpilogue}},
}

func linear(f *ops.Facts) bool { return f.Linear != nil }

// foldEpilogue folds the chain behind n, if there is one worth it.
func foldEpilogue(c *Context, n *ssa.Node) bool {
	out := n.Output(0)
	if out == nil || len(out.Uses()) == 0 || !scales(out.Uses()[0].Node) {
		return false
	}
	l := ops.LinearOf(n)
	if l == nil {
		return false
	}
	axis, ok := axisOf(l.Out, out.Type)
	if !ok {
		return false
	}
	chain := c.chain(out, axis, l.Out.Count())
	if len(chain.nodes) == 0 || !chain.worth(l) || !chain.s.finite() || !chain.t.finite() || c.materializes(n.In[l.Weight].Const, chain.s) {
		return false
	}
	f := c.folding(n, l, chain, n.In[0])
	k := chain.t.constant(out.Type.DType, l.Out.Count())
	if k == nil || !f.scale(l.Out) || !f.shift() || !f.pays() {
		return false
	}
	v := f.rebuild()
	if l.Bias < 0 && !chain.t.all(0) {
		v = c.op(chain.last().Def, chain.last().Name, "Add", []*ssa.Value{v, c.constant(out.Name+"_bias", k)})
	}
	c.replace(chain.last(), v)
	return true
}

// shift makes the bias s·b + t, where there is anything to shift.
func (f *folding) shift() bool {
	if f.l.Bias < 0 {
		return true
	}
	old := f.n.Input(f.l.Bias)
	if old == nil && f.chain.t.all(0) {
		return true
	}
	dt := f.n.Out[0].Type.DType
	if old != nil {
		dt = old.Type.DType
	}
	return f.bias(dt, func(b channels) channels {
		return b.zip(f.chain.s, func(b, s float64) float64 { return b * s }).zip(f.chain.t, func(x, t float64) float64 { return x + t })
	})
}

// worth reports that folding makes the graph cheaper. Without a bias, a single shift
// would be an Add again.
func (a *affine) worth(l *ops.Linear) bool {
	return l.Bias >= 0 || a.t.all(0) || len(a.nodes) > 1 || is(a.nodes[0], "BatchNormalization")
}

// chain collects the affine nodes behind v, along single readers.
func (c *Context) chain(v *ssa.Value, axis, count int) affine {
	a := affine{s: channels{1}, t: channels{0}}
	for len(v.Uses()) == 1 && !c.graph.IsResult(v) {
		n := v.Uses()[0].Node
		x, s, t := affineStep(n, axis, count)
		if x != v {
			break
		}
		a.then(n, s, t)
		v = n.Out[0]
	}
	return a
}
