package quant

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// ConvInteger is convolution of small integers into int32: https://onnx.ai/onnx/operators/onnx__ConvInteger.html
//
//	y = (w - w_zero_point) * (x - x_zero_point)
//
// Padding stands for x_zero_point. w_zero_point may have one element per output
// channel.
var ConvInteger = ops.Op{
	Name: "ConvInteger", Since: 10, Doc: "y = (w - w_zero_point) * (x - x_zero_point) in int32",
	MinIn: 2, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Attrs: nn.ConvAttrs,
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred { return nn.InferConv(n, 0, 1, ndarray.Int32) }),
	Eval:  kit.Kernel(evalConvInteger), Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.ConvCost(1)},
}

func evalConvInteger(c *ops.Call) {
	s, x, w := quantConv(c, [4]*ndarray.Array{kit.Tensor(c, 0), kit.Tensor(c, 1), c.Array(2), c.Array(3)})
	y := kit.Result(c, 0, ndarray.Int32, s.YShape()...)
	nn.Convolve(c, &s, x, w, nil, ndarray.Slice[int32](y))
}
