package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// QLinearMatMul is the matrix product of quantized tensors: https://onnx.ai/onnx/operators/onnx__QLinearMatMul.html
//
//	y = saturate(round((a - a_zero_point) · (b - b_zero_point) * a_scale*b_scale/y_scale) + y_zero_point)
//
// a's scale and zero point may have one element per row, b's per column.
var QLinearMatMul = Op{
	Name: "QLinearMatMul", Since: 21, Doc: "y = quantize(dequantize(a) · dequantize(b))",
	Form: sinceTypes(10, 21, ndarray.Float16, ndarray.BFloat16, ndarray.Float8E4M3FN, ndarray.Float8E4M3FNUZ,
		ndarray.Float8E5M2, ndarray.Float8E5M2FNUZ),
	MinIn: 8, MaxIn: 8, MinOut: 1, MaxOut: 1,
	Facts: Facts{Traits: general, Cost: innerCost}, Infer: rule(func(n *ssa.Node) []Inferred {
		t := try(MatMulShape(InType(n, 0), InType(n, 3), InType(n, 7).DType))
		return One(t)
	}),
	Eval: kernel(evalQLinearMatMul),
}

func evalQLinearMatMul(c *Call) {
	a, b, yScale, yZero := tensor(c, 0), tensor(c, 3), tensor(c, 6), tensor(c, 7)
	p := planMatMul(a.Shape, b.Shape)
	if !(byteInts | float8Types).has(yZero.DType) {
		check(unsupportedType(yZero.DType))
	}
	acc := quantProduct(p, a, b, tensor(c, 2), tensor(c, 5))
	y := result(c, 0, yZero.DType, p.shape...)
	full := p.full()
	as := spread[float32]("a_scale", asColumn(tensor(c, 1)), full)
	bs := spread[float32]("b_scale", tensor(c, 4), full)
	ys := spread[float32]("y_scale", asColumn(yScale), full)
	zs := spread[float64]("y_zero_point", asColumn(yZero), full)
	store := quantStore(y, true)
	for i, v := range acc {
		store(i, v*(as[i%len(as)]*bs[i%len(bs)]/ys[i%len(ys)]), zs[i%len(zs)])
	}
}

// quantProduct is the product of quantized matrices less their zero points:
// exact in int32 for integers, in float32 for float8.
func quantProduct(p matMulPlan, a, b, za, zb *ndarray.Array) []float32 {
	if byteInts.has(a.DType) {
		acc := integerProduct(p, a, b, za, zb)
		out := make([]float32, len(acc))
		for i, v := range acc {
			out[i] = float32(v)
		}
		return out
	}
	if !float8Types.has(a.DType) || !float8Types.has(b.DType) {
		failf("operands %s and %s: %w", a, b, ErrUnsupported)
	}
	x := centeredReal("a", a, asColumn(za))
	y := centeredReal("b", b, zb)
	acc := make([]float32, sizeOf(p.shape))
	multiplyStacks(p, x, y, acc)
	return acc
}

// centeredReal returns a - zero in float32, zero broadcasting to a.
func centeredReal(what string, a, zero *ndarray.Array) []float32 {
	z := spread[float32](what+"_zero_point", zero, a.Shape)
	out := append([]float32(nil), elements[float32](a)...)
	for i := range out {
		out[i] -= z[i%len(z)]
	}
	return out
}
