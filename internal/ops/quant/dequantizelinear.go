package quant

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// DequantizeLinear maps a small type back to real numbers:
// https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html
//
//	y = (x - x_zero_point) * x_scale
//
// per tensor, per axis or per block of block_size along axis.
var DequantizeLinear = ops.Op{
	Name: "DequantizeLinear", Since: 28, Form: quantVersion, Doc: "y = (x - x_zero_point) * x_scale",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis", 1).From(13), ops.IntAttr("block_size", 0).Between(0, math.MaxInt32).From(21), ops.IntAttr("output_dtype", 0).From(23)},
	Facts: ops.Facts{Traits: ops.PassingTraits.But(ops.KeepsPacked)}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		dt := ops.InType(n, 1).DType
		if dt != ndarray.Undefined {
			dt = dequantizedType(n, dt)
		}
		return ops.One(kit.Retyped(ops.InType(n, 0), dt))
	}),
	Eval: kit.Kernel(EvalDequantize),
}

// dequantizedType is output_dtype, or the scale's element type.
func dequantizedType(n *ssa.Node, scale ndarray.DType) ndarray.DType {
	if ops.Int(n, "output_dtype") == 0 {
		if scale == ndarray.Float8E8M0 {
			kit.Failf("a float8e8m0 scale needs attribute output_dtype")
		}
		return scale
	}
	dt := kit.Try(kit.DtypeAttr(n, "output_dtype", scale))
	if !kit.FullPrecisions.Has(dt) {
		kit.Check(kit.UnsupportedType(dt))
	}
	return dt
}

// EvalDequantize is the reference kernel of [DequantizeLinear].
func EvalDequantize(c *ops.Call) {
	x, scale, zero := kit.Tensor(c, 0), kit.Tensor(c, 1), c.Array(2)
	if !(quantInts | QuantFloats | kit.TypesOf(ndarray.Int32)).Has(x.DType) {
		kit.Check(kit.UnsupportedType(x.DType))
	}
	sameOrAbsent("x", x, zero)
	dt := dequantizedType(c.Node, scale.DType)
	g := granularityOf(c.Node, x.Shape, scale.Shape)
	zeros := zeroPoints(c, zero, scale.Len())
	y := kit.NewResult[float32](c, 0, dt, x.Shape...)
	v, s := kit.Elements[float64](c, x), kit.Elements[float32](c, scale)
	w := kit.Watching(c)
	g.each(func(at, n, first, step int) {
		w.Did(1)
		for i := range n {
			w.Did(1)
			e, k := v[at+i], first+i*step
			if zeros != nil {
				e -= zeros[k]
			}
			y.V[at+i] = float32(e) * s[k]
		}
	})
	y.Store()
}
