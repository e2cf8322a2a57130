package ops

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Matrix products of the reference kernels are row-major and plain:
//
//	C[i] += A[i,p] · B[p]      row by row, so that B and C are read in memory order
//
// Integers are multiplied in int64, whose low bits are those of any narrower or
// unsigned product.

// productNum is what products are computed in.
type productNum interface {
	float32 | float64 | int32 | int64
}

// matMulAdd computes C += A·B for row-major A [m,k], B [k,n], C [m,n] with row
// strides lda, ldb, ldc. Four rows of B are added at a time, one after the other, so
// that an element of C is fetched and put back once for all four.
func matMulAdd[T productNum](m, n, k int, a []T, lda int, b []T, ldb int, c []T, ldc int) {
	for i := range m {
		row, f, p := c[i*ldc:][:n], a[i*lda:][:k], 0
		for ; p+4 <= k; p += 4 {
			addFour(row, f[p:p+4], b[p*ldb:], ldb)
		}
		for ; p < k; p++ {
			addScaled(row, f[p], b[p*ldb:])
		}
	}
}

// addFour is addScaled for four factors and the rows of x.
func addFour[T productNum](y, f, x []T, ldx int) {
	f0, f1, f2, f3 := f[0], f[1], f[2], f[3]
	x0, x1, x2, x3 := x[:len(y)], x[ldx:][:len(y)], x[2*ldx:][:len(y)], x[3*ldx:][:len(y)]
	for i, v := range y {
		v += f0 * x0[i]
		v += f1 * x1[i]
		v += f2 * x2[i]
		v += f3 * x3[i]
		y[i] = v
	}
}

// matMulAddT computes C += A·Bᵀ for row-major A [m,k], B [n,k], C [m,n].
func matMulAddT[T productNum](m, n, k int, a []T, lda int, b []T, ldb int, c []T, ldc int) {
	for i := range m {
		for j := range n {
			c[i*ldc+j] += dot(a[i*lda:][:k], b[j*ldb:])
		}
	}
}

// addScaled computes y += f*x for the first elements of x.
func addScaled[T productNum](y []T, f T, x []T) {
	x = x[:len(y)]
	for i := range y {
		y[i] += f * x[i]
	}
}

// dot is the inner product of x and the first elements of y.
func dot[T productNum](x, y []T) T {
	var s T
	y = y[:len(x)]
	for i, v := range x {
		s += v * y[i]
	}
	return s
}

// transposed copies a row-major matrix [rows, cols] to [cols, rows].
func transposed[T any](rows, cols int, src []T) []T {
	out := make([]T, rows*cols)
	for i := range rows {
		for j, v := range src[i*cols : (i+1)*cols] {
			out[j*rows+i] = v
		}
	}
	return out
}

// matMulPlan is a product of stacks of matrices.
type matMulPlan struct {
	m, n, k       int
	batch, ba, bb []int // leading dimensions of the result and of both operands
	shape         []int // of the result
}

// full is the result's shape with rows and columns, also where an operand was a
// vector.
func (p matMulPlan) full() []int { return append(slices.Clone(p.batch), p.m, p.n) }

// planMatMul checks the shapes of a product as numpy.matmul has it.
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
	try(ndarray.NumElems(p.shape))
	return p
}

// multiplyStacks writes the products of every pair of matrices to z.
func multiplyStacks[T productNum](p matMulPlan, x, y, z []T) {
	clear(z)
	EachBroadcast(p.batch, p.ba, p.bb, func(o, i, j int) {
		matMulAdd(p.m, p.n, p.k, x[i*p.m*p.k:], p.k, y[j*p.k*p.n:], p.n, z[o*p.m*p.n:], p.n)
	})
}

// numberKernel is the Eval of an operator over floats, and integers in int64.
func numberKernel(f32, f64, ints func(*Call)) func(*Call) error {
	return kernel(func(c *Call) {
		if a := c.Array(0); a != nil && a.DType.IsInteger() {
			ints(c)
			return
		}
		byFloat(c, f32, f64)
	})
}

// sameOperands checks that the first operands are tensors of one element type;
// absent optional ones pass.
func sameOperands(c *Call, required, all int) ndarray.DType {
	dt := tensor(c, 0).DType
	for i := 1; i < all; i++ {
		if i < required || c.Has(i) {
			if b := tensor(c, i); b.DType != dt {
				check(fmt.Errorf("operands 0 and %d have element types %s and %s", i, dt, b.DType))
			}
		}
	}
	return dt
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
