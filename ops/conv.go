package ops

import "github.com/berth-onnx/berth/ssa"

// Conv is convolution (cross-correlation) over any number of spatial
// dimensions: https://onnx.ai/onnx/operators/onnx__Conv.html
//
//	Y[n,m,o] = B[m] + sum over c,k of W[m,c,k] * X[n, group(m)*C/g + c, o*stride + k*dilation - pad]
var Conv = Op{
	Name: "Conv", Since: 22, Form: bf16Since22(1), Doc: "Y = W * X + B, windows over the spatial dimensions",
	MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 1,
	Attrs: convAttrs,
	Infer: rule(func(n *ssa.Node) []Inferred {
		t := inferConv(n, 0, 1, InType(n, 0).DType)
		return One(t)
	}),
	Eval:  floatKernel(evalConv[float32], evalConv[float64]),
	Facts: Facts{Traits: ignoring.but(FailsNever), Linear: convLinear, Cost: convCost(1)},
}

func evalConv[T float32 | float64](c *Call) {
	x, w, b := tensor(c, 0), tensor(c, 1), c.Array(2)
	s := convShapeOf(c.Node, x.Shape, w.Shape)
	wantLen("bias", b, s.m)
	y := newResult[T](c, 0, x.DType, s.yShape()...)
	convolve(&s, elements[T](x), elements[T](w), elements[T](b), y.V)
	y.store()
}
