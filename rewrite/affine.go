package rewrite

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// FoldAffine folds what follows a convolution or matrix product and only scales
// and shifts its channels into the weights:
//
//	y = conv(x, W) + b                         Conv
//	z = (y - mean) / sqrt(var+eps) * g + h     BatchNormalization, all constant
//	r = z * k + l                              Mul, Add with one number per channel
//
//	r = s*y + t,  s = g*k/sqrt(var+eps),  t = (h - mean*g/sqrt(var+eps))*k + l
//	  = conv(x, s*W) + (s*b + t)
//
// The chain (BatchNormalization, Mul, Div, Add, Sub, Neg, in any order) is
// collected as one pair s, t per channel. It is absorbed by Conv, ConvTranspose,
// Gemm, MatMul (which keeps an Add for t), and by the scale and bias of a
// normalization. Weights are computed in float64 and rounded once.
var FoldAffine = &Pass{
	Name: "fold-affine", Doc: "Conv/Gemm/MatMul/normalization, then batch norm, Mul, Add by channel -> weights that do it all",
	Makes: BatchNormFolded,
	run: func(c *Context, g *ssa.Graph) error {
		for _, n := range slices.Clone(g.Nodes) {
			if !c.alive(n) {
				continue
			}
			if a := absorberOf(n); a != nil {
				if err := c.foldChain(n, a); err != nil {
					return err
				}
			}
		}
		return nil
	},
}

// affine is r = s*y + t along one axis of y.
type affine struct {
	s, t  channels
	nodes []*ssa.Node
}

// then appends r = s2*(s*y+t) + t2.
func (a *affine) then(n *ssa.Node, s2, t2 channels) {
	a.t = a.t.zip(s2, func(t, s float64) float64 { return t * s }).zip(t2, func(x, y float64) float64 { return x + y })
	a.s = a.s.zip(s2, func(x, y float64) float64 { return x * y })
	a.nodes = append(a.nodes, n)
}

// last is the value the chain computes.
func (a *affine) last() *ssa.Value { return a.nodes[len(a.nodes)-1].Out[0] }

// chain collects what follows v along single readers.
func (c *Context) chain(v *ssa.Value, axis, count int) affine {
	a := affine{s: channels{1}, t: channels{0}}
	for len(v.Uses()) == 1 && !c.graph.IsResult(v) {
		n := v.Uses()[0].Node
		s, t, ok := affineStep(n, v, axis, count)
		if !ok || !s.finite() || !t.finite() {
			break
		}
		a.then(n, s, t)
		v = n.Out[0]
	}
	return a
}

// affineStep reads one node of a chain: its result is s*v + t.
func affineStep(n *ssa.Node, v *ssa.Value, axis, count int) (s, t channels, ok bool) {
	if n.Opaque || n.Domain != "" {
		return nil, nil, false
	}
	switch n.Op {
	case "BatchNormalization":
		if axis != 1 || n.In[0] != v {
			return nil, nil, false
		}
		return batchNormStep(n, count)
	case "Neg":
		return channels{-1}, channels{0}, true
	case "Add", "Sub", "Mul", "Div":
		return arithmeticStep(n, v, axis, count)
	}
	return nil, nil, false
}

// batchNormStep turns an inference batch normalization into s and t.
func batchNormStep(n *ssa.Node, count int) (s, t channels, ok bool) {
	if ops.Int(n, "training_mode") != 0 || len(n.In) != 5 {
		return nil, nil, false
	}
	var p [4]channels // scale, bias, mean, variance
	for i := range p {
		if p[i], ok = vector(n.In[1+i], count); !ok {
			return nil, nil, false
		}
	}
	eps := float64(ops.Float(n, "epsilon"))
	s = p[0].zip(p[3], func(g, v float64) float64 { return g / math.Sqrt(v+eps) })
	t = p[1].zip(p[2].zip(s, func(m, s float64) float64 { return m * s }), func(b, m float64) float64 { return b - m })
	return s, t, true
}

// arithmeticStep reads v op constant and constant op v.
func arithmeticStep(n *ssa.Node, v *ssa.Value, axis, count int) (s, t channels, ok bool) {
	k, x, at := constFirst(n)
	if at < 0 || x != v || !keepsShape(x.Type, k.Const.Shape()) || !x.Type.DType.IsFloat() {
		return nil, nil, false
	}
	p, ok := perChannel(k.Const, x.Type.Rank(), axis, count)
	if !ok {
		return nil, nil, false
	}
	neg := p.zip(channels{-1}, func(a, b float64) float64 { return a * b })
	switch {
	case n.Op == "Add":
		return channels{1}, p, true
	case n.Op == "Sub" && at == 1:
		return channels{1}, neg, true
	case n.Op == "Sub":
		return channels{-1}, p, true
	case n.Op == "Mul":
		return p, channels{0}, true
	case at == 1:
		return p.zip(p, func(a, _ float64) float64 { return 1 / a }), channels{0}, true
	}
	return nil, nil, false
}

