package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// DynamicQuantizeMatMul multiplies by quantized weights, A quantized by its own
// range, of the com.microsoft domain:
//
//	Y = (quantize(A) - za) · (B - b_zero_point) * sa*b_scale + bias
//
// b_scale and b_zero_point may have one element per column.
var DynamicQuantizeMatMul = Op{
	Domain: microsoft, Name: "DynamicQuantizeMatMul", Since: 1, Doc: "Y = quantize(A) · (B - b_zero_point) * scales + bias",
	MinIn: 3, MaxIn: 5, MinOut: 1, MaxOut: 1,
	Infer: rule(func(n *ssa.Node) []Inferred {
		t := try(MatMulShape(InType(n, 0), InType(n, 1), InType(n, 0).DType))
		return One(t)
	}),
	Eval: kernel(evalDynamicQuantizeMatMul), Facts: Facts{Traits: general, Cost: matMulCost},
}

// MatMulIntegerToFloat is the product of quantized matrices in real numbers:
//
//	Y = (A - a_zero_point) · (B - b_zero_point) * a_scale*b_scale + bias
var MatMulIntegerToFloat = Op{
	Domain: microsoft, Name: "MatMulIntegerToFloat", Since: 1, Doc: "Y = (A - a_zero_point) · (B - b_zero_point) * scales + bias",
	MinIn: 4, MaxIn: 7, MinOut: 1, MaxOut: 1,
	Infer: rule(func(n *ssa.Node) []Inferred {
		t := try(MatMulShape(InType(n, 0), InType(n, 1), InType(n, 2).DType))
		return One(t)
	}),
	Eval: kernel(evalMatMulIntegerToFloat), Facts: Facts{Traits: general, Cost: matMulCost},
}

// MatMulInteger16 is the product of 16-bit integers in 32 bits.
var MatMulInteger16 = Op{
	Domain: microsoft, Name: "MatMulInteger16", Since: 1, Doc: "Y = A · B of 16-bit integers in 32 bits",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: rule(func(n *ssa.Node) []Inferred {
		t := try(MatMulShape(InType(n, 0), InType(n, 1), wideInt(InType(n, 0).DType)))
		return One(t)
	}),
	Eval: kernel(evalMatMulInteger16), Facts: Facts{Traits: general, Cost: matMulCost},
}

// MulInteger multiplies quantized elements in 32 bits, broadcasting:
// C = (A - A_zero_point) * (B - B_zero_point).
var MulInteger = Op{
	Domain: microsoft, Name: "MulInteger", Since: 1, Doc: "C = (A - A_zero_point) * (B - B_zero_point) in int32",
	MinIn: 1, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Facts: Facts{Traits: general}, Infer: rule(func(n *ssa.Node) []Inferred {
		t := try(BroadcastTypes(ndarray.Int32, InType(n, 0), InType(n, 2)))
		return One(t)
	}),
	Eval: kernel(evalMulInteger),
}

func evalDynamicQuantizeMatMul(c *Call) {
	a := tensor(c, 0)
	if a.DType != ndarray.Float32 {
		check(unsupportedType(a.DType))
	}
	x := ndarray.Slice[float32](a)
	scale, zero := dynamicRange(x)
	q := &ndarray.Array{DType: ndarray.Uint8, Shape: a.Shape, Data: make([]byte, len(x))}
	quantizeBytes(q.Data, x, scale, zero)
	scaledProduct(c, q, tensor(c, 1), ndarray.Scalar(zero), c.Array(3), ndarray.Scalar(scale), tensor(c, 2), c.Array(4))
}

func evalMatMulIntegerToFloat(c *Call) {
	scaledProduct(c, tensor(c, 0), tensor(c, 1), c.Array(4), c.Array(5), tensor(c, 2), tensor(c, 3), c.Array(6))
}

// scaledProduct stores (a - za)·(b - zb) * sa*sb + bias as result 0, of the
// element type of sb.
func scaledProduct(c *Call, a, b, za, zb, sa, sb, bias *ndarray.Array) {
	p := planMatMul(a.Shape, b.Shape)
	acc := integerProduct(p, a, b, za, zb)
	full := p.full()
	left := spread[float32]("a_scale", asColumn(sa), full)
	right := spread[float32]("b_scale", sb, full)
	y := newResult[float32](c, 0, sb.DType, p.shape...)
	add := spread[float32]("bias", bias, full)
	for i, v := range acc {
		y.V[i] = float32(v) * (left[i%len(left)] * right[i%len(right)])
	}
	scaleShift(y.V, nil, add)
	y.store()
}

