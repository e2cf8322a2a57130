package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// ConvInteger is convolution of small integers into int32: https://onnx.ai/onnx/operators/onnx__ConvInteger.html
//
//	y = (w - w_zero_point) * (x - x_zero_point)
//
// Padding stands for x_zero_point. w_zero_point may have one element per output
// channel.
var ConvInteger = Op{
	Name: "ConvInteger", Since: 10, Doc: "y = (w - w_zero_point) * (x - x_zero_point) in int32",
	MinIn: 2, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: convAttrs,
	Infer: rule(func(n *ssa.Node) []Inferred {
		t := inferConv(n, 0, 1, ndarray.Int32)
		return One(t)
	}),
	Eval: kernel(evalConvInteger), Facts: Facts{Traits: general, Cost: convCost(1)},
}

func evalConvInteger(c *Call) {
	s, x, w := quantConv(c, [4]*ndarray.Array{tensor(c, 0), tensor(c, 1), c.Array(2), c.Array(3)})
	y := result(c, 0, ndarray.Int32, s.yShape()...)
	convolve(&s, x, w, nil, ndarray.Slice[int32](y))
}
