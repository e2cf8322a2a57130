package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// FoldBefore folds a prologue into weights: nodes that scale and shift the input
// channels of a convolution or matrix product. It is the mirror image of [FoldAffine].
//
//	y = s*x + t                    Mul, Add, BatchNormalization, constant
//	z = conv(y, W) + b = conv(x, s*W) + (b + sum of W*t over inputs and kernel)
//
// With padding only the scale folds, since the padding is zero, not t: y = s*(x + t/s),
// and one Add stays; likewise before a MatMul, which has no bias. The input channels of
// the weights are scaled, each rounded once.
var FoldBefore = &Pass{
	Name: "fold-before", Doc: "Mul, Add by channel, then Conv/Gemm/MatMul -> weights that do it all",
	rules: []rule{{"a chain by channel, a linear node -> the node with other weights", with(linear), foldPrologue}},
}

func foldPrologue(c *Context, n *ssa.Node) bool {
	if x := n.Input(0); x == nil || x.Def == nil || !scales(x.Def) {
		return false
	}
	l := ops.LinearOf(n)
	if l == nil || l.In == (ops.Channels{}) || len(n.Out) != 1 || !n.Out[0].Type.DType.IsFloat() {
		return false
	}
	axis, ok := axisOf(l.In, n.In[0].Type)
	if !ok || n.In[0].Type.Rank() < 2 {
		return false
	}
	x, a := c.chainBefore(n, axis, l.In.Count())
	if len(a.nodes) == 0 || x.Type.DType != n.In[0].Type.DType || !a.s.finite() || !a.t.finite() || c.materializes(n.In[1].Const, a.s) {
		return false
	}
	shifted := !a.t.all(0)
	if shifted && !l.Shifts && len(a.nodes) == 1 && !is(a.nodes[0], "BatchNormalization") {
		return false // one Add before, one Add after
	}
	f := c.folding(n, l, a, x)
	if !f.scale(l.In) || shifted && !f.shiftBefore() || !f.pays() {
		return false
	}
	if f.left != nil {
		shape := slices.Repeat([]int{1}, x.Type.Rank()-axis)
		shape[0] = l.In.Count()
		k := f.left.constant(x.Type.DType, shape[0])
		if k == nil {
			return false
		}
		f.in[0].old = c.op(n, x.Name, "Add", []*ssa.Value{x, c.constant(x.Name+"_shift", k.Reshaped(shape...))})
	}
	c.replace(n.Out[0], f.rebuild())
	return true
}

// shiftBefore adds the shift to the bias; where that is not possible, t/s stays in
// front.
func (f *folding) shiftBefore() bool {
	if !f.l.Shifts {
		f.left = f.chain.t.zip(f.chain.s, func(t, s float64) float64 { return t / s })
		return !slices.ContainsFunc(f.left, func(v float64) bool { return v != 0 && !normal(f.n.Out[0].Type.DType, v) })
	}
	const limit = 64 << 20 // bytes of a splat worth writing out to add them up
	w := f.n.In[1]
	if b, _ := w.Type.ByteSize(); w.Const.StoredBytes() < int64(b) && b > limit {
		return false
	}
	elements, err := f.c.elements(w.Const)
	if err != nil {
		return false
	}
	sum := offsets(f.l, elements, f.chain.t)
	return f.bias(f.n.Out[0].Type.DType, func(b channels) channels {
		return sum.zip(b, func(s, b float64) float64 { return f.l.Alpha*s + b })
	})
}

// chainBefore collects the affine nodes that lead to n's data operand and that
// only this chain reads; x is the operand of the first.
func (c *Context) chainBefore(n *ssa.Node, axis, count int) (x *ssa.Value, a affine) {
	x, reader := n.In[0], n
	var chain []*ssa.Node
	for c.only(x, reader) && x.Def != nil && countOf(reader.In, x) == 1 {
		m := x.Def
		from, _, _ := affineStep(m, axis, count)
		if from == nil {
			break
		}
		chain = append(chain, m)
		x, reader = from, m
	}
	a = affine{s: channels{1}, t: channels{0}}
	for _, m := range slices.Backward(chain) {
		_, s, t := affineStep(m, axis, count)
		a.then(m, s, t)
	}
	return x, a
}
