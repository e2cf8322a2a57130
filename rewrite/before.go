package rewrite

import (
	"math"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// FoldBefore is the mirror image of FoldAffine: what scales and shifts the input
// channels of a convolution or matrix product goes into its weights.
//
//	y = s*x + t                    Mul, Add, BatchNormalization, constant
//	z = conv(y, W) + b = conv(x, s*W) + (b + sum of W*t over inputs and kernel)
//
// With padding the shift can not go: the border is zero, not t. Then
// y = s*(x + t/s), the scale goes and one Add stays; likewise before a MatMul,
// which has no bias. The scale goes into the input channels of the weights, each
// rounded once.
var FoldBefore = &Pass{
	Name: "fold-before", Doc: "Mul, Add by channel, then Conv/Gemm/MatMul -> weights that do it all",
	run: func(c *Context, g *ssa.Graph) error {
		for _, n := range slices.Clone(g.Nodes) {
			if !c.alive(n) {
				continue
			}
			if p := inputSideOf(n); p != nil {
				if err := c.foldBefore(n, p); err != nil {
					return err
				}
			}
		}
		return nil
	},
}

// inputSide says where the input channels of a node's constant weights are, and
// how the sum over inputs and kernel is laid out.
type inputSide struct {
	axis   int        // of the data operand; -1 is the last
	view   weightView // input channels of the weights
	shifts bool       // a shift can go into the bias operand
	sums   func(w *ndarray.Array, t channels) channels
	alpha  float64
	beta   float64
}

// inputSideOf returns the input side of a node with constant weights, nil if it
// has none.
func inputSideOf(n *ssa.Node) *inputSide {
	if n.Opaque || n.Domain != "" || len(n.In) < 2 || n.In[0] == nil || len(n.Out) != 1 || !n.Out[0].Type.DType.IsFloat() {
		return nil
	}
	w := weightShape(n)
	if w == nil {
		return nil
	}
	switch n.Op {
	case "Conv":
		return convInput(n, w)
	case "ConvTranspose":
		return &inputSide{axis: 1, view: weightView{1, 1, w[0], elems(w[1:])}}
	case "Gemm":
		return gemmInput(n, w)
	case "MatMul":
		k := len(w) - 2
		return &inputSide{axis: -1, view: weightView{1, elems(w[:k]), w[k], w[k+1]}}
	}
	return nil
}

func convInput(n *ssa.Node, w []int) *inputSide {
	groups := int(ops.Int(n, "group"))
	if groups < 1 || w[0]%groups != 0 {
		return nil
	}
	p := &inputSide{axis: 1, view: weightView{groups, w[0] / groups, w[1], elems(w[2:])}, alpha: 1, beta: 1}
	auto := ops.Str(n, "auto_pad")
	padded := slices.ContainsFunc(ops.Ints(n, "pads"), func(k int64) bool { return k != 0 }) || auto != "NOTSET" && auto != "VALID"
	p.shifts = !padded
	p.sums = func(a *ndarray.Array, t channels) channels { return p.view.sumRows(a, t) }
	return p
}

func gemmInput(n *ssa.Node, w []int) *inputSide {
	if ops.Int(n, "transA") != 0 || len(w) != 2 {
		return nil
	}
	p := &inputSide{axis: -1, shifts: true, alpha: float64(ops.Float(n, "alpha")), beta: float64(ops.Float(n, "beta"))}
	if ops.Int(n, "transB") != 0 {
		p.view = weightView{1, w[0], w[1], 1}
		p.sums = func(a *ndarray.Array, t channels) channels { return p.view.sumRows(a, t) }
	} else {
		p.view = weightView{1, 1, w[0], w[1]}
		p.sums = func(a *ndarray.Array, t channels) channels { return p.view.sumColumns(a, t) }
	}
	return p
}

// sumRows adds up weights times t per row (g, o): the outputs of a view whose
// rows are outputs.
func (w weightView) sumRows(a *ndarray.Array, t channels) channels {
	out := make(channels, w.groups*w.outer)
	i := 0
	for row := range out {
		for j := range w.per {
			k := t.at(row/w.outer*w.per + j)
			for range w.inner {
				out[row] += a.Float(i) * k
				i++
			}
		}
	}
	return out
}

// sumColumns adds up weights times t per column: the outputs of [K, N].
func (w weightView) sumColumns(a *ndarray.Array, t channels) channels {
	out := make(channels, w.inner)
	for j := range w.per {
		for i := range out {
			out[i] += a.Float(j*w.inner+i) * t.at(j)
		}
	}
	return out
}

// chainBefore collects the affine nodes that lead to n's data operand and that
// only this row reads; x is what the row starts from.
func (c *Context) chainBefore(n *ssa.Node, axis, count int) (x *ssa.Value, a affine) {
	x, reader := n.In[0], n
	var row []*ssa.Node
	for c.only(x, reader) && x.Def != nil && countOf(reader.In, x) == 1 {
		m := x.Def
		from := affineSource(m)
		if from == nil {
			break
		}
		if s, t, ok := affineStep(m, from, axis, count); !ok || !s.finite() || !t.finite() {
			break
		}
		row = append(row, m)
		x, reader = from, m
	}
	a = affine{s: channels{1}, t: channels{0}}
	for _, m := range slices.Backward(row) {
		s, t, _ := affineStep(m, affineSource(m), axis, count)
		a.then(m, s, t)
	}
	return x, a
}

// affineSource returns the operand an affine node scales, nil if there is none.
func affineSource(n *ssa.Node) *ssa.Value {
	switch {
	case is(n, "BatchNormalization"), is(n, "Neg"):
		return n.In[0]
	case is(n, "Add"), is(n, "Sub"), is(n, "Mul"), is(n, "Div"):
		if _, x, at := constFirst(n); at >= 0 {
			return x
		}
	}
	return nil
}

func (c *Context) foldBefore(n *ssa.Node, p *inputSide) error {
	rank := n.In[0].Type.Rank()
	axis := p.axis
	if axis < 0 {
		axis = rank - 1
	}
	if rank < 2 || axis >= rank {
		return nil
	}
	x, a := c.chainBefore(n, axis, p.view.channels())
	if len(a.nodes) == 0 || x.Type.DType != n.In[0].Type.DType || !a.s.finite() || !a.t.finite() {
		return nil
	}
	shifted := !a.t.all(0)
	if shifted && !p.shifts && len(a.nodes) == 1 && !is(a.nodes[0], "BatchNormalization") {
		return nil // one Add before, one Add after
	}
	if c.fillsOut(n.In[1].Const, a.s) {
		c.skip(n, "%s not folded: the weights repeat one number and would not any more", a.nodes[0])
		return nil
	}
	in, left, why := p.absorb(n, a)
	if why != "" {
		c.skip(n, "%s not folded: %s", a.nodes[0], why)
		return nil
	}
	if added := c.swapBytes(n, a, in); !c.fits(added) {
		c.skip(n, "%s not folded: would add %d bytes", a.nodes[0], added)
		return nil
	}
	if !c.patch(n, "takes in %d nodes before it, first %s", len(a.nodes), a.nodes[0]) {
		return nil
	}
	return c.rebuildBehind(n, p, x, axis, in, left)
}

// absorb returns the new operands, and the shift t/s that must stay in front.
func (p *inputSide) absorb(n *ssa.Node, a affine) (in []operand, left channels, why string) {
	for _, v := range n.In {
		in = append(in, operand{old: v})
	}
	if !a.s.all(1) {
		k := p.view.scaled(n.In[1].Const, a.s)
		if k == nil {
			return nil, nil, "the weights overflow"
		}
		in[1].k = k
	}
	if a.t.all(0) {
		return in, nil, ""
	}
	if !p.shifts {
		left = a.t.zip(a.s, func(t, s float64) float64 { return t / s })
		for _, v := range left {
			if !(math.Abs(v) < 1e30) {
				return nil, nil, "a scale is zero"
			}
		}
		return in, left, ""
	}
	k, why := p.bias(n, a.t)
	if why != "" {
		return nil, nil, why
	}
	for len(in) < 3 {
		in = append(in, operand{})
	}
	in[2].k = k
	return in, nil, ""
}

// bias is the old bias plus what the shift adds to every output. A Gemm's beta
// goes in too.
func (p *inputSide) bias(n *ssa.Node, t channels) (*ssa.Constant, string) {
	const limit = 64 << 20 // bytes of a splat worth writing out to add them up
	if b, _ := n.In[1].Type.ByteSize(); n.In[1].Const.StoredBytes() < int64(b) && b > limit {
		return nil, "the weights are too large to add up"
	}
	w, err := n.In[1].Const.Array()
	if err != nil {
		return nil, err.Error()
	}
	sum := p.sums(w, t)
	count := len(sum)
	old := channels{0}
	if b := n.Input(2); b != nil {
		if b.Const == nil {
			return nil, "the bias is not constant"
		}
		var ok bool
		if old, ok = perChannel(b.Const, max(2, len(b.Const.Shape())), max(1, len(b.Const.Shape())-1), count); !ok {
			return nil, "the bias is no vector"
		}
	}
	sum = sum.zip(old, func(s, b float64) float64 { return p.alpha*s + p.beta*b })
	return orOverflow(sum.constant(n.Out[0].Type.DType, count))
}

// rebuildBehind makes the node again on x, or on x plus the shift that is left.
func (c *Context) rebuildBehind(n *ssa.Node, p *inputSide, x *ssa.Value, axis int, in []operand, left channels) error {
	if left != nil {
		shape := make([]int, x.Type.Rank()-axis)
		for i := range shape {
			shape[i] = 1
		}
		shape[0] = p.view.channels()
		k := left.constant(x.Type.DType, shape[0])
		if k == nil {
			return nil
		}
		add, err := c.node(n, x.Name, "Add", []*ssa.Value{x, c.constant(x.Name+"_shift", k.Reshaped(shape...))}, 1)
		if err != nil {
			return err
		}
		x = add.Out[0]
	}
	vals := make([]*ssa.Value, len(in))
	for i, o := range in {
		vals[i] = o.old
		if o.k != nil {
			vals[i] = c.constant(hint(o.old, n.Out[0].Name), o.k)
		}
	}
	vals[0] = x
	m, err := c.copyNode(n, vals)
	if err != nil {
		return err
	}
	if is(m, "Gemm") && len(in) > 2 && in[2].k != nil {
		m.DropAttr("beta")
	}
	c.replace(n.Out[0], m.Out[0])
	return nil
}
