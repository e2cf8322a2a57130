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
	Infer: func(n *ssa.Node) ([]Inferred, error) {
		t, err := MatMulShape(InType(n, 0), InType(n, 1), ndarray.Int32)
		return One(t), err
	},
	Eval: evalMatMulInteger, Facts: Facts{Cost: matMulCost},
}

func evalMatMulInteger(c *Call) error {
	if err := wantArrays(c, 2); err != nil {
		return err
	}
	a, b := c.Array(0), c.Array(1)
	p, err := planMatMul(a.Shape, b.Shape)
	if err != nil {
		return err
	}
	acc, err := integerProduct(p, a, b, c.Array(2), c.Array(3))
	if err != nil {
		return err
	}
	y, err := c.Output(0, ndarray.Int32, p.shape...)
	if err != nil {
		return err
	}
	copy(ndarray.Slice[int32](y), acc)
	return nil
}

// integerProduct multiplies stacks of int8 or uint8 matrices less their zero points.
func integerProduct(p matMulPlan, a, b, za, zb *ndarray.Array) ([]int32, error) {
	if !byteInts.has(a.DType) || !byteInts.has(b.DType) {
		return nil, unsupportedType(a.DType)
	}
	if err := sameOrAbsent("A", a, za); err != nil {
		return nil, err
	}
	if err := sameOrAbsent("B", b, zb); err != nil {
		return nil, err
	}
	x, err := centered32("A", a, asColumn(za))
	if err != nil {
		return nil, err
	}
	y, err := centered32("B", b, zb)
	if err != nil {
		return nil, err
	}
	n, err := ndarray.NumElems(p.shape)
	if err != nil {
		return nil, err
	}
	acc := make([]int32, n)
	p.eachProduct(func(i, j, o int) {
		matMulAdd(p.m, p.n, p.k, x[i*p.m*p.k:], p.k, y[j*p.k*p.n:], p.n, acc[o*p.m*p.n:], p.n)
	})
	return acc, nil
}
