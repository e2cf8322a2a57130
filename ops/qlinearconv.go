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
	Eval: kernel(evalQLinearConv), Facts: Facts{Cost: convCost(3)},
}

func evalQLinearConv(c *Call) {
	wantArrays(c, 8)
	s, x, w := quantConv(c, [4]*ndarray.Array{c.Array(0), c.Array(3), c.Array(2), c.Array(5)})
	xScale, wScale, yScale, yZero, bias := c.Array(1), c.Array(4), c.Array(6), c.Array(7), c.Array(8)
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
	y := try(c.Output(0, yZero.DType, s.yShape()...))
	acc := make([]int32, y.Len())
	convolve(&s, x, w, b, acc)
	store, plane, zero := quantStore(y, true), sizeOf(s.win.out), yZero.Float(0)
	ws := reals[float32](wScale)
	for i := range s.n * s.m {
		f := reals[float32](xScale)[0] * ws[i%s.m%len(ws)] / reals[float32](yScale)[0]
		for k, v := range acc[i*plane : (i+1)*plane] {
			store(i*plane+k, float32(v)*f, zero)
		}
	}
}
