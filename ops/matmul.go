package ops

import (
	"fmt"
	"slices"

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
	Infer: rule(inferMatMul), Eval: kernel(evalMatMul),
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

// matMulPlan is a product of stacks of matrices.
type matMulPlan struct {
	m, n, k       int
	batch, ba, bb []int // leading dimensions of the result and of both operands
	shape         []int // of the result
}

func planMatMul(a, b []int) (p matMulPlan) {
	if len(a) == 0 || len(b) == 0 {
		failf("operands of shape %v and %v; a matrix product needs at least rank 1", a, b)
	}
	row, col := len(a) == 1, len(b) == 1
	if row {
		a = []int{1, a[0]}
	}
	if col {
		b = []int{b[0], 1}
	}
	p.m, p.k, p.n = a[len(a)-2], a[len(a)-1], b[len(b)-1]
	if kb := b[len(b)-2]; kb != p.k {
		failf("inner dimensions %d and %d of shapes %v and %v differ", p.k, kb, a, b)
	}
	p.ba, p.bb = a[:len(a)-2], b[:len(b)-2]
	p.batch = try(BroadcastShapes(p.ba, p.bb))
	p.shape = slices.Clone(p.batch)
	if !row {
		p.shape = append(p.shape, p.m)
	}
	if !col {
		p.shape = append(p.shape, p.n)
	}
	return p
}

func evalMatMul(c *Call) {
	a, b := c.Array(0), c.Array(1)
	if a == nil || b == nil || a.DType != b.DType {
		failf("operands are not two tensors of one element type")
	}
	p := planMatMul(a.Shape, b.Shape)
	t := productType(a.DType)
	if t == ndarray.Undefined {
		check(unsupportedType(a.DType))
	}
	out := try(c.Output(0, a.DType, p.shape...))
	switch t {
	case ndarray.Float64:
		runMatMul[float64](p, out, a, b)
	case ndarray.Int32:
		runMatMul[int32](p, out, a, b)
	case ndarray.Int64:
		runMatMul[int64](p, out, a, b)
	default:
		runMatMul[float32](p, out, a, b)
	}
}

func runMatMul[T productNum](p matMulPlan, out, a, b *ndarray.Array) {
	x, y, z := operandAs[T](a), operandAs[T](b), resultAs[T](out)
	sx, sy, sz := p.m*p.k, p.k*p.n, p.m*p.n
	w := newWalk(p.batch, p.ba, p.bb)
	w.each(func(first int, at []int) {
		for r := range w.run {
			i, j, o := at[0]+r*w.step[0], at[1]+r*w.step[1], first+r
			multiply(p.m, p.n, p.k, x[i*sx:(i+1)*sx], y[j*sy:(j+1)*sy], z[o*sz:(o+1)*sz])
		}
	})
	storeResult(out, z)
}
