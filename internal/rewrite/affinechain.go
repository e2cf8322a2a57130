package rewrite

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// What [FoldAffine] and [FoldBefore] share: chains of nodes that scale and shift
// channels, and the operands of the linear node that they are folded into.
//
//	y ─▶ Mul a ─▶ Add b ─▶ Mul c      one affine map: s = a·c, t = b·c

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

// scales reports a node of an operator that [affineStep] reads: most nodes are not, which costs nothing to see.
func scales(n *ssa.Node) bool {
	switch n.Op {
	case "BatchNormalization", "Neg", "Add", "Sub", "Mul", "Div":
		return n.Domain == ""
	}
	return false
}

// affineStep reads one node of a chain: its result is s*x + t. x is nil for nodes that
// are not affine, whose factors are not finite, or whose shift rounds ([channels.round]).
func affineStep(n *ssa.Node, axis, count int) (x *ssa.Value, s, t channels) {
	if !scales(n) {
		return nil, nil, nil
	}
	switch n.Op {
	case "BatchNormalization":
		if axis == 1 {
			x = n.In[0]
			s, t = batchNormStep(n, count)
		}
	case "Neg":
		return n.In[0], channels{-1}, channels{0}
	default:
		x, s, t = arithmeticStep(n, axis, count)
	}
	if s == nil || !s.finite() || !t.finite() || t.round() {
		return nil, nil, nil
	}
	return x, s, t
}

// batchNormStep turns an inference batch normalization into s and t, nil if they are not
// constants.
func batchNormStep(n *ssa.Node, count int) (s, t channels) {
	if ops.Int(n, "training_mode") != 0 || len(n.In) != 5 {
		return nil, nil
	}
	var p [4]channels // scale, bias, mean, variance
	for i := range p {
		var ok bool
		if p[i], ok = vector(n.In[1+i], count); !ok {
			return nil, nil
		}
	}
	eps := float64(ops.Float(n, "epsilon"))
	s = p[0].zip(p[3], func(g, v float64) float64 { return g / math.Sqrt(v+eps) })
	t = p[1].zip(p[2].zip(s, func(m, s float64) float64 { return m * s }), func(b, m float64) float64 { return b - m })
	return s, t
}

// arithmeticStep reads x op constant and constant op x.
func arithmeticStep(n *ssa.Node, axis, count int) (x *ssa.Value, s, t channels) {
	k, x, at := constFirst(n)
	if at < 0 || !keepsShape(x.Type, k.Const.Shape()) || !x.Type.DType.IsFloat() {
		return nil, nil, nil
	}
	p, ok := perChannel(k.Const, x.Type.Rank(), axis, count)
	switch {
	case !ok || n.Op == "Div" && at == 0:
		return nil, nil, nil
	case n.Op == "Add":
		return x, channels{1}, p
	case n.Op == "Sub" && at == 1:
		return x, channels{1}, p.zip(channels{-1}, func(a, b float64) float64 { return a * b })
	case n.Op == "Sub":
		return x, channels{-1}, p
	case n.Op == "Mul":
		return x, p, channels{0}
	}
	return x, p.zip(p, func(a, _ float64) float64 { return 1 / a }), channels{0}
}

// axisOf is the axis of channels in data of a float type, counted from the front; ok is
// false where the type is another one or its rank is not known.
func axisOf(ch ops.Channels, t ssa.Type) (axis int, ok bool) {
	axis, err := ops.NormAxis(int64(ch.Axis), max(t.Rank(), 0))
	return axis, err == nil && t.DType.IsFloat()
}

// folding collects the operands of a linear node with a chain folded in.
type folding struct {
	c     *Context
	n     *ssa.Node
	l     *ops.Linear
	chain affine
	in    []operand
	left  channels // the shift that stays in front of the node, nil for none
}

// operand is an operand of a rebuilt node: the old value, or a new constant
// instead.
type operand struct {
	old     *ssa.Value
	k       *ssa.Constant
	scaling scaling // how k came about, if factors of channels were folded in
}

// folding starts with the operands of n as they are, but x for operand 0.
func (c *Context) folding(n *ssa.Node, l *ops.Linear, chain affine, x *ssa.Value) *folding {
	f := &folding{c: c, n: n, l: l, chain: chain}
	for _, v := range n.In {
		f.in = append(f.in, operand{old: v})
	}
	f.in[0].old = x
	return f
}

// scale multiplies the channels of the weights; false if they overflow.
func (f *folding) scale(w ops.Channels) bool {
	if f.chain.s.all(1) {
		return true
	}
	taps := 0
	if f.n.Op == "Conv" && f.l.In.Per == 1 {
		taps = f.l.In.Inner
	}
	o := &f.in[f.l.Weight]
	o.k, o.scaling = scaled(f.c, f.n.In[f.l.Weight].Const, w, f.chain.s, taps)
	return o.k != nil
}

// bias makes the bias sum(b) of the old one, a vector of zeros if there is none. The old
// one is multiplied by a Gemm's beta. It is false for a bias that is not one constant per
// channel, and where the result overflows.
func (f *folding) bias(dt ndarray.DType, sum func(b channels) channels) bool {
	count := f.l.Out.Count()
	old := channels{0}
	if b := f.n.Input(f.l.Bias); b != nil {
		if b.Const == nil {
			return false
		}
		rank := len(b.Const.Shape())
		var ok bool
		if old, ok = perChannel(b.Const, max(2, rank), max(1, rank-1), count); !ok {
			return false
		}
		old = old.zip(channels{f.l.Beta}, func(b, beta float64) float64 { return beta * b })
	}
	for len(f.in) <= f.l.Bias {
		f.in = append(f.in, operand{})
	}
	f.in[f.l.Bias].k = sum(old).constant(dt, count)
	return f.in[f.l.Bias].k != nil
}

// pays reports that the new constants may be stored instead of those that only the old
// nodes read, and counts the bytes they add.
func (f *folding) pays() bool {
	var kept []*ssa.Value
	var added int64
	for _, o := range f.in {
		if o.k == nil {
			kept = append(kept, o.old)
		} else {
			added += o.k.StoredBytes()
		}
	}
	_, freed := f.c.freed(kept, append(f.chain.nodes, f.n)...)
	return f.c.fits(added - freed)
}

// rebuild makes the node again with its new operands.
func (f *folding) rebuild() *ssa.Value {
	vals := make([]*ssa.Value, len(f.in))
	for i, o := range f.in {
		vals[i] = o.old
		if o.k != nil {
			hint := f.n.Out[0].Name + "_bias"
			if o.old != nil {
				hint = o.old.Name
			}
			vals[i] = f.c.constant(hint, o.k)
			if o.scaling.of != nil {
				delete(f.c.scalings, o.old.Const)
				f.c.scalings[o.k] = o.scaling
			}
		}
	}
	return f.c.copyNode(f.n, vals, func(m *ssa.Node) {
		if b := f.l.Bias; b >= 0 && b < len(f.in) && f.in[b].k != nil {
			m.DropAttr("beta")
		}
	}).Out[0]
}

// last is the value the chain computes.
func (a *affine) last() *ssa.Value { return a.nodes[len(a.nodes)-1].Out[0] }

// materializes reports that scaling a splat by different numbers would write it out,
// and that this is more than may be added.
func (c *Context) materializes(w *ssa.Constant, s channels) bool {
	_, splat := w.Splat()
	return splat && !s.all(s[0]) && !c.mayAdd(int64(w.Len())*int64(w.DType().Size()))
}
