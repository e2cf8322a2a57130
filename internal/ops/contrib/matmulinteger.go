package contrib

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/internal/ops/quant"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// DynamicQuantizeMatMul multiplies by quantized weights, A quantized by its own
// range, of the com.microsoft domain:
//
//	Y = (quantize(A) - za) · (B - b_zero_point) * sa*b_scale + bias
//
// b_scale and b_zero_point may have one element per column.
var DynamicQuantizeMatMul = productOp("DynamicQuantizeMatMul", "Y = quantize(A) · (B - b_zero_point) * scales + bias", 3, 5, evalDynamicQuantizeMatMul,
	func(n *ssa.Node) ndarray.DType { return ops.InType(n, 0).DType })

// productOp is a product of operands 0 and 1 with elements of a type of its own.
func productOp(name, doc string, minIn, maxIn int, eval func(*ops.Call), result func(n *ssa.Node) ndarray.DType) ops.Op {
	return ops.Op{
		Domain: Microsoft, Name: name, Since: 1, Doc: doc,
		MinIn: minIn, MaxIn: maxIn, MinOut: 1, MaxOut: 1,
		Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
			return ops.One(kit.Try(kit.MatMulShape(ops.InType(n, 0), ops.InType(n, 1), result(n))))
		}),
		Eval: kit.Kernel(eval), Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.MatMulCost},
	}
}

// MatMulIntegerToFloat is the product of quantized matrices in real numbers:
//
//	Y = (A - a_zero_point) · (B - b_zero_point) * a_scale*b_scale + bias
var MatMulIntegerToFloat = productOp("MatMulIntegerToFloat", "Y = (A - a_zero_point) · (B - b_zero_point) * scales + bias", 4, 7, evalMatMulIntegerToFloat,
	func(n *ssa.Node) ndarray.DType { return ops.InType(n, 2).DType })

// MatMulInteger16 is the product of 16-bit integers in 32 bits.
var MatMulInteger16 = productOp("MatMulInteger16", "Y = A · B of 16-bit integers in 32 bits", 2, 2, evalMatMulInteger16,
	func(n *ssa.Node) ndarray.DType { return wideInt(ops.InType(n, 0).DType) })

// MulInteger multiplies quantized elements in 32 bits, broadcasting:
// C = (A - A_zero_point) * (B - B_zero_point).
func MulInteger() ops.Op {
	return ops.Op{
		Domain: Microsoft, Name: "MulInteger", Since: 1, Doc: "C = (A - A_zero_point) * (B - B_zero_point) in int32",
		MinIn: 1, MaxIn: 4, MinOut: 1, MaxOut: 1,
		Facts: ops.Facts{Traits: ops.GeneralTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
			return ops.One(kit.Try(ops.BroadcastTypes(ndarray.Int32, ops.InType(n, 0), ops.InType(n, 2))))
		}),
		Eval: kit.Kernel(evalMulInteger),
	}
}

func evalDynamicQuantizeMatMul(c *ops.Call) {
	a := kit.Tensor(c, 0)
	x := quant.Floats(a)
	scale, zero := quant.DynamicRange(c, x)
	q := &ndarray.Array{DType: ndarray.Uint8, Shape: a.Shape, Data: kit.Make[byte](c, len(x))}
	quant.QuantizeBytes(c, q.Data, x, scale, zero)
	scaledProduct(c, q, kit.Tensor(c, 1), ndarray.Scalar(zero), c.Array(3), ndarray.Scalar(scale), kit.Tensor(c, 2), c.Array(4))
}

func evalMatMulIntegerToFloat(c *ops.Call) {
	scaledProduct(c, kit.Tensor(c, 0), kit.Tensor(c, 1), c.Array(4), c.Array(5), kit.Tensor(c, 2), kit.Tensor(c, 3), c.Array(6))
}

// scaledProduct stores (a - za)·(b - zb) * sa*sb + bias as result 0, of the
// element type of sb.
func scaledProduct(c *ops.Call, a, b, za, zb, sa, sb, bias *ndarray.Array) {
	watch := kit.Watching(c)
	p := kit.PlanMatMul(a.Shape, b.Shape)
	acc := quant.IntegerProduct(c, p, a, b, za, zb)
	full := p.Full()
	left := kit.Spread[float32](c, "a_scale", quant.AsColumn(sa), full)
	right := kit.Spread[float32](c, "b_scale", sb, full)
	y := kit.NewResult[float32](c, 0, sb.DType, p.Shape...)
	add := kit.Spread[float32](c, "bias", bias, full)
	for i, v := range acc {
		watch.Did(1)
		y.V[i] = float32(v) * (left[i%len(left)] * right[i%len(right)])
	}
	nn.ScaleShift(c, y.V, nil, add)
	y.Store()
}

