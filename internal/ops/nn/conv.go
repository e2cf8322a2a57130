package nn

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Conv is convolution (cross-correlation) over any number of spatial
// dimensions: https://onnx.ai/onnx/operators/onnx__Conv.html
//
//	Y[n,m,o] = B[m] + sum over c,k of W[m,c,k] * X[n, group(m)*C/g + c, o*stride + k*dilation - pad]
var Conv = ops.Op{
	Name: "Conv", Since: 22, Form: bf16Since22(1), Doc: "Y = W * X + B, windows over the spatial dimensions",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: ConvAttrs,
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred { return InferConv(n, 0, 1, ops.InType(n, 0).DType) }),
	Eval:  kit.FloatKernel(evalConv[float32], evalConv[float64]),
	Facts: ops.Facts{Traits: ops.IgnoringTraits.But(ops.FailsNever), Linear: ops.ConvLinear, Cost: kit.ConvCost(1)},
}

func evalConv[T float32 | float64](c *ops.Call) {
	x, w, b := kit.Tensor(c, 0), kit.Tensor(c, 1), c.Array(2)
	s := ConvShapeOf(c.Node, x.Shape, w.Shape)
	kit.WantLen("bias", b, s.M)
	y := kit.NewResult[T](c, 0, x.DType, s.YShape()...)
	Convolve(c, &s, kit.Elements[T](c, x), kit.Elements[T](c, w), kit.Elements[T](c, b), y.V)
	y.Store()
}
