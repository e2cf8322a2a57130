package nn

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// SwiGLU gates one tensor by the swish of another: https://onnx.ai/onnx/operators/onnx__SwiGLU.html
//
//	Y = A * sigmoid(alpha * A) * B
//
// Both operands have the same shape. Source: https://arxiv.org/abs/2002.05202
var SwiGLU = ops.Op{
	Name: "SwiGLU", Since: 28, Doc: "Y = A * sigmoid(alpha * A) * B",
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Attrs: []*ops.AttrSpec{ops.FloatAttr("alpha", 1)},
	Infer: kit.SameAsShaped("...", "..."),
	Eval:  kit.FloatKernel(evalSwiGLU[float32], evalSwiGLU[float64]),
	Facts: ops.Facts{Traits: ops.ElementwiseTraits},
}

func evalSwiGLU[T float32 | float64](c *ops.Call) {
	x := kit.Tensor(c, 0)
	kit.WantShape("B", kit.Tensor(c, 1), x.Shape...)
	y := kit.NewResult[T](c, 0, x.DType, x.Shape...)
	alpha := float64(ops.Float(c.Node, "alpha"))
	a, b := kit.Elements[T](c, x), kit.Elements[T](c, c.Array(1))
	w := kit.Watching(c)
	for i, v := range a {
		w.Did(1)
		y.V[i] = T(float64(v) * kit.Sigmoid(alpha*float64(v)) * float64(b[i]))
	}
	y.Store()
}
