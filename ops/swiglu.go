package ops

import (
	"math"

	"github.com/berth-onnx/berth/ssa"
)

// SwiGLU gates one tensor by the swish of another: https://onnx.ai/onnx/operators/onnx__SwiGLU.html
//
//	Y = A * sigmoid(alpha * A) * B
//
// Both operands have the same shape. Source: https://arxiv.org/abs/2002.05202
var SwiGLU = Op{
	Name: "SwiGLU", Since: 28, Doc: "Y = A * sigmoid(alpha * A) * B",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []AttrSpec{{Name: "alpha", Kind: ssa.AttrFloat}},
	Infer: SameAs,
	Eval:  kernel(func(c *Call) { byReal(c, 0, evalSwiGLU[float32], evalSwiGLU[float64]) }),
	Facts: Facts{Elementwise: true},
}

func evalSwiGLU[T float32 | float64](c *Call) {
	wantArrays(c, 2)
	x := c.Array(0)
	wantShape("B", c.Array(1), x.Shape...)
	y := newReal[T](c, 0, x.DType, x.Shape...)
	alpha := float64(c.Node.Float("alpha", 1))
	a, b := reals[T](x), reals[T](c.Array(1))
	for i, v := range a {
		y.V[i] = T(float64(v) / (1 + math.Exp(-alpha*float64(v))) * float64(b[i]))
	}
	y.store()
}
