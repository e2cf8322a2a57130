package ops

import (
	"fmt"

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
	Infer: func(n *ssa.Node) ([]Inferred, error) {
		t, err := inferConv(n, 0, 3, InType(n, 7).DType)
		return One(t), err
	},
	Eval: evalQLinearConv, Facts: Facts{Cost: convCost(3)},
}

func evalQLinearConv(c *Call) error {
	if err := wantArrays(c, 8); err != nil {
		return err
	}
	s, x, w, err := quantConv(c, [4]*ndarray.Array{c.Array(0), c.Array(3), c.Array(2), c.Array(5)})
	if err != nil {
		return err
	}
	xScale, wScale, yScale, yZero, bias := c.Array(1), c.Array(4), c.Array(6), c.Array(7), c.Array(8)
	for i, a := range []*ndarray.Array{xScale, yScale, yZero} {
		if err := wantLen1([]string{"x_scale", "y_scale", "y_zero_point"}[i], a); err != nil {
			return err
		}
	}
	if k := wScale.Len(); k != 1 && k != s.m {
		return fmt.Errorf("w_scale has %d elements for %d output channels", k, s.m)
	}
	var b []int32
	if bias != nil {
		if bias.DType != ndarray.Int32 || bias.Len() != s.m {
			return fmt.Errorf("B is %s, expected int32[%d]", bias, s.m)
		}
		b = ndarray.Slice[int32](bias)
	}
	if !byteInts.has(yZero.DType) {
		return unsupportedType(yZero.DType)
	}
	y, err := c.Output(0, yZero.DType, s.yShape()...)
	if err != nil {
		return err
	}
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
	return nil
}
