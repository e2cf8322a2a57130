package rewrite

import (
	"math"
	"slices"

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
	rules: []rule{{"a chain by channel, a linear node -> the node with other weights", with(linear), foldBefore}},
}

func foldBefore(c *Context, n *ssa.Node) bool {
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

// shiftBefore puts the shift into the bias; where it can not go there, t/s stays in
// front.
func (f *folding) shiftBefore() bool {
	if !f.l.Shifts {
		f.left = f.chain.t.zip(f.chain.s, func(t, s float64) float64 { return t / s })
		return !slices.ContainsFunc(f.left, func(v float64) bool { return !(math.Abs(v) < 1e30) })
	}
	const limit = 64 << 20 // bytes of a splat worth writing out to add them up
	w := f.n.In[1]
	if b, _ := w.Type.ByteSize(); w.Const.StoredBytes() < int64(b) && b > limit {
		return false
	}
	elements, err := w.Const.Array()
	if err != nil {
		return false
	}
	sum := offsets(f.l, elements, f.chain.t)
	return f.bias(f.n.Out[0].Type.DType, func(b channels) channels {
		return sum.zip(b, func(s, b float64) float64 { return f.l.Alpha*s + b })
	})
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