func evalMatMulInteger16(c *ops.Call) {
	a, b := kit.Tensor(c, 0), kit.Tensor(c, 1)
	if !kit.TypesOf(ndarray.Int16, ndarray.Uint16).Has(a.DType) || b.DType != a.DType {
		kit.Failf("operands %s and %s: %w", a, b, ops.ErrUnsupported)
	}
	p := kit.PlanMatMul(a.Shape, b.Shape)
	z := kit.NewResult[int32](c, 0, wideInt(a.DType), p.Shape...)
	kit.MultiplyStacks(c, p, kit.Elements[int32](c, a), kit.Elements[int32](c, b), z.V)
}

func evalMulInteger(c *ops.Call) {
	a, b := c.Array(0), c.Array(2)
	if a == nil || b == nil || !kit.ByteInts.Has(a.DType) || !kit.ByteInts.Has(b.DType) {
		kit.Failf("operands are not two tensors of 8-bit integers")
	}
	for i := 1; i <= 3; i += 2 {
		kit.WantLen1("a zero point", c.Array(i))
	}
	x := quant.Centered32(c, "A", a, c.Array(1))
	y := quant.Centered32(c, "B", b, c.Array(3))
	shape := kit.Try(ops.BroadcastShapes(a.Shape, b.Shape))
	out := kit.Result(c, 0, ndarray.Int32, shape...)
	v := ndarray.Slice[int32](out)
	kit.EachBroadcast(c, shape, a.Shape, b.Shape, func(o, i, j int) { v[o] = x[i] * y[j] })
}

// QGemm is the general product of quantized matrices:
//
//	acc = (A' - za) · (B' - zb) + C                       in int32
//	Y   = acc * alpha*sa*sb                               without y_scale
//	Y   = quantize(acc * alpha*sa*sb)                     with it
//
// b_scale and b_zero_point may have one element per column.
var QGemm = ops.Op{
	Domain: Microsoft, Name: "QGemm", Since: 1, Doc: "Y = quantize((A' - za) · (B' - zb) + C)",
	MinIn: 6, MaxIn: 9, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.FloatAttr("alpha", 1), ops.IntAttr("transA", 0), ops.IntAttr("transB", 0)},
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.InnerCost}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		a, b := ops.InType(n, 0), ops.InType(n, 3)
		rows, cols := kit.DimOf(a, 0), kit.DimOf(b, 1)
		if ops.Int(n, "transA") != 0 {
			rows = kit.DimOf(a, 1)
		}
		if ops.Int(n, "transB") != 0 {
			cols = kit.DimOf(b, 0)
		}
		dt := ndarray.Float32
		if n.Input(8) != nil {
			dt = ops.InType(n, 8).DType
		}
		return ops.One(ssa.TensorOf(dt, rows, cols))
	}),
	Eval: kit.Kernel(evalQGemm),
}

func evalQGemm(c *ops.Call) {
	watch := kit.Watching(c)
	kit.WantRank("A", kit.Tensor(c, 0), 2)
	kit.WantRank("B", kit.Tensor(c, 3), 2)
	a, b := oriented(c, c.Node, "A", c.Array(0)), oriented(c, c.Node, "B", c.Array(3))
	p := kit.PlanMatMul(a.Shape, b.Shape)
	acc := quant.IntegerProduct(c, p, a, b, kit.Tensor(c, 2), kit.Tensor(c, 5))
	if bias := c.Array(6); bias != nil {
		shape, err := ops.BroadcastShapes(bias.Shape, p.Shape)
		if err != nil || bias.DType != ndarray.Int32 || kit.SizeOf(shape) != len(acc) {
			kit.Failf("C is %s, which does not broadcast to int32%v", bias, p.Shape)
		}
		v := ndarray.Slice[int32](bias)
		kit.EachBroadcast(c, p.Shape, bias.Shape, nil, func(o, i, _ int) { acc[o] += v[i] })
	}
	kit.WantLen1("a_scale", kit.Tensor(c, 1))
	scale := kit.Elements[float32](c, kit.Tensor(c, 4))
	if len(scale) != 1 && len(scale) != p.N {
		kit.Failf("b_scale has %d elements for %d columns", len(scale), p.N)
	}
	f := ops.Float(c.Node, "alpha") * float32(c.Array(1).Float(0))
	out := kit.Make[float32](c, len(acc))
	for i, v := range acc {
		watch.Did(1)
		out[i] = float32(v) * (f * scale[i%p.N%len(scale)])
	}
	storeQGemm(c, out, p.Shape)
}

func storeQGemm(c *ops.Call, v []float32, shape []int) {
	if z := c.Array(8); z != nil {
		if !kit.ByteInts.Has(z.DType) {
			kit.Check(kit.UnsupportedType(z.DType))
		}
		p := quantParamsOf(c, 7, 8, z.DType)
		store, watch := quant.QuantStore(kit.Result(c, 0, z.DType, shape...), true), kit.Watching(c)
		for i, x := range v {
			watch.Did(1)
			store(i, x/p.scale, p.zero) // rounded before the zero point is added, as in ONNX Runtime
		}
		return
	}
	kit.SetResult(c, 0, ndarray.Float32, shape, v)
}
