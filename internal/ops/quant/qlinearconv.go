package quant

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/internal/ops/nn"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// QLinearConv is convolution of quantized tensors: https://onnx.ai/onnx/operators/onnx__QLinearConv.html
//
//	y = saturate(round(((w - w_zero_point) * (x - x_zero_point) + B) * x_scale*w_scale/y_scale) + y_zero_point)
//
// w_scale and w_zero_point may have one element per output channel.
var QLinearConv = ops.Op{
	Name: "QLinearConv", Since: 10, Doc: "y = quantize(dequantize(w) * dequantize(x) + B)",
	MinIn: 8, MaxIn: 9, MinOut: 1, MaxOut: 1,
	Attrs: nn.ConvAttrs,
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred { return nn.InferConv(n, 0, 3, ops.InType(n, 7).DType) }),
	Eval:  kit.Kernel(EvalQLinearConv), Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.ConvCost(3)},
}

// EvalQLinearConv is the reference kernel of [QLinearConv].
func EvalQLinearConv(c *ops.Call) {
	s, x, w := quantConv(c, [4]*ndarray.Array{kit.Tensor(c, 0), kit.Tensor(c, 3), kit.Tensor(c, 2), kit.Tensor(c, 5)})
	xScale, wScale, yScale, yZero, bias := kit.Tensor(c, 1), kit.Tensor(c, 4), kit.Tensor(c, 6), kit.Tensor(c, 7), c.Array(8)
	for i, a := range []*ndarray.Array{xScale, yScale, yZero} {
		kit.WantLen1([]string{"x_scale", "y_scale", "y_zero_point"}[i], a)
	}
	if k := wScale.Len(); k != 1 && k != s.M {
		kit.Failf("w_scale has %d elements for %d output channels", k, s.M)
	}
	var b []int32
	if bias != nil {
		if bias.DType != ndarray.Int32 || bias.Len() != s.M {
			kit.Failf("B is %s, expected int32[%d]", bias, s.M)
		}
		b = ndarray.Slice[int32](bias)
	}
	if !kit.ByteInts.Has(yZero.DType) {
		kit.Check(kit.UnsupportedType(yZero.DType))
	}
	y := kit.Result(c, 0, yZero.DType, s.YShape()...)
	acc := kit.Make[int32](c, y.Len())
	nn.Convolve(c, &s, x, w, b, acc)
	store, plane, zero := QuantStore(y, true), kit.SizeOf(s.Win.Out), yZero.Float(0)
	ws := kit.Elements[float32](c, wScale)
	watch := kit.Watching(c)
	for i := range s.N * s.M {
		f := kit.Elements[float32](c, xScale)[0] * ws[i%s.M%len(ws)] / kit.Elements[float32](c, yScale)[0]
		for k, v := range acc[i*plane : (i+1)*plane] {
			watch.Did(1)
			store(i*plane+k, float32(v)*f, zero)
		}
	}
}
