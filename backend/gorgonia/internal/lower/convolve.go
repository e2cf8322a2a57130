package lower

import (
	"cmp"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth/gradient"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Gorgonia writes a convolution as a product with a matrix that holds every patch of the
// image, kernel-size times as large as the image. It is kept as patches, the operands of
// what makes that matrix, and becomes a convolution where it is multiplied:
//
//	x [N C H W] ─▶ im2col ─▶ P [N·m·n, C·kh·kw]        W [L, C·kh·kw]
//
//	P·Wᵀ            forward           Conv(x, W)
//	gᵀ·P            gradient of W     the gradient of Conv by its weights
//	col2im(g·W)     gradient of x     the gradient of Conv by its image
//
// g [N·m·n, L] are adjoints with the channels last. A matrix of patches that is used in
// another way is a convolution with weights that pick one element each.
type patches struct {
	x     *ssa.Value // nil for the result of col2im, of which only the shape is known
	image []int      // N, C, H, W
	grid  [2]int     // m, n
	kernel, pads,
	strides, dilations [2]int
}

// patchesOf reads the geometry of an im2col or col2im for an image.
func (b *builder) patchesOf(n *gorgonia.Node, x *ssa.Value, image []int) patches {
	pair := func(h, w string) [2]int { return [2]int{get[int](b, n, h), get[int](b, n, w)} }
	p := patches{x: x, image: image, kernel: pair("h", "w"), pads: pair("padH", "padW"), strides: pair("strideH", "strideW"), dilations: pair("dilationH", "dilationW")}
	if b.err != nil {
		return p
	}
	for i := range p.grid {
		p.grid[i] = (image[2+i]+2*p.pads[i]-p.dilations[i]*(p.kernel[i]-1)-1)/p.strides[i] + 1
	}
	return p
}

// row is the number of elements of a patch.
func (p patches) row() int { return p.image[1] * p.kernel[0] * p.kernel[1] }

func (p patches) attrs(group int) []ssa.Attr {
	return []ssa.Attr{ssa.IntsAttr("strides", wide(p.strides[:])...), ssa.IntsAttr("dilations", wide(p.dilations[:])...),
		ssa.IntsAttr("pads", wide([]int{p.pads[0], p.pads[1], p.pads[0], p.pads[1]})...), ssa.IntAttr("group", int64(group))}
}

func im2col(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	p := b.patchesOf(n, in[0], b.shape(in[0]))
	if b.err != nil {
		return in[0]
	}
	conv := b.with("Conv", []*ssa.Value{in[0], b.picking(p, in[0].Type.DType)}, p.attrs(p.image[1])...)
	v := b.transpose(conv, 0, 2, 3, 1)
	b.patches[v] = p
	return v
}

// picking are weights by which convolution c·kh·kw+k gives element k of the patch in channel c.
func (b *builder) picking(p patches, dt ndarray.DType) *ssa.Value {
	k := p.kernel[0] * p.kernel[1]
	w := ndarray.Must(dt, p.row(), 1, p.kernel[0], p.kernel[1])
	for i := range p.row() {
		w.SetFloat(i*k+i%k, 1)
	}
	return b.constant(ssa.NewConstant(w))
}

// col2im adds patches up to an image.
func col2im(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	dim := func(name string) int { return get[int](b, n, name) }
	image := []int{dim("unpaddedB"), dim("unpaddedC"), dim("unpaddedH"), dim("unpaddedW")}
	p := b.patchesOf(n, nil, image)
	if b.err != nil {
		return in[0]
	}
	d := stripped(in[0])
	if m := d.Def; m != nil && m.Op == "MatMul" && b.rank(m.In[1]) == 2 && b.shape(m.In[1])[1] == p.row() {
		w := m.In[1]
		return b.convAdjoint(p, b.reshape(w, b.shape(w)[0], image[1], p.kernel[0], p.kernel[1]), b.channelsFirst(m.In[0], p), 0)
	}
	d = b.transpose(in[0], 0, 3, 1, 2)
	return b.convAdjoint(p, b.picking(p, d.Type.DType), d, 0)
}

// convolution recognizes products with a matrix of patches; nil for others.
func (b *builder) convolution(x, y *ssa.Value, ta, tb bool) *ssa.Value {
	if p, ok := b.patches[stripped(x)]; ok && !ta && b.shape(x)[1] == p.row() {
		if !tb {
			y = b.swapped(y)
		}
		w := b.reshape(y, b.shape(y)[0], p.image[1], p.kernel[0], p.kernel[1])
		v := b.transpose(b.with("Conv", []*ssa.Value{p.x, w}, p.attrs(1)...), 0, 2, 3, 1)
		return b.reshape(v, b.shape(x)[0], b.shape(w)[0])
	}
	if p, ok := b.patches[stripped(y)]; ok && ta && !tb && b.shape(y)[1] == p.row() {
		if ndarray.Product(p.grid[:]) == 0 { // no place of the image holds the kernel, so that the sum is empty
			return b.zeros(x.Type.DType, b.shape(x)[1], p.row())
		}
		d := b.channelsFirst(x, p)
		w := b.zeros(d.Type.DType, b.shape(d)[1], p.image[1], p.kernel[0], p.kernel[1])
		return b.reshape(b.convAdjoint(p, w, d, 1), b.shape(d)[1], p.row())
	}
	return nil
}

// channelsFirst gives adjoints [N·m·n, L] the layout [N, L, m, n].
func (b *builder) channelsFirst(g *ssa.Value, p patches) *ssa.Value {
	return b.transpose(b.reshape(g, p.image[0], p.grid[0], p.grid[1], b.shape(g)[1]), 0, 3, 1, 2)
}

// convAdjoint is the gradient of Conv(x, w) by operand i, from the adjoint d. Of operand i
// itself only the shape counts.
func (b *builder) convAdjoint(p patches, w, d *ssa.Value, i int) *ssa.Value {
	x := p.x
	if x == nil {
		x = b.zeros(d.Type.DType, p.image...)
	}
	group := p.image[1] / max(b.shape(w)[1], 1)
	return b.adjoint(b.node("Conv", []*ssa.Value{x, w}, 1, p.attrs(group)...), d, i)
}

// adjoint is the gradient of the first result of a node by operand i, from its adjoint d.
func (b *builder) adjoint(n *ssa.Node, d *ssa.Value, i int) *ssa.Value {
	dy, wants := make([]*ssa.Value, len(n.Out)), make([]bool, len(n.In))
	dy[0], wants[i] = d, true
	before := b.out.SSA.NumValues()
	out, err := gradient.Adjoints(b.out.SSA, n, dy, wants)
	for _, v := range b.out.SSA.Values()[before:] {
		v.Name = cmp.Or(v.Name, "adjoint")
	}
	switch {
	case err != nil:
		b.fail(fmt.Errorf("the derivative of %s: %w", n.Op, cause(err)))
		return n.In[i]
	case out[i] == nil: // it is zero everywhere
		return b.zeros(n.In[i].Type.DType, b.shape(n.In[i])...)
	}
	return out[i]
}

// stripped looks through reshapes.
func stripped(v *ssa.Value) *ssa.Value {
	for v.Def != nil && v.Def.Op == "Reshape" {
		v = v.Def.In[0]
	}
	return v
}

// pooling reads the attributes of a pooling op. Gorgonia lists explicit padding as north,
// south, west, east.
func (b *builder) pooling(n *gorgonia.Node) []ssa.Attr {
	f := func(names ...string) []int64 {
		var out []int
		for _, name := range names {
			out = append(out, get[int](b, n, name))
		}
		return wide(out)
	}
	return []ssa.Attr{ssa.IntsAttr("kernel_shape", f("h", "w")...), ssa.IntsAttr("strides", f("strideH", "strideW")...),
		ssa.IntsAttr("pads", f("padNorth", "padWest", "padSouth", "padEast")...)}
}

func maxPool(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	return b.with("MaxPool", in, b.pooling(n)...)
}

// averagePool is the mean of what lies in the window and in the image. Gorgonia's own code
// divides the sum by the width of the image.
func averagePool(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	return b.with("AveragePool", in, b.pooling(n)...)
}

// maxPoolDiff takes x, y = MaxPool(x) and the adjoint of y. As standard ONNX, the node that
// made y is asked for the positions of the maxima, too.
func maxPoolDiff(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	if b.checkFloats(MaxPoolDiff.Name, in); b.err != nil {
		return in[0]
	}
	if !b.options.Portable {
		m := b.out.SSA.NewNode(MaxPoolDiff.Name, []*ssa.Value{in[0], in[2]}, 1, b.pooling(n)...)
		m.Domain = stockDomain
		b.infer(m)
		return m.Out[0]
	}
	m := in[1].Def
	if m == nil || m.Op != "MaxPool" || m.In[0] != in[0] {
		m = b.node("MaxPool", in[:1], 1, b.pooling(n)...)
	}
	if len(m.Out) == 1 {
		b.out.SSA.AddOutput(m, "positions")
		b.infer(m)
	}
	return b.adjoint(m, in[2], 0)
}

func averagePoolDiff(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	return b.adjoint(b.node("AveragePool", in[:1], 1, b.pooling(n)...), in[2], 0)
}

// upsample repeats every element of an image in both directions.
func upsample(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	return b.with("Resize", []*ssa.Value{in[0], nil, nil, b.ints(n.Shape()...)}, ssa.StringAttr("mode", "nearest"),
		ssa.StringAttr("coordinate_transformation_mode", "asymmetric"), ssa.StringAttr("nearest_mode", "floor"))
}

// upsampleDiff takes x, y and the adjoint of y: what was one element is summed up.
func upsampleDiff(b *builder, n *gorgonia.Node, in []*ssa.Value) *ssa.Value {
	s, k := b.shape(in[0]), get[int](b, n, "stride")+1
	split := []int{s[0], s[1], s[2], k, s[3], k}
	return b.reshape(b.sum(b.reshape(in[2], split...), 3, 5), slices.Clone(s)...)
}
