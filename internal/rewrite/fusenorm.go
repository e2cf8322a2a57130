package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Normalizations written out: what a reduction over some axes gives is taken from
// what was reduced, or divides it.
//
//	x ──┬─▶ Sub ─┬──────────────────────────────▶ Div ─▶      LayerNormalization(x)
//	    └─ mean ─▲└─▶ square ─▶ mean ─▶ + eps ─▶ √ ─▲
//
//	x / sqrt(mean(x²) + eps)                           RMSNormalization(x)
//	e / sum(e),  e = exp(x - max(x))                   Softmax(x)
//	Reshape [N, G, rest], InstanceNormalization, back  GroupNormalization(x; G)
//
// Source: the formulas and function bodies at https://onnx.ai/onnx/operators/.

// trailing reports that a reduction keeps its dimensions and reduces the last
// ones, from axis on.
func trailing(n *ssa.Node) (axis int, ok bool) {
	rank := n.In[0].Type.Rank()
	axes, known := ints(n, 1)
	if !known || rank < 1 || ops.Int(n, "keepdims") != 1 || len(axes) == 0 || len(axes) > rank {
		return 0, false
	}
	axis = rank - len(axes)
	for i := axis; i < rank; i++ {
		if !axisListed(axes, i, rank) {
			return 0, false
		}
	}
	return axis, true
}

// squareOf returns x where v is x*x.
func squareOf(v *ssa.Value) *ssa.Value {
	if m := def(v, "Mul"); m != nil && m.In[0] == m.In[1] {
		return m.In[0]
	}
	if m := def(v, "Pow"); m != nil {
		if e, ok := numberBeside(m, 1); ok && e == 2 {
			return m.In[0]
		}
	}
	return nil
}

// rootMeanSquare reads v as sqrt(mean(x*x) + eps) over the dimensions from axis on.
func (c *Context) rootMeanSquare(v *ssa.Value) (x *ssa.Value, eps float64, axis int) {
	add := def(operandOf(v, "Sqrt"), "Add")
	if add == nil {
		return nil, 0, 0
	}
	mean, at := otherThanNumber(add)
	if at < 0 {
		return nil, 0, 0
	}
	eps, _ = number(add.In[1-at])
	r := def(mean, "ReduceMean")
	if r == nil || eps < 0 {
		return nil, 0, 0
	}
	axis, ok := trailing(r)
	x = squareOf(r.In[0])
	if !ok || x == nil {
		return nil, 0, 0
	}
	return x, eps, axis
}

// ones returns a scale of 1 for the dimensions from axis on, nil if they are not
// known numbers.
func (c *Context) ones(x *ssa.Value, axis int) *ssa.Value {
	shape, ok := ssa.TensorOf(x.Type.DType, x.Type.Shape[axis:]...).Static()
	if !ok || slices.Contains(shape, 0) {
		return nil
	}
	return c.constant(x.Name+"_scale", ssa.NewSplat(floatScalar(x.Type.DType, 1), shape...))
}

// fuseLayerNorm: (x - mean) / sqrt(mean((x-mean)^2) + eps). Scale and bias follow
// as Mul and Add, which fold-affine takes in.
func fuseLayerNorm(c *Context, n *ssa.Node) bool {
	d, eps, axis := c.rootMeanSquare(n.In[1])
	if d == nil || d != n.In[0] || !c.only(n.In[1], n) || !d.Type.DType.InFloat32() {
		return false
	}
	sub := def(d, "Sub")
	if sub == nil {
		return false
	}
	mean := def(sub.In[1], "ReduceMean")
	if mean == nil || mean.In[0] != sub.In[0] {
		return false
	}
	if at, ok := trailing(mean); !ok || at != axis {
		return false
	}
	return c.fusedNorm(n, "LayerNormalization", sub.In[0], eps, axis)
}

// fuseRMSNorm: x / sqrt(mean(x^2) + eps).
func fuseRMSNorm(c *Context, n *ssa.Node) bool {
	x, eps, axis := c.rootMeanSquare(n.In[1])
	if x == nil || x != n.In[0] || !c.only(n.In[1], n) || !x.Type.DType.InFloat32() || def(x, "Sub") != nil {
		return false
	}
	return c.fusedNorm(n, "RMSNormalization", x, eps, axis)
}

func (c *Context) fusedNorm(n *ssa.Node, op string, x *ssa.Value, eps float64, axis int) bool {
	scale := c.ones(x, axis)
	return scale != nil && c.fused(n, op, []*ssa.Value{x, scale}, ssa.IntAttr("axis", int64(axis-x.Type.Rank())), ssa.FloatAttr("epsilon", float32(eps)))
}

// fuseSoftmax: e / sum(e), e = exp(x - max(x)), over one axis.
func fuseSoftmax(c *Context, n *ssa.Node) bool {
	sum, sub := def(n.In[1], "ReduceSum"), def(operandOf(n.In[0], "Exp"), "Sub")
	if sum == nil || sub == nil || sum.In[0] != n.In[0] || len(n.In[0].Uses()) != 2 || !c.only(n.In[1], n) {
		return false
	}
	top := def(sub.In[1], "ReduceMax")
	if top == nil || top.In[0] != sub.In[0] || !keptAlike(sum, top) {
		return false
	}
	axes, _ := ints(sum, 1)
	if len(axes) != 1 {
		return false
	}
	return c.fused(n, "Softmax", []*ssa.Value{sub.In[0]}, ssa.IntAttr("axis", axes[0]))
}

// keptAlike reports two reductions over the same axes that keep them.
func keptAlike(a, b *ssa.Node) bool {
	x, okX := ints(a, 1)
	y, okY := ints(b, 1)
	return okX && okY && slices.Equal(x, y) && ops.Int(a, "keepdims") == 1 && ops.Int(b, "keepdims") == 1
}

// fuseGroupNorm: Reshape to [N, G, rest], InstanceNormalization, Reshape back.
func fuseGroupNorm(c *Context, n *ssa.Node) bool {
	in := def(n.In[0], "InstanceNormalization")
	if in == nil || !c.only(n.In[0], n) {
		return false
	}
	r := def(in.In[0], "Reshape")
	if r == nil || !ops.TargetKnown(r) || !ops.TargetKnown(n) {
		return false
	}
	x := r.In[0]
	if !sameShape(x.Type, n.Out[0].Type) || x.Type.Rank() < 3 || !x.Type.DType.InFloat32() {
		return false
	}
	grouped := in.In[0].Type
	if grouped.Rank() < 3 {
		return false
	}
	groups, okG := grouped.Shape[1].Const()
	count, okC := x.Type.Shape[1].Const()
	if !okG || !okC || groups <= 0 || count%groups != 0 || !grouped.Shape[0].Equal(x.Type.Shape[0]) {
		return false
	}
	var vec [2]*ssa.Value
	for i := range vec {
		v, ok := vector(in.In[1+i], int(groups))
		if !ok {
			return false
		}
		wide := make(channels, count)
		for k := range wide {
			wide[k] = v.at(k / int(count/groups))
		}
		k := wide.constant(x.Type.DType, int(count))
		if k == nil {
			return false
		}
		vec[i] = c.constant(in.In[1+i].Name, k)
	}
	return c.fused(n, "GroupNormalization", []*ssa.Value{x, vec[0], vec[1]}, ssa.IntAttr("num_groups", groups), ssa.FloatAttr("epsilon", ops.Float(in, "epsilon")))
}
