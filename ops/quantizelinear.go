package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// QuantizeLinear maps real numbers to a small type: https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html
//
//	y = saturate(round(x / y_scale) + y_zero_point)
//
// per tensor, per axis or per block of block_size along axis. The division has
// the precision of attribute precision, else of y_scale.
var QuantizeLinear = Op{
	Name: "QuantizeLinear", Since: 28, Form: quantizeForm, Doc: "y = saturate(round(x / y_scale) + y_zero_point)",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("axis", 1).since(13), intAttr("block_size", 0).since(21), intAttr("output_dtype", 0).since(21),
		intAttr("precision", 0).since(23), intAttr("saturate", 1).since(19)},
	Infer: rule(inferQuantize), Eval: kernel(evalQuantize),
	Facts: Facts{Traits: ignoring, Smaller: narrowingFirst},
}

// quantVersion is the operator-set version that the element types, granularity
// and attributes QuantizeLinear and DequantizeLinear share ask for.
func quantVersion(n *ssa.Node) int {
	switch {
	case usesType(n, ndarray.Float6E2M3, ndarray.Float6E3M2):
		return 28
	case usesType(n, ndarray.Int2, ndarray.Uint2):
		return 25
	case usesType(n, ndarray.Float8E8M0):
		return 24
	case usesType(n, ndarray.Float4E2M1):
		return 23
	case usesType(n, ndarray.Int16, ndarray.Uint16, ndarray.Int4, ndarray.Uint4):
		return 21
	case usesType(n, ndarray.Float16, ndarray.BFloat16, ndarray.Float8E4M3FN, ndarray.Float8E4M3FNUZ, ndarray.Float8E5M2, ndarray.Float8E5M2FNUZ):
		return 19
	case InType(n, 1).Rank() == 1:
		return 13
	}
	return 10
}

func quantizeForm(n *ssa.Node) int {
	v := quantVersion(n)
	x, s := InType(n, 0).DType, InType(n, 1).DType
	if x != s && !(x == ndarray.Int32 && s == ndarray.Float32) {
		v = max(v, 23)
	}
	return v
}

// quantizedType is the result's element type: the zero point's, output_dtype, or uint8.
func quantizedType(n *ssa.Node, zero ndarray.DType) ndarray.DType {
	dt := try(dtypeAttr(n, "output_dtype", ndarray.Undefined))
	switch {
	case zero == ndarray.Undefined && dt == ndarray.Undefined:
		dt = ndarray.Uint8
	case dt == ndarray.Undefined:
		dt = zero
	case zero != ndarray.Undefined && zero != dt:
		failf("output_dtype is %s, the zero point %s", dt, zero)
	}
	if !(quantInts | quantFloats).has(dt) {
		check(unsupportedType(dt))
	}
	return dt
}

func inferQuantize(n *ssa.Node) []Inferred {
	t := InType(n, 0)
	z := InType(n, 2)
	if n.Input(2) != nil && z.DType == ndarray.Undefined {
		t.DType = ndarray.Undefined
		return One(t)
	}
	t.DType = quantizedType(n, z.DType)
	return One(t)
}

func evalQuantize(c *Call) {
	x, scale, zero := tensor(c, 0), tensor(c, 1), c.Array(2)
	zt := ndarray.Undefined
	if zero != nil {
		zt = zero.DType
	}
	dt := quantizedType(c.Node, zt)
	precision := try(dtypeAttr(c.Node, "precision", scale.DType))
	g := grainOf(c.Node, x.Shape, scale.Shape)
	zeros := zeroPoints(zero, scale.Len())
	y := result(c, 0, dt, x.Shape...)
	if precision == ndarray.Float64 || x.DType == ndarray.Float64 {
		quantize(g, elements[float64](x), elements[float64](scale), zeros, ndarray.Float64, quantStore(y, IntOr(c.Node, "saturate", 1) != 0))
		return
	}
	quantize(g, elements[float32](x), elements[float32](scale), zeros, precision, quantStore(y, IntOr(c.Node, "saturate", 1) != 0))
}

// quantize divides with the given precision and stores.
func quantize[T realNum](g grain, x, scale []T, zeros []float64, precision ndarray.DType, store func(i int, v float32, zero float64)) {
	q := make([]T, g.inner)
	g.each(func(at, n, s, step int) {
		for i := range q {
			q[i] = x[at+i] / scale[s+i*step]
		}
		roundTo(q, precision)
		for i, v := range q {
			zero := 0.0
			if zeros != nil {
				zero = zeros[s+i*step]
			}
			store(at+i, float32(v), zero)
		}
	})
}
