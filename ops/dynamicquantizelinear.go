package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// DynamicQuantizeLinear quantizes to uint8 with scale and zero point from the
// data's own range: https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html
//
//	y_scale      = (max(0, max x) - min(0, min x)) / 255
//	y_zero_point = round(saturate(-min(0, min x) / y_scale))
//	y            = saturate(round(x / y_scale) + y_zero_point)
var DynamicQuantizeLinear = Op{
	Name: "DynamicQuantizeLinear", Since: 11, Doc: "y = saturate(round(x / y_scale) + y_zero_point), range taken from x",
	MinIn: 1, MaxIn: 1, MinOut: 3, MaxOut: 3,
	Facts: Facts{Traits: ignoring}, Infer: rule(func(n *ssa.Node) []Inferred {
		y := InType(n, 0)
		y.DType = ndarray.Uint8
		return []Inferred{{Type: y}, {Type: ssa.StaticTensor(ndarray.Float32)}, {Type: ssa.StaticTensor(ndarray.Uint8)}}
	}),
	Eval: kernel(evalDynamicQuantize),
}

func evalDynamicQuantize(c *Call) {
	a := tensor(c, 0)
	if a.DType != ndarray.Float32 {
		check(unsupportedType(a.DType))
	}
	x := ndarray.Slice[float32](a)
	y := result(c, 0, ndarray.Uint8, a.Shape...)
	s := result(c, 1, ndarray.Float32)
	z := result(c, 2, ndarray.Uint8)
	scale, zero := dynamicRange(x)
	ndarray.Slice[float32](s)[0], z.Data[0] = scale, zero
	quantizeBytes(y.Data, x, scale, zero)
}
