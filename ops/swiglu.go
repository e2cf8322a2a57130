package ops

import ()

// SwiGLU gates one tensor by the swish of another: https://onnx.ai/onnx/operators/onnx__SwiGLU.html
//
//	Y = A * sigmoid(alpha * A) * B
//
// Both operands have the same shape. Source: https://arxiv.org/abs/2002.05202
var SwiGLU = Op{
	Name: "SwiGLU", Since: 28, Doc: "Y = A * sigmoid(alpha * A) * B",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{floatAttr("alpha", 1)},
	Infer: SameAs,
	Eval:  floatKernel(evalSwiGLU[float32], evalSwiGLU[float64]),
	Facts: Facts{Traits: elementwise},
}

func evalSwiGLU[T float32 | float64](c *Call) {
	x := tensor(c, 0)
	wantShape("B", tensor(c, 1), x.Shape...)
	y := newResult[T](c, 0, x.DType, x.Shape...)
	alpha := float64(Float(c.Node, "alpha"))
	a, b := elements[T](x), elements[T](c.Array(1))
	for i, v := range a {
		y.V[i] = T(float64(v) * sigmoid(alpha*float64(v)) * float64(b[i]))
	}
	y.store()
}
