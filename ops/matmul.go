package ops

// MatMul is the matrix product as numpy.matmul has it:
// https://onnx.ai/onnx/operators/onnx__MatMul.html
//
//	A [..., m, k] · B [..., k, n] = Y [..., m, n]      leading dimensions broadcast
//	A [k] is a row [1, k], B [k] a column [k, 1]; that 1 is dropped from Y
var MatMul = Op{
	Name: "MatMul", Since: 13, Doc: "Y = A · B",
	Form:  formBy(typeStep{1, floatTypes}, typeStep{9, wideTypes}, typeStep{13, anyType}),
	MinIn: 2, MaxIn: 2, MinOut: 1, MaxOut: 1,
	Infer: rule(inferMatMul), Eval: numberKernel(evalMatMul[float32], evalMatMul[float64], evalMatMul[int64]),
	Facts: Facts{Traits: ignoring.but(FailsNever), Linear: matMulLinear, Cost: matMulCost},
}

func evalMatMul[T productNum](c *Call) {
	dt := sameOperands(c, 2, 2)
	a, b := c.Array(0), c.Array(1)
	p := planMatMul(a.Shape, b.Shape)
	y := newResult[T](c, 0, dt, p.shape...)
	multiplyStacks(p, elements[T](a), elements[T](b), y.V)
	y.store()
}
