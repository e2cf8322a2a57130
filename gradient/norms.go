package gradient

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

func init() {
	rules["InstanceNormalization"] = groupNormGradient
	rules["GroupNormalization"] = groupNormGradient
	rules["ConvTranspose"] = convTransposeGradient
}

// normalized returns h = (x - mean)·inv over axes, and inv = 1/√(variance + ε).
func (g *builder) normalized(x *ssa.Value, axes []int64, epsilon float64) (h, inv *ssa.Value) {
	centered := g.op("Sub", x, g.meanOver(x, axes))
	variance := g.meanOver(g.square(centered), axes)
	inv = g.inverseRoot(g.plusNumber(variance, epsilon))
	return g.op("Mul", centered, inv), inv
}

// meanOver keeps the axes as dimensions of 1.
func (g *builder) meanOver(v *ssa.Value, axes []int64) *ssa.Value {
	return g.with("ReduceMean", []*ssa.Value{v, g.ints(axes...)}, ssa.IntAttr("keepdims", 1))
}

// groupNormGradient differentiates h·scale + bias with scale and bias per channel and h
// normalized over groups of channels, single ones for InstanceNormalization. On x seen as
// [N, G, rest], with e = d·scale:
//
//	dx = inv·(e - mean(e) - h·mean(e·h)),  dscale = Σ d·h,  dbias = Σ d
func groupNormGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	x, d := n.In[0], dy[0]
	shape, ok := x.Type.Static()
	if !ok || len(shape) < 2 {
		g.fail(n, fmt.Errorf("sizes must be known: %w", ops.ErrUnsupported))
		return nil
	}
	groups := int64(shape[1])
	if n.Op == "GroupNormalization" {
		groups = ops.Int(n, "num_groups")
	}
	grouped := func(v *ssa.Value) *ssa.Value { return g.op("Reshape", v, g.ints(int64(shape[0]), groups, -1)) }
	axes := []int64{2}
	h, inv := g.normalized(grouped(x), axes, float64(ops.Float(n, "epsilon")))
	e := grouped(g.op("Mul", d, g.asChannel(n.In[1], x)))
	inner := g.op("Sub", g.op("Sub", e, g.meanOver(e, axes)), g.op("Mul", h, g.meanOver(g.op("Mul", e, h), axes)))
	out := []*ssa.Value{g.op("Reshape", g.op("Mul", inv, inner), g.shape(x)), nil, nil}
	others := append([]int64{0}, axesFrom(2, len(shape))...)
	channels := func(v *ssa.Value) *ssa.Value {
		return g.with("ReduceSum", []*ssa.Value{v, g.ints(others...)}, ssa.IntAttr("keepdims", 0))
	}
	if g.wants(n, 1) {
		out[1] = channels(g.op("Mul", d, g.op("Reshape", h, g.shape(x))))
	}
	if g.wants(n, 2) {
		out[2] = channels(d)
	}
	return out
}

// convTransposeGradient: the transposed convolution is the adjoint of a convolution from y to
// x, so dx is that convolution of d, and dw its derivative by the weights with d and x in the
// places of operand and adjoint.
func convTransposeGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	x, weights, d := n.In[0], n.In[1], dy[0]
	shape, ok := weights.Type.Static()
	in, okX := x.Type.Static()
	result, okY := n.Out[0].Type.Static()
	if !ok || !okX || !okY || !padsAreGiven(n) || ops.Ints(n, "output_shape") != nil {
		g.fail(n, fmt.Errorf("sizes must be known and padding explicit: %w", ops.ErrUnsupported))
		return nil
	}
	ones := slices.Repeat([]int64{1}, len(shape)-2)
	w := &windowAttrs{in: result[2:], kernel: shape[2:], out: in[2:], strides: ops.Ints(n, "strides"), dilations: ops.Ints(n, "dilations"), pads: ops.Ints(n, "pads")}
	if w.strides == nil {
		w.strides = ones
	}
	if w.dilations == nil {
		w.dilations = ones
	}
	if w.pads == nil {
		w.pads = make([]int64, 2*len(ones))
	}
	group := ops.Int(n, "group")
	out := make([]*ssa.Value, len(n.In))
	if g.wants(n, 0) {
		v := g.with("Conv", []*ssa.Value{d, weights}, ssa.IntAttr("group", group), ssa.IntsAttr("strides", w.strides...), ssa.IntsAttr("dilations", w.dilations...), ssa.IntsAttr("pads", w.pads...))
		out[0] = g.cutTo(v, in)
	}
	if g.wants(n, 1) {
		out[1] = g.groupedWeights(w, d, x, group)
	}
	g.channelBias(n, d, len(shape), out)
	return out
}

// cutTo drops what output padding has added to the positions behind the first ones.
func (g *builder) cutTo(v *ssa.Value, shape []int) *ssa.Value {
	if have, ok := v.Type.Static(); ok && slices.Equal(have, shape) {
		return v
	}
	var starts, ends []int64
	for _, n := range shape {
		starts, ends = append(starts, 0), append(ends, int64(n))
	}
	return g.op("Slice", v, g.ints(starts...), g.ints(ends...))
}

// trainedNormGradient differentiates batch normalization in training form, h·scale + bias with h = (x - mean)·inv normalized per
// channel over m elements, those of all images and positions:
//
//	dbias = Σ d,  dscale = inv·Σ d·(x - mean),  dx = scale·inv·(d - dbias/m - (x - mean)·inv·dscale/m)
//
// The running mean and variance, results 1 and 2, are no part of what is differentiated.
func trainedNormGradient(g *builder, n *ssa.Node, dy []*ssa.Value) []*ssa.Value {
	if dy[0] == nil || len(dy) > 1 && (dy[1] != nil || len(dy) > 2 && dy[2] != nil) {
		g.refuse(n, "the running mean and variance have no derivative", "differentiate by its first result")
		return nil
	}
	x, d := n.In[0], dy[0]
	axes := []int64{0}
	if g.rank(x) > 2 {
		axes = append(axes, axesFrom(2, g.rank(x))...)
	}
	centered := g.op("Sub", x, g.meanOver(x, axes))
	share := g.op("Div", g.like(g.op("Size", n.In[1]), d), g.like(g.op("Size", x), d))
	sum := func(v *ssa.Value) *ssa.Value { // an image first: that can be one kernel with the product that it is of
		if len(axes) > 1 {
			v = g.reduce("ReduceSum", v, axes[1:]...)
		}
		return g.reduce("ReduceSum", v, 0)
	}
	variance := func() *ssa.Value {
		if x.Type.DType == ndarray.Float16 { // a sum of squares may be beyond it
			return g.meanOver(g.square(centered), axes)
		}
		return g.mul(sum(g.square(centered)), share)
	}
	inv := g.inverseRoot(g.plusNumber(variance(), float64(ops.Float(n, "epsilon"))))
	scale, bias := g.mul(inv, sum(g.mul(d, centered))), sum(d)
	out := make([]*ssa.Value, 5)
	if g.wants(n, 0) {
		steep := g.op("Sub", d, g.mul(bias, share))
		steep = g.op("Sub", steep, g.mul(centered, g.mul(g.mul(inv, scale), share)))
		out[0] = g.mul(steep, g.mul(inv, g.asChannel(n.In[1], x)))
	}
	if g.wants(n, 1) {
		out[1] = g.op("Reshape", scale, g.shape(n.In[1]))
	}
	if g.wants(n, 2) {
		out[2] = g.op("Reshape", bias, g.shape(n.In[2]))
	}
	return out
}
