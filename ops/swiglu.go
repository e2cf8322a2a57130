package ops

import (
	"math"
)

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
	Eval:  func(c *Call) error { return byReal(c, 0, evalSwiGLU[float32], evalSwiGLU[float64]) },
	Facts: Facts{Traits: elementwise},
}

func evalSwiGLU[T float32 | float64](c *Call) error {
	if err := wantArrays(c, 2); err != nil {
		return err
	}
	x := c.Array(0)
	if err := wantShape("B", c.Array(1), x.Shape...); err != nil {
		return err
	}
	y, err := newReal[T](c, 0, x.DType, x.Shape...)
	if err != nil {
		return err
	}
	alpha := float64(Float(c.Node, "alpha"))
	a, b := reals[T](x), reals[T](c.Array(1))
	for i, v := range a {
		y.V[i] = T(float64(v) / (1 + math.Exp(-alpha*float64(v))) * float64(b[i]))
	}
	return y.store()
}
