package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// DequantizeLinear maps a small type back to real numbers:
// https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html
//
//	y = (x - x_zero_point) * x_scale
//
// per tensor, per axis or per block of block_size along axis.
var DequantizeLinear = Op{
	Name: "DequantizeLinear", Since: 28, Form: quantVersion, Doc: "y = (x - x_zero_point) * x_scale",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{intAttr("axis", 1).since(13), intAttr("block_size", 0).since(21), intAttr("output_dtype", 0).since(23)},
	Facts: Facts{Traits: passing.but(KeepsPacked)}, Infer: rule(func(n *ssa.Node) []Inferred {
		t, s := InType(n, 0), InType(n, 1).DType
		dt, err := dequantizedType(n, s)
		if s == ndarray.Undefined {
			dt, err = ndarray.Undefined, nil
		}
		t.DType = dt
		check(err)
		return One(t)
	}),
	Eval: kernel(evalDequantize),
}

// dequantizedType is output_dtype, or the scale's element type.
func dequantizedType(n *ssa.Node, scale ndarray.DType) (ndarray.DType, error) {
	if Int(n, "output_dtype") == 0 {
		if scale == ndarray.Float8E8M0 {
			return 0, fmt.Errorf("a float8e8m0 scale needs attribute output_dtype")
		}
		return scale, nil
	}
	dt, err := dtypeAttr(n, "output_dtype", scale)
	if err == nil && !fullPrecisions.has(dt) {
		err = unsupportedType(dt)
	}
	return dt, err
}

func evalDequantize(c *Call) {
	x, scale, zero := tensor(c, 0), tensor(c, 1), c.Array(2)
	if !(quantInts | quantFloats | typesOf(ndarray.Int32)).has(x.DType) {
		check(unsupportedType(x.DType))
	}
	sameOrAbsent("x", x, zero)
	dt := try(dequantizedType(c.Node, scale.DType))
	g := grainOf(c.Node, x.Shape, scale.Shape)
	zeros := zeroPoints(zero, scale.Len())
	y := newResult[float32](c, 0, dt, x.Shape...)
	v, s := elements[float64](x), elements[float32](scale)
	g.each(func(at, n, first, step int) {
		for i := range n {
			e, k := v[at+i], first+i*step
			if zeros != nil {
				e -= zeros[k]
			}
			y.V[at+i] = float32(e) * s[k]
		}
	})
	y.store()
}