func evalMatMulInteger16(c *Call) {
	a, b := tensor(c, 0), tensor(c, 1)
	if !typesOf(ndarray.Int16, ndarray.Uint16).has(a.DType) || b.DType != a.DType {
		failf("operands %s and %s: %w", a, b, ErrUnsupported)
	}
	p := planMatMul(a.Shape, b.Shape)
	z := newResult[int32](c, 0, wideInt(a.DType), p.shape...)
	multiplyStacks(p, elements[int32](a), elements[int32](b), z.V)
}

func evalMulInteger(c *Call) {
	a, b := c.Array(0), c.Array(2)
	if a == nil || b == nil || !byteInts.has(a.DType) || !byteInts.has(b.DType) {
		failf("operands are not two tensors of 8-bit integers")
	}
	for i := 1; i <= 3; i += 2 {
		wantLen1("a zero point", c.Array(i))
	}
	x := centered32("A", a, c.Array(1))
	y := centered32("B", b, c.Array(3))
	shape := try(BroadcastShapes(a.Shape, b.Shape))
	out := result(c, 0, ndarray.Int32, shape...)
	v := ndarray.Slice[int32](out)
	EachBroadcast(shape, a.Shape, b.Shape, func(o, i, j int) { v[o] = x[i] * y[j] })
}

// QGemm is the general product of quantized matrices:
//
//	acc = (A' - za) · (B' - zb) + C                       in int32
//	Y   = acc * alpha*sa*sb                               without y_scale
//	Y   = quantize(acc * alpha*sa*sb)                     with it
//
// b_scale and b_zero_point may have one element per column.
var QGemm = Op{
	Domain: microsoft, Name: "QGemm", Since: 1, Doc: "Y = quantize((A' - za) · (B' - zb) + C)",
	MinIn: 6, MaxIn: 9, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{floatAttr("alpha", 1), intAttr("transA", 0), intAttr("transB", 0)},
	Facts: Facts{Traits: general, Cost: innerCost}, Infer: rule(func(n *ssa.Node) []Inferred {
		a, b := InType(n, 0), InType(n, 3)
		rows, cols := dimOf(a, 0), dimOf(b, 1)
		if Int(n, "transA") != 0 {
			rows = dimOf(a, 1)
		}
		if Int(n, "transB") != 0 {
			cols = dimOf(b, 0)
		}
		dt := ndarray.Float32
		if n.Input(8) != nil {
			dt = InType(n, 8).DType
		}
		return One(ssa.TensorOf(dt, rows, cols))
	}),
	Eval: kernel(evalQGemm),
}

func evalQGemm(c *Call) {
	wantRank("A", tensor(c, 0), 2)
	wantRank("B", tensor(c, 3), 2)
	a, b := oriented(c.Node, "A", c.Array(0)), oriented(c.Node, "B", c.Array(3))
	p := planMatMul(a.Shape, b.Shape)
	acc := integerProduct(p, a, b, tensor(c, 2), tensor(c, 5))
	if bias := c.Array(6); bias != nil {
		shape, err := BroadcastShapes(bias.Shape, p.shape)
		if err != nil || bias.DType != ndarray.Int32 || sizeOf(shape) != len(acc) {
			failf("C is %s, which does not broadcast to int32%v", bias, p.shape)
		}
		v := ndarray.Slice[int32](bias)
		EachBroadcast(p.shape, bias.Shape, nil, func(o, i, _ int) { acc[o] += v[i] })
	}
	wantLen1("a_scale", tensor(c, 1))
	scale := elements[float32](tensor(c, 4))
	if len(scale) != 1 && len(scale) != p.n {
		failf("b_scale has %d elements for %d columns", len(scale), p.n)
	}
	f := Float(c.Node, "alpha") * float32(c.Array(1).Float(0))
	out := make([]float32, len(acc))
	for i, v := range acc {
		out[i] = float32(v) * (f * scale[i%p.n%len(scale)])
	}
	storeQGemm(c, out, p.shape)
}

func storeQGemm(c *Call, v []float32, shape []int) {
	if z := c.Array(8); z != nil {
		if !byteInts.has(z.DType) {
			check(unsupportedType(z.DType))
		}
		p := qparamOf(c, 7, 8, z.DType)
		p.storeQuantized(c, z.DType, v, shape...)
		return
	}
	setResult(c, 0, ndarray.Float32, shape, v)
}
