package rewrite

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// What [FoldAffine] and [FoldBefore] share: chains of nodes that scale and shift
// channels, and the operands of the linear node that takes a chain in.
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

// axisOf is the axis of channels in data of a float type, counted from the front; ok is
// false where the type is another one or its rank is not known.
func axisOf(ch ops.Channels, t ssa.Type) (axis int, ok bool) {
	axis, err := ops.NormAxis(int64(ch.Axis), max(t.Rank(), 0))
	return axis, err == nil && t.DType.IsFloat()
}

// folding collects the operands of a linear node that takes in a chain.
type folding struct {
	c     *Context
	n     *ssa.Node
	l     *ops.Linear
	chain affine
	in    []operand
	left  channels // the shift that stays in front of the node, nil for none
}

// operand is an operand of a rebuilt node: the old value, or a new constant in
// its place.
type operand struct {
	old *ssa.Value
	k   *ssa.Constant
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
	f.in[f.l.Weight].k = scaled(f.n.In[f.l.Weight].Const, w, f.chain.s)
	return f.in[f.l.Weight].k != nil
}

// bias makes the bias sum(b) of the old one, a vector of zeros if there is none. A
// Gemm's beta goes in. It is false for a bias that is not one constant per channel, and
// where the result overflows.
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

// pays reports that the new constants may be stored in the place of those that only the
// old nodes read, and counts what they add.
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
			vals[i] = f.c.constant(hint(o.old, f.n.Out[0].Name), o.k)
		}
	}
	return f.c.copyNode(f.n, vals, func(m *ssa.Node) {
		if b := f.l.Bias; b >= 0 && b < len(f.in) && f.in[b].k != nil {
			m.DropAttr("beta")
		}
	}).Out[0]
}

func hint(v *ssa.Value, other string) string {
	if v != nil {
		return v.Name
	}
	return other + "_bias"
}

// last is the value the chain computes.
func (a *affine) last() *ssa.Value { return a.nodes[len(a.nodes)-1].Out[0] }

// materializes reports that scaling a splat by different numbers would write it out,
// and that this is more than may be added.
func (c *Context) materializes(w *ssa.Constant, s channels) bool {
	_, splat := w.Splat()
	return splat && !s.all(s[0]) && !c.mayAdd(int64(w.Len())*int64(w.DType().Size()))
}
