package ops

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// MatMulInteger is the matrix product of small integers into int32:
// https://onnx.ai/onnx/operators/onnx__MatMulInteger.html
//
//	Y = (A - a_zero_point) · (B - b_zero_point)
//
// a_zero_point may have one element per row of A, b_zero_point per column of B.
var MatMulInteger = Op{
	Name: "MatMulInteger", Since: 10, Doc: "Y = (A - a_zero_point) · (B - b_zero_point) in int32",
	MinIn: 2, MaxIn: 4, MinOut: 1, MaxOut: 1,
	Infer: rule(func(n *ssa.Node) []Inferred {
		t := try(MatMulShape(InType(n, 0), InType(n, 1), ndarray.Int32))
		return One(t)
	}),
	Eval: kernel(evalMatMulInteger), Facts: Facts{Traits: general, Cost: matMulCost},
}

func evalMatMulInteger(c *Call) {
	a, b := tensor(c, 0), tensor(c, 1)
	p := planMatMul(a.Shape, b.Shape)
	acc := integerProduct(p, a, b, c.Array(2), c.Array(3))
	y := result(c, 0, ndarray.Int32, p.shape...)
	copy(ndarray.Slice[int32](y), acc)
}
