package quant

import (
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// MatMulInteger is the matrix product of small integers into int32:
// https://onnx.ai/onnx/operators/onnx__MatMulInteger.html
//
//	Y = (A - a_zero_point) · (B - b_zero_point)
//
// a_zero_point may have one element per row of A, b_zero_point per column of B.
var MatMulInteger = ops.Op{
	Name: "MatMulInteger", Since: 10, Doc: "Y = (A - a_zero_point) · (B - b_zero_point) in int32",
	MinIn: 2, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Infer: kit.Rule(func(n *ssa.Node) []ops.Inferred {
		return ops.One(kit.Try(kit.MatMulShape(ops.InType(n, 0), ops.InType(n, 1), ndarray.Int32)))
	}),
	Eval: kit.Kernel(evalMatMulInteger), Facts: ops.Facts{Traits: ops.GeneralTraits, Cost: kit.MatMulCost},
}

func evalMatMulInteger(c *ops.Call) {
	a, b := kit.Tensor(c, 0), kit.Tensor(c, 1)
	p := kit.PlanMatMul(a.Shape, b.Shape)
	acc := IntegerProduct(c, p, a, b, c.Array(2), c.Array(3))
	y := kit.Result(c, 0, ndarray.Int32, p.Shape...)
	kit.CopySlice(c, ndarray.Slice[int32](y), acc)
}
