package linalg

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
)

// MatMul is the matrix product as numpy.matmul has it:
// https://onnx.ai/onnx/operators/onnx__MatMul.html
//
//	A [..., m, k] · B [..., k, n] = Y [..., m, n]      leading dimensions broadcast
//	A [k] is a row [1, k], B [k] a column [k, 1]; that 1 is dropped from Y
var MatMul = ops.Op{
	Name: "MatMul", Since: 13, Doc: "Y = A · B",
	Form:  kit.FormBy(kit.From(1, kit.FloatTypes), kit.From(9, kit.WideTypes), kit.From(13, kit.AnyType)),
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: kit.Rule(kit.InferMatMul), Eval: kit.NumberKernel(evalMatMul[float32], evalMatMul[float64], evalMatMul[int64]),
	Facts: ops.Facts{Traits: ops.IgnoringTraits.But(ops.FailsNever), Linear: ops.MatMulLinear, Cost: kit.MatMulCost},
}

func evalMatMul[T kit.ProductNum](c *ops.Call) {
	dt := kit.SameOperands(c, 2, 2)
	a, b := c.Array(0), c.Array(1)
	p := kit.PlanMatMul(a.Shape, b.Shape)
	y := kit.NewResult[T](c, 0, dt, p.Shape...)
	kit.MultiplyStacks(c, p, kit.Elements[T](c, a), kit.Elements[T](c, b), y.V)
	y.Store()
}
