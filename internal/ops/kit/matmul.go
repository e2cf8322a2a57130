package kit

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Matrix products of the reference kernels are row-major and plain:
//
//	C[i] += A[i,p] · B[p]      row by row, so that B and C are read in memory order
//
// Integers are multiplied in int64, whose low bits are those of any narrower or
// unsigned product.

// ProductNum is what products are computed in.
type ProductNum interface {
	float32 | float64 | int32 | int64
}

// MatMulAdd computes C += A·B for row-major A [m,k], B [k,n], C [m,n] with row
// strides lda, ldb, ldc.
func MatMulAdd[T ProductNum](call *ops.Call, m, n, k int, a []T, lda int, b []T, ldb int, c []T, ldc int) {
	w := Watching(call)
	for i := range m {
		for p, f := range a[i*lda:][:k] {
			w.Did(n)
			AddScaled(c[i*ldc:][:n], f, b[p*ldb:])
		}
	}
}

// MatMulAddT computes C += A·Bᵀ for row-major A [m,k], B [n,k], C [m,n].
func MatMulAddT[T ProductNum](call *ops.Call, m, n, k int, a []T, lda int, b []T, ldb int, c []T, ldc int) {
	w := Watching(call)
	for i := range m {
		for j := range n {
			w.Did(k)
			c[i*ldc+j] += Dot(a[i*lda:][:k], b[j*ldb:])
		}
	}
}

// AddScaled computes y += f*x for the first elements of x.
func AddScaled[T ProductNum](y []T, f T, x []T) {
	x = x[:len(y)]
	for i := range y {
		y[i] += f * x[i]
	}
}

// Dot is the inner product of x and the first elements of y.
func Dot[T ProductNum](x, y []T) T {
	var s T
	y = y[:len(x)]
	for i, v := range x {
		s += v * y[i]
	}
	return s
}

// Transposed copies a row-major matrix [rows, cols] to [cols, rows].
func Transposed[T any](c *ops.Call, rows, cols int, src []T) []T {
	out := Make[T](c, rows*cols)
	w := Watching(c)
	for i := range rows {
		for j, v := range src[i*cols : (i+1)*cols] {
			w.Did(1)
			out[j*rows+i] = v
		}
	}
	return out
}

// MatMulPlan is a product of stacks of matrices.
type MatMulPlan struct {
	M, N, K       int
	batch, ba, bb []int // leading dimensions of the result and of both operands
	Shape         []int // of the result
}

// Full is the result's shape with rows and columns, also where an operand was a
// vector.
func (p MatMulPlan) Full() []int { return append(slices.Clone(p.batch), p.M, p.N) }

// PlanMatMul checks the shapes of a product as numpy.matmul has it.
func PlanMatMul(a, b []int) (p MatMulPlan) {
	if len(a) == 0 || len(b) == 0 {
		Failf("operands of shape %v and %v; a matrix product needs at least rank 1", a, b)
	}
	row, col := len(a) == 1, len(b) == 1
	if row {
		a = []int{1, a[0]}
	}
	if col {
		b = []int{b[0], 1}
	}
	p.M, p.K, p.N = a[len(a)-2], a[len(a)-1], b[len(b)-1]
	if kb := b[len(b)-2]; kb != p.K {
		Failf("inner dimensions %d and %d of shapes %v and %v differ", p.K, kb, a, b)
	}
	p.ba, p.bb = a[:len(a)-2], b[:len(b)-2]
	p.batch = Try(ops.BroadcastShapes(p.ba, p.bb))
	p.Shape = slices.Clone(p.batch)
	if !row {
		p.Shape = append(p.Shape, p.M)
	}
	if !col {
		p.Shape = append(p.Shape, p.N)
	}
	Try(ndarray.NumElems(p.Shape))
	return p
}

// MultiplyStacks writes the products of every pair of matrices to z.
func MultiplyStacks[T ProductNum](c *ops.Call, p MatMulPlan, x, y, z []T) {
	ClearSlice(c, z)
	EachBroadcast(c, p.batch, p.ba, p.bb, func(o, i, j int) {
		MatMulAdd(c, p.M, p.N, p.K, x[i*p.M*p.K:], p.K, y[j*p.K*p.N:], p.N, z[o*p.M*p.N:], p.N)
	})
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
	shape, err := ops.BroadcastDims(x[:len(x)-2], y[:len(y)-2])
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

// InferMatMul is the type and shape rule of MatMul.
func InferMatMul(n *ssa.Node) []ops.Inferred {
	return ops.One(Try(MatMulShape(ops.InType(n, 0), ops.InType(n, 1), SameDType(n, 0, 1))))
}
