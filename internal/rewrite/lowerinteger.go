package rewrite

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// The integer products of com.microsoft join what the operators of ONNX do one after the other. Written out, they
// are computed by the kernels of those, and what stands around the product joins what follows:
//
//	DynamicQuantizeMatMul   q, s, z = DynamicQuantizeLinear(A); MatMulIntegerToFloat(q, B, s, sb, z, zb, bias)
//	MatMulIntegerToFloat    Cast(MatMulInteger(A, B, za, zb)) * (sa*sb) + bias
//	QGemm                   Cast(MatMulInteger(A', B', za, zb) + C) * (alpha*sa*sb), then QuantizeLinear
//	QAttention              MultiHeadAttention(Split(MatMulIntegerToFloat(x, W, …)))
//
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
//
// The elements are those of the joined operators, bit by bit. Nodes of other types than float32 and bytes, scales of
// rows and stacks of scales stay, and so does what the reference kernels refuse.

// lowerDynamicProduct writes out DynamicQuantizeMatMul.
func lowerDynamicProduct(c *Context, n *ssa.Node) bool {
	p := integerOperands{b: n.In[1], sb: n.In[2], zb: n.Input(3)}
	if n.In[0].Type.DType != ndarray.Float32 || n.In[0].Type.Rank() < 2 || !p.columns(n.Input(4), ndarray.Float32) {
		return false
	}
	b := &builder{c: c, mark: n, hint: n.Out[0].Name}
	q := c.insert(n, "DynamicQuantizeLinear", n.In[:1], 3)
	for _, v := range q.Out {
		v.Name = c.fresh(b.hint + "_quantized")
	}
	c.fail(ops.Infer(q))
	p.a, p.sa, p.za = q.Out[0], q.Out[1], q.Out[2]
	c.replace(n.Out[0], b.plus(b.scaled(p.product(b), p.sa, p.sb), n.Input(4)))
	return true
}

// lowerScaledProduct writes out MatMulIntegerToFloat.
func lowerScaledProduct(c *Context, n *ssa.Node) bool {
	p := integerOperands{n.In[0], n.In[1], n.In[2], n.In[3], n.Input(4), n.Input(5)}
	if !p.floats(n.Input(6)) {
		return false
	}
	b := &builder{c: c, mark: n, hint: n.Out[0].Name}
	c.replace(n.Out[0], b.plus(b.scaled(p.product(b), p.sa, p.sb), n.Input(6)))
	return true
}

// lowerQGemm writes out QGemm.
func lowerQGemm(c *Context, n *ssa.Node) bool {
	p := integerOperands{n.In[0], n.In[3], n.In[1], n.In[4], n.In[2], n.In[5]}
	bias, scale, zero := n.Input(6), n.Input(7), n.Input(8)
	if !p.a.Type.DType.IsByte() || p.a.Type.Rank() != 2 || p.b.Type.Rank() != 2 || !oneElement(p.sa, ndarray.Float32) || !oneElement(p.za, p.a.Type.DType) ||
		zero != nil && (!zero.Type.DType.IsByte() || !oneElement(zero, zero.Type.DType) || !oneElement(scale, ndarray.Float32)) {
		return false
	}
	transB := ops.Int(n, "transB") != 0
	cols := p.b.Type.Shape[1]
	if transB {
		cols = p.b.Type.Shape[0]
	}
	if !p.across(cols, bias, ndarray.Int32) {
		return false
	}
	b := &builder{c: c, mark: n, hint: n.Out[0].Name}
	if ops.Int(n, "transA") != 0 {
		p.a = b.with("Transpose", p.a, ssa.IntsAttr("perm", 1, 0))
	}
	if transB {
		p.b = b.with("Transpose", p.b, ssa.IntsAttr("perm", 1, 0))
	}
	left := p.sa
	if alpha := ops.Float(n, "alpha"); alpha != 1 {
		left = b.op("Mul", c.constant(b.hint+"_alpha", float32s(alpha)), left)
	}
	y := b.scaled(b.plus(p.product(b), bias), left, p.sb)
	if zero != nil {
		y = b.op("QuantizeLinear", y, b.scalar(scale), b.scalar(zero))
	}
	c.replace(n.Out[0], y)
	return true
}

// lowerQAttention writes out the projection of a QAttention without a past, as [lowerProjected] does.
func lowerQAttention(c *Context, n *ssa.Node) bool {
	p := integerOperands{n.In[0], n.In[1], n.In[3], n.In[4], n.Input(6), n.Input(7)}
	sizes := c.projected(n, n.Input(5), n.Input(8))
	if sizes == nil || !p.floats(n.In[2]) {
		return false
	}
	b := &builder{c: c, mark: n, hint: n.Out[0].Name}
	b.attend(n, b.plus(b.scaled(p.product(b), p.sa, p.sb), n.In[2]), sizes, n.Input(5), nil)
	return true
}

// integerOperands are the operands of a product of bytes: two matrices, or stacks of them, their scales and zero points.
type integerOperands struct{ a, b, sa, sb, za, zb *ssa.Value }

// floats reports a product of bytes by float32 scales, of which A has one, with a bias for all or for each of the columns.
func (p *integerOperands) floats(bias *ssa.Value) bool {
	dt := p.a.Type.DType
	return dt.IsByte() && p.a.Type.Rank() >= 2 && oneElement(p.sa, ndarray.Float32) && (p.za == nil || oneElement(p.za, dt)) && p.columns(bias, ndarray.Float32)
}

// columns is across for the columns of B.
func (p *integerOperands) columns(bias *ssa.Value, of ndarray.DType) bool {
	dims := p.b.Type.Shape
	return p.b.Type.Rank() >= 2 && p.across(dims[len(dims)-1], bias, of)
}

// across reports that B is bytes, with a float32 scale, a zero point and a bias of its type for all or for each of so many columns; zero point
// and bias may be nil.
func (p *integerOperands) across(cols ssa.Dim, bias *ssa.Value, of ndarray.DType) bool {
	each := func(v *ssa.Value, dt ndarray.DType) bool {
		return v == nil || oneElement(v, dt) || v.Type.DType == dt && v.Type.Rank() == 1 && v.Type.Shape[0].Equal(cols)
	}
	return p.b.Type.DType.IsByte() && p.sb != nil && each(p.sb, ndarray.Float32) && each(p.zb, p.b.Type.DType) && each(bias, of)
}

// oneElement reports a tensor of dt with one element and at most one dimension.
func oneElement(v *ssa.Value, dt ndarray.DType) bool {
	if v == nil || v.Type.DType != dt || !v.Type.Ranked || v.Type.Rank() > 1 {
		return false
	}
	return v.Type.Rank() == 0 || v.Type.Shape[0].Equal(ssa.D(1))
}

// product is the exact product of integers.
func (p *integerOperands) product(b *builder) *ssa.Value {
	return b.op("MatMulInteger", p.a, p.b, p.za, p.zb)
}

// scaled is sum * (left*right) in float32.
func (b *builder) scaled(sum, left, right *ssa.Value) *ssa.Value {
	return b.op("Mul", b.cast(sum, ndarray.Float32), b.op("Mul", left, right))
}

// plus is x + bias, x without one.
func (b *builder) plus(x, bias *ssa.Value) *ssa.Value {
	if bias == nil {
		return x
	}
	return b.op("Add", x, bias)
}

// scalar is a tensor of one element without dimensions.
func (b *builder) scalar(v *ssa.Value) *ssa.Value {
	if v.Type.Rank() == 0 {
		return v
	}
	return b.op("Reshape", v, b.c.constant(b.hint+"_scalar", ssa.Int64s()))
}