// foldChain absorbs the chain behind n, if there is one worth it.
func (c *Context) foldChain(n *ssa.Node, a *absorber) error {
	out := n.Out[0]
	rank := out.Type.Rank()
	if rank < 0 || rank <= a.axis(rank) || !out.Type.DType.IsFloat() {
		return nil
	}
	chain := c.chain(out, a.axis(rank), a.count)
	if len(chain.nodes) == 0 || !a.worth(chain) {
		return nil
	}
	if c.fillsOut(n.In[a.weight].Const, chain.s) {
		c.skip(n, "%s not folded: the weights repeat one number and would not any more", chain.nodes[0])
		return nil
	}
	in, why := a.absorb(n, chain)
	if why != "" {
		c.skip(n, "%s not folded: %s", chain.nodes[0], why)
		return nil
	}
	if added := c.swapBytes(n, chain, in); !c.fits(added) {
		c.skip(n, "%s not folded: would add %d bytes", chain.nodes[0], added)
		return nil
	}
	if !c.patch(n, "absorbs %d nodes, first %s", len(chain.nodes), chain.nodes[0]) {
		return nil
	}
	return c.replaceChain(n, a, chain, in)
}

// replaceChain puts the node with its new operands in the place of the chain.
func (c *Context) replaceChain(n *ssa.Node, a *absorber, chain affine, in []operand) error {
	last := chain.last()
	vals := make([]*ssa.Value, len(in))
	for i, o := range in {
		vals[i] = o.old
		if o.k != nil {
			vals[i] = c.constant(hint(o.old, n.Out[0].Name), o.k)
		}
	}
	m, err := c.copyNode(n, vals)
	if err != nil {
		return err
	}
	if a.scalesBeta {
		m.DropAttr("beta")
	}
	v := m.Out[0]
	if a.noBias && !chain.t.all(0) {
		k := chain.t.constant(v.Type.DType, a.count)
		add, err := c.node(chain.nodes[len(chain.nodes)-1], last.Name, "Add", []*ssa.Value{v, c.constant(n.Out[0].Name+"_bias", k)}, 1)
		if err != nil {
			return err
		}
		v = add.Out[0]
	}
	c.replace(last, v)
	return nil
}

func hint(v *ssa.Value, other string) string {
	if v != nil {
		return v.Name
	}
	return other + "_bias"
}

// copyNode adds a node like n, right before it, that reads other operands.
func (c *Context) copyNode(n *ssa.Node, in []*ssa.Value) (*ssa.Node, error) {
	return c.copyNodeWith(n, in, nil)
}

// copyNodeWith is copyNode with a change before the types are inferred.
func (c *Context) copyNodeWith(n *ssa.Node, in []*ssa.Value, change func(m *ssa.Node)) (*ssa.Node, error) {
	m := c.graph.InsertBefore(n, n.Op, in, len(n.Out), n.Attrs...)
	m.Domain, m.Overload, m.Version, m.Name, m.Doc = n.Domain, n.Overload, n.Version, n.Name, n.Doc
	for i, v := range n.Out {
		if v == nil {
			m.Out[i] = nil
		} else {
			m.Out[i].Name = c.fresh(v.Name)
		}
	}
	if change != nil {
		change(m)
	}
	return m, ops.Infer(m)
}

// swapBytes is what the new constants cost, less the constants that only the
// replaced nodes read.
func (c *Context) swapBytes(n *ssa.Node, chain affine, in []operand) int64 {
	var sum int64
	for _, o := range in {
		if o.k != nil {
			sum += o.k.StoredBytes()
		}
	}
	going := append([]*ssa.Node{n}, chain.nodes...)
	seen := map[*ssa.Value]bool{}
	for _, m := range going {
		for _, v := range m.In {
			if v == nil || v.Const == nil || seen[v] || slices.ContainsFunc(in, func(o operand) bool { return o.old == v && o.k == nil }) {
				continue
			}
			seen[v] = true
			if !slices.ContainsFunc(v.Uses(), func(u ssa.Use) bool { return !slices.Contains(going, u.Node) }) && !c.graph.IsResult(v) {
				sum -= v.Const.StoredBytes()
			}
		}
	}
	return sum
}

// fillsOut reports that scaling a splat by different numbers would write it out,
// and that this is more than may be added.
func (c *Context) fillsOut(w *ssa.Constant, s channels) bool {
	if _, splat := w.Splat(); !splat || s.all(s[0]) {
		return false
	}
	bytes := int64(w.Len()) * int64(w.DType().Size())
	return bytes > c.opts.Growth.PerNode || c.grown+bytes > c.opts.Growth.Total
}

// fits reports that so many bytes may be added, and counts them.
func (c *Context) fits(added int64) bool {
	if added > c.opts.Growth.PerNode || added > 0 && c.grown+added > c.opts.Growth.Total {
		return false
	}
	c.grown += max(added, 0)
	return true
}
