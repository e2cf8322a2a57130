package quant

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// QLinearMatMul is the matrix product of quantized tensors: https://onnx.ai/onnx/operators/onnx__QLinearMatMul.html
//
//	y = saturate(round((a - a_zero_point) · (b - b_zero_point) * a_scale*b_scale/y_scale) + y_zero_point)
//
// a's scale and zero point may have one element per row, b's per column.
var QLinearMatMul = ops.Op{
	Name: "QLinearMatMul", Since: 21, Doc: "y = quantize(dequantize(a) · dequantize(b))",
	Form: kit.SinceTypes(10, 21, ndarray.Float16, ndarray.BFloat16, ndarray.Float8E4M3FN, ndarray.Float8E4M3FNUZ,
		ndarray.Float8E5M2, ndarray.Float8E5M2FNUZ),
	MinIn: 8, MaxIn: 8, MinOut: 1, MaxOut: 1,
	Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.InnerCost}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		return ops.One(kit.Try(kit.MatMulShape(ops.InType(n, 0), ops.InType(n, 3), ops.InType(n, 7).DType)))
	}),
	Eval: kit.Kernel(evalQLinearMatMul),
}

func evalQLinearMatMul(c *ops.Call) {
	a, b, yScale, yZero := kit.Tensor(c, 0), kit.Tensor(c, 3), kit.Tensor(c, 6), kit.Tensor(c, 7)
	p := kit.PlanMatMul(a.Shape, b.Shape)
	if !(kit.ByteInts | kit.Float8Types).Has(yZero.DType) {
		kit.Check(kit.UnsupportedType(yZero.DType))
	}
	acc := quantProduct(c, p, a, b, kit.Tensor(c, 2), kit.Tensor(c, 5))
	y := kit.Result(c, 0, yZero.DType, p.Shape...)
	full := p.Full()
	as := kit.Spread[float32](c, "a_scale", AsColumn(kit.Tensor(c, 1)), full)
	bs := kit.Spread[float32](c, "b_scale", kit.Tensor(c, 4), full)
	ys := kit.Spread[float32](c, "y_scale", AsColumn(yScale), full)
	zs := kit.Spread[float64](c, "y_zero_point", AsColumn(yZero), full)
	store := QuantStore(y, true)
	w := kit.Watching(c)
	for i, v := range acc {
		w.Did(1)
		store(i, v*(as[i%len(as)]*bs[i%len(bs)]/ys[i%len(ys)]), zs[i%len(zs)])
	}
}

// quantProduct is the product of quantized matrices less their zero points:
// exact in int32 for integers, in float32 for float8.
func quantProduct(c *ops.Call, p kit.MatMulPlan, a, b, za, zb *ndarray.Array) []float32 {
	if kit.ByteInts.Has(a.DType) {
		acc := IntegerProduct(c, p, a, b, za, zb)
		out := kit.Make[float32](c, len(acc))
		kit.Convert(c, out, acc, func(v int32) float32 { return float32(v) })
		return out
	}
	if !kit.Float8Types.Has(a.DType) || !kit.Float8Types.Has(b.DType) {
		kit.Failf("operands %s and %s: %w", a, b, ops.ErrUnsupported)
	}
	x := centeredReal(c, "a", a, AsColumn(za))
	y := centeredReal(c, "b", b, zb)
	acc := kit.Make[float32](c, kit.SizeOf(p.Shape))
	kit.MultiplyStacks(c, p, x, y, acc)
	return acc
}

// centeredReal returns a - zero in float32, zero broadcasting to a.
func centeredReal(c *ops.Call, what string, a, zero *ndarray.Array) []float32 {
	z := kit.Spread[float32](c, what+"_zero_point", zero, a.Shape)
	out := kit.Copy(c, kit.Elements[float32](c, a))
	w := kit.Watching(c)
	for i := range out {
		w.Did(1)
		out[i] -= z[i%len(z)]
	}
	return out
}
