package ops

import (
	"math"

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
	Infer: rule(func(n *ssa.Node) []Inferred {
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

// dynamicRange returns scale and zero point of the range of x and 0, NaN left out.
func dynamicRange(x []float32) (scale float32, zero byte) {
	var lo, hi float32
	for _, v := range x {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	if lo == hi {
		return 1, 0
	}
	scale = (hi - lo) / 255
	return scale, byte(max(0, min(255, math.RoundToEven(float64(-lo/scale)))))
}

// quantizeBytes quantizes to uint8 with one scale; NaN becomes the zero point.
func quantizeBytes(y []byte, x []float32, scale float32, zero byte) {
	for i, v := range x {
		q := math.RoundToEven(float64(v / scale))
		if q != q {
			q = 0
		}
		y[i] = byte(max(0, min(255, q+float64(zero))))
	}
}
