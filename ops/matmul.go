package ops

import (
	"fmt"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

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
	Facts: Facts{Cost: matMulCost},
}

// MatMulShape is the shape rule of matrix products, shared by their relatives.
// Unranked operands give an unranked result.
func MatMulShape(a, b ssa.Type, dt ndarray.DType) (ssa.Type, error) {
	if !a.Ranked || !b.Ranked {
		return ssa.UnrankedTensor(dt), nil
	}
	x, y := a.Shape, b.Shape
	if len(x) == 0 || len(y) == 0 {
		return ssa.Type{}, fmt.Errorf("operands of rank %d and %d; a matrix product needs at least rank 1", len(x), len(y))
	}
	row, col := len(x) == 1, len(y) == 1
	if row {
		x = []ssa.Dim{ssa.D(1), x[0]}
	}
	if col {
		y = []ssa.Dim{y[0], ssa.D(1)}
	}
	ka, kb := x[len(x)-1], y[len(y)-2]
	if p, ok := ka.Const(); ok {
		if q, ok := kb.Const(); ok && p != q {
			return ssa.Type{}, fmt.Errorf("inner dimensions %d and %d differ", p, q)
		}
	}
	shape, err := BroadcastDims(x[:len(x)-2], y[:len(y)-2])
	if err != nil {
		return ssa.Type{}, err
	}
	if !row {
		shape = append(shape, x[len(x)-2])
	}
	if !col {
		shape = append(shape, y[len(y)-1])
	}
	return ssa.TensorOf(dt, shape...), nil
}

func inferMatMul(n *ssa.Node) []Inferred {
	dt := sameDType(n, 0, 1)
	t := try(MatMulShape(InType(n, 0), InType(n, 1), dt))
	return One(t)
}

// matMulCost is two operations per term of every inner product.
func matMulCost(n *ssa.Node) Cost {
	c := Cost{}
	for _, v := range []*ssa.Value{n.In[0], n.In[1], n.Out[0]} {
		b, _ := v.Type.ByteSize()
		c.Bytes += int64(b)
	}
	elems, _ := n.Out[0].Type.NumElems().Const()
	if a := n.In[0].Type.Shape; len(a) > 0 {
		k, _ := a[len(a)-1].Const()
		c.FLOPs = 2 * elems * k
	}
	return c
}

func evalMatMul[T productNum](c *Call) {
	dt := sameOperands(c, 2, 2)
	a, b := c.Array(0), c.Array(1)
	p := planMatMul(a.Shape, b.Shape)
	y := newResult[T](c, 0, dt, p.shape...)
	multiplyStacks(p, elements[T](a), elements[T](b), y.V)
	y.store()
}
