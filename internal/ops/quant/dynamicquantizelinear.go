package quant

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// DynamicQuantizeLinear quantizes to uint8 with scale and zero point from the
// data's own range: https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html
//
//	y_scale      = (max(0, max x) - min(0, min x)) / 255
//	y_zero_point = round(saturate(-min(0, min x) / y_scale))
//	y            = saturate(round(x / y_scale) + y_zero_point)
var DynamicQuantizeLinear = ops.Op{
	Name: "DynamicQuantizeLinear", Since: 11, Doc: "y = saturate(round(x / y_scale) + y_zero_point), range taken from x",
	MinIn: 1, MaxIn: 1, MinOut: 3, MaxOut: 3,
	Facts: ops.Facts{Traits: ops.IgnoringTraits}, Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		return []ops.Inferred{{Type: kit.Retyped(ops.InType(n, 0), ndarray.Uint8)}, {Type: ssa.StaticTensor(ndarray.Float32)}, {Type: ssa.StaticTensor(ndarray.Uint8)}}
	}),
	Eval: kit.Kernel(evalDynamicQuantize),
}

// Floats are the elements of a tensor, which must be of type float32.
func Floats(a *ndarray.Array) []float32 {
	if a.DType != ndarray.Float32 {
		kit.Check(kit.UnsupportedType(a.DType))
	}
	return ndarray.Slice[float32](a)
}

func evalDynamicQuantize(c *ops.Call) {
	a := kit.Tensor(c, 0)
	x := Floats(a)
	y := kit.Result(c, 0, ndarray.Uint8, a.Shape...)
	s := kit.Result(c, 1, ndarray.Float32)
	z := kit.Result(c, 2, ndarray.Uint8)
	scale, zero := DynamicRange(c, x)
	ndarray.Slice[float32](s)[0], z.Data[0] = scale, zero
	QuantizeBytes(c, y.Data, x, scale, zero)
}
