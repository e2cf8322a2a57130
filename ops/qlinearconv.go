package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// QLinearConv is convolution of quantized tensors: https://onnx.ai/onnx/operators/onnx__QLinearConv.html
//
//	y = saturate(round(((w - w_zero_point) * (x - x_zero_point) + B) * x_scale*w_scale/y_scale) + y_zero_point)
//
// w_scale and w_zero_point may have one element per output channel.
var QLinearConv = Op{
	Name: "QLinearConv", Since: 10, Doc: "y = quantize(dequantize(w) * dequantize(x) + B)",
	MinIn: 8, MaxIn: 9, MinOut: 1, MaxOut: 1,
	Attrs: convAttrs,
	Infer: rule(func(n *ssa.Node) []Inferred {
		t := inferConv(n, 0, 3, InType(n, 7).DType)
		return One(t)
	}),
	Eval: kernel(evalQLinearConv), Facts: Facts{Traits: general, Cost: convCost(3)},
}

func evalQLinearConv(c *Call) {
	s, x, w := quantConv(c, [4]*ndarray.Array{tensor(c, 0), tensor(c, 3), tensor(c, 2), tensor(c, 5)})
	xScale, wScale, yScale, yZero, bias := tensor(c, 1), tensor(c, 4), tensor(c, 6), tensor(c, 7), c.Array(8)
	for i, a := range []*ndarray.Array{xScale, yScale, yZero} {
		wantLen1([]string{"x_scale", "y_scale", "y_zero_point"}[i], a)
	}
	if k := wScale.Len(); k != 1 && k != s.m {
		failf("w_scale has %d elements for %d output channels", k, s.m)
	}
	var b []int32
	if bias != nil {
		if bias.DType != ndarray.Int32 || bias.Len() != s.m {
			failf("B is %s, expected int32[%d]", bias, s.m)
		}
		b = ndarray.Slice[int32](bias)
	}
	if !byteInts.has(yZero.DType) {
		check(unsupportedType(yZero.DType))
	}
	y := result(c, 0, yZero.DType, s.yShape()...)
	acc := make([]int32, y.Len())
	convolve(&s, x, w, b, acc)
	store, plane, zero := quantStore(y, true), sizeOf(s.win.out), yZero.Float(0)
	ws := elements[float32](wScale)
	for i := range s.n * s.m {
		f := elements[float32](xScale)[0] * ws[i%s.m%len(ws)] / elements[float32](yScale)[0]
		for k, v := range acc[i*plane : (i+1)*plane] {
			store(i*plane+k, float32(v)*f, zero)
		}
	}
}
