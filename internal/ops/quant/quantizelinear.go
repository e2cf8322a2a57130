package quant

import (
	"math"

	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// QuantizeLinear maps real numbers to a small type: https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html
//
//	y = saturate(round(x / y_scale) + y_zero_point)
//
// per tensor, per axis or per block of block_size along axis. The division has
// the precision of attribute precision, else of y_scale.
var QuantizeLinear = ops.Op{
	Name: "QuantizeLinear", Since: 28, Form: quantizeForm, Doc: "y = saturate(round(x / y_scale) + y_zero_point)",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.IntAttr("axis", 1).From(13), ops.IntAttr("block_size", 0).Between(0, math.MaxInt32).From(21), ops.IntAttr("output_dtype", 0).From(21),
		ops.IntAttr("precision", 0).From(23), ops.IntAttr("saturate", 1).From(19)},
	Infer: kit.Rule(InferQuantize), Eval: kit.Kernel(EvalQuantize),
	Facts: ops.Facts{Traits: ops.IgnoringTraits, Smaller: kit.NarrowingFirst},
}

// quantVersion is the operator-set version that the element types, granularity
// and attributes QuantizeLinear and DequantizeLinear share ask for.
func quantVersion(n *ssa.Node) int {
	switch {
	case kit.UsesType(n, ndarray.Float6E2M3, ndarray.Float6E3M2):
		return 28
	case kit.UsesType(n, ndarray.Int2, ndarray.Uint2):
		return 25
	case kit.UsesType(n, ndarray.Float8E8M0):
		return 24
	case kit.UsesType(n, ndarray.Float4E2M1):
		return 23
	case kit.UsesType(n, ndarray.Int16, ndarray.Uint16, ndarray.Int4, ndarray.Uint4):
		return 21
	case kit.UsesType(n, ndarray.Float16, ndarray.BFloat16, ndarray.Float8E4M3FN, ndarray.Float8E4M3FNUZ, ndarray.Float8E5M2, ndarray.Float8E5M2FNUZ):
		return 19
	case ops.InType(n, 1).Rank() == 1:
		return 13
	}
	return 10
}

func quantizeForm(n *ssa.Node) int {
	v := quantVersion(n)
	x, s := ops.InType(n, 0).DType, ops.InType(n, 1).DType
	if x != s && !(x == ndarray.Int32 && s == ndarray.Float32) {
		v = max(v, 23)
	}
	return v
}

// quantizedType is the result's element type: the zero point's, output_dtype, or uint8.
func quantizedType(n *ssa.Node, zero ndarray.DType) ndarray.DType {
	dt := kit.Try(kit.DtypeAttr(n, "output_dtype", ndarray.Undefined))
	switch {
	case zero == ndarray.Undefined && dt == ndarray.Undefined:
		dt = ndarray.Uint8
	case dt == ndarray.Undefined:
		dt = zero
	case zero != ndarray.Undefined && zero != dt:
		kit.Failf("output_dtype is %s, the zero point %s", dt, zero)
	}
	if !(quantInts | QuantFloats).Has(dt) {
		kit.Check(kit.UnsupportedType(dt))
	}
	return dt
}

// InferQuantize is the type and shape rule of [QuantizeLinear].
func InferQuantize(n *ssa.Node) []ops.Inferred {
	dt := ops.InType(n, 2).DType
	if n.Input(2) == nil || dt != ndarray.Undefined {
		dt = quantizedType(n, dt)
	}
	return ops.One(kit.Retyped(ops.InType(n, 0), dt))
}

// EvalQuantize is the reference kernel of [QuantizeLinear].
func EvalQuantize(c *ops.Call) {
	x, scale, zero := kit.Tensor(c, 0), kit.Tensor(c, 1), c.Array(2)
	zt := ndarray.Undefined
	if zero != nil {
		zt = zero.DType
	}
	dt := quantizedType(c.Node, zt)
	precision := kit.Try(kit.DtypeAttr(c.Node, "precision", scale.DType))
	g := granularityOf(c.Node, x.Shape, scale.Shape)
	zeros := zeroPoints(c, zero, scale.Len())
	store := QuantStore(kit.Result(c, 0, dt, x.Shape...), ops.IntOr(c.Node, "saturate", 1) != 0)
	if precision == ndarray.Float64 || x.DType == ndarray.Float64 {
		quantize(c, g, kit.Elements[float64](c, x), kit.Elements[float64](c, scale), zeros, ndarray.Float64, store)
		return
	}
	quantize(c, g, kit.Elements[float32](c, x), kit.Elements[float32](c, scale), zeros, precision, store)
}

// quantize divides with the given precision and stores.
func quantize[T kit.RealNum](c *ops.Call, g granularity, x, scale []T, zeros []float64, precision ndarray.DType, store func(i int, v float32, zero float64)) {
	q, w := kit.Make[T](c, g.inner), kit.Watching(c)
	g.each(func(at, n, s, step int) {
		w.Did(1)
		for i := range q {
			w.Did(1)
			q[i] = x[at+i] / scale[s+i*step]
		}
		kit.RoundTo(c, q, precision)
		for i, v := range q {
			w.Did(1)
			zero := 0.0
			if zeros != nil {
				zero = zeros[s+i*step]
			}
			store(at+i, float32(v), zero)
		}
	})
}
