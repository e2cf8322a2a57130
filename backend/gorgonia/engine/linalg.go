package engine

import (
	"fmt"
	"reflect"
	"slices"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/dense"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Products are ONNX's Gemm, which reads operands as they are or transposed:
//
//	shape (m,k), strides (k,1)    as it is
//	shape (m,k), strides (1,m)    transposed: the matrix (k,m) of the same memory
//	any other strides             copied

// matrix is an operand of a product.
type matrix struct {
	a          *ndarray.Array
	transposed bool
}

// rows and cols are those of the matrix, not of its memory.
func (x matrix) rows() int { return x.a.Shape[side(x.transposed)] }
func (x matrix) cols() int { return x.a.Shape[1-side(x.transposed)] }

func side(transposed bool) int {
	if transposed {
		return 1
	}
	return 0
}

// turned is the transposed matrix.
func (x matrix) turned() matrix { return matrix{x.a, !x.transposed} }

// matrixOf reads a tensor of two dimensions, or of one as a column.
func matrixOf(t tensor.Tensor) (matrix, error) {
	d, err := denseOf(t)
	if err != nil {
		return matrix{}, err
	}
	m, err := dense.MemoryOf(d)
	if err != nil {
		return matrix{}, err
	}
	if len(m.Shape) == 2 && !m.Contiguous() {
		turned := m
		turned.Shape, turned.Strides = []int{m.Shape[1], m.Shape[0]}, []int{m.Strides[1], m.Strides[0]}
		if turned.Contiguous() {
			return matrix{turned.Array(), true}, nil
		}
	}
	a, err := m.Packed()
	if err != nil {
		return matrix{}, err
	}
	switch a.Rank() {
	case 1:
		a = a.Reshaped(a.Len(), 1)
	case 2:
	default:
		return matrix{}, fmt.Errorf("%s is no matrix", a)
	}
	return matrix{a, false}, nil
}

// column reads a vector, of one dimension or two, as a column.
func column(t tensor.Tensor) (matrix, error) {
	a, err := arrayOf(t)
	if err != nil {
		return matrix{}, err
	}
	return matrix{a.Reshaped(a.Len(), 1), false}, nil
}

// multiply computes x·y.
func (o *operations) multiply(out *ndarray.Array, x, y matrix) error {
	if x.cols() != y.rows() || x.a.DType != y.a.DType {
		return fmt.Errorf("a product of %d×%d and %d×%d matrices of %s and %s", x.rows(), x.cols(), y.rows(), y.cols(), x.a.DType, y.a.DType)
	}
	attrs := []ssa.Attr{ssa.IntAttr("transA", int64(side(x.transposed))), ssa.IntAttr("transB", int64(side(y.transposed)))}
	return o.kernels.run(out, "Gemm", attrs, x.a, y.a)
}

// product computes x·y into a tensor that the caller has allocated.
func (o *operations) product(to tensor.Tensor, x, y matrix) error {
	d, err := denseOf(to)
	if err != nil {
		return err
	}
	if dense.DTypeOf(d.Dtype().Type) != x.a.DType {
		return fmt.Errorf("the tensor for a product has elements of type %s, the operands of %s", d.Dtype(), x.a.DType)
	}
	return o.write(d, x.a.DType, func(out *ndarray.Array) error { return o.multiply(out, x, y) }, false)
}

// MatMul computes the product of two matrices.
func (o *operations) MatMul(a, b, to tensor.Tensor) (err error) {
	defer naming("MatMul", &err)
	defer rescue.Into(&err)
	x, err := matrixOf(a)
	if err != nil {
		return err
	}
	y, err := matrixOf(b)
	if err != nil {
		return err
	}
	return o.product(to, x, y)
}

// MatVecMul computes the product of a matrix and a vector.
func (o *operations) MatVecMul(a, b, to tensor.Tensor) (err error) {
	defer naming("MatVecMul", &err)
	defer rescue.Into(&err)
	x, err := matrixOf(a)
	if err != nil {
		return err
	}
	y, err := column(b)
	if err != nil {
		return err
	}
	return o.product(to, x, y)
}

// Outer computes the products of all pairs of elements of two vectors.
func (o *operations) Outer(a, b, to tensor.Tensor) (err error) {
	defer naming("Outer", &err)
	defer rescue.Into(&err)
	x, err := column(a)
	if err != nil {
		return err
	}
	y, err := column(b)
	if err != nil {
		return err
	}
	return o.product(to, x, y.turned())
}

// Inner is the sum of the products of two vectors' elements, of their Go type.
func (o *operations) Inner(a, b tensor.Tensor) (_ any, err error) {
	defer naming("Inner", &err)
	defer rescue.Into(&err)
	x, err := column(a)
	if err != nil {
		return nil, err
	}
	y, err := column(b)
	if err != nil {
		return nil, err
	}
	to, err := o.fresh(a.Dtype(), nil)
	if err != nil {
		return nil, err
	}
	if err := o.product(to, x.turned(), y); err != nil {
		return nil, err
	}
	return to.Data(), nil
}

// Dot is the sum of products over the last axis of x and the last but one of y; the product of all with a scalar.
func (o *operations) Dot(x, y tensor.Tensor, opts ...tensor.FuncOpt) (_ tensor.Tensor, err error) {
	defer naming("Dot", &err)
	defer rescue.Into(&err)
	in, err := arraysOf(x, y)
	switch {
	case err != nil:
		return nil, err
	case in[1].Rank() == 0:
		return o.MulScalar(x, y, true, opts...)
	case in[0].Rank() == 0:
		return o.MulScalar(y, x, false, opts...)
	}
	left, right, shape, err := o.unfold(in[0], in[1])
	if err != nil {
		return nil, err
	}
	return o.result(x.(*tensor.Dense), x.Dtype(), shape, func(out *ndarray.Array) error { return o.multiply(out, left, right) }, opts)
}

// unfold makes matrices of the operands of Dot: the summed axis of y is moved to the front, all others are one.
func (o *operations) unfold(x, y *ndarray.Array) (left, right matrix, shape []int, err error) {
	n := x.Shape[x.Rank()-1]
	axis := max(y.Rank()-2, 0)
	if y.Shape[axis] != n || n == 0 {
		return left, right, nil, fmt.Errorf("a dot product of %s and %s", x, y)
	}
	perm := []int64{int64(axis)}
	for i := range y.Shape {
		if i != axis {
			perm = append(perm, int64(i))
		}
	}
	rest := slices.Delete(slices.Clone(y.Shape), axis, axis+1)
	if axis > 0 {
		if y, err = o.compute(y.DType, append([]int{n}, rest...), "Transpose", []ssa.Attr{ssa.IntsAttr("perm", perm...)}, y); err != nil {
			return left, right, nil, err
		}
	}
	shape = append(slices.Clone(x.Shape[:x.Rank()-1]), rest...)
	return matrix{x.Reshaped(x.Len()/n, n), false}, matrix{y.Reshaped(n, y.Len()/n), false}, shape, nil
}

// Trace is the sum of a matrix's diagonal.
func (o *operations) Trace(a tensor.Tensor) (_ any, err error) {
	defer naming("Trace", &err)
	defer rescue.Into(&err)
	c, err := plain(a)
	switch {
	case err != nil:
		return nil, err
	case c.Dims() == 2 && c.Shape().TotalSize() == 0: // on which the default engine panics
		return reflect.Zero(c.Dtype().Type).Interface(), nil
	}
	return stock.Trace(c)
}

// SVD is the singular value decomposition, by the default engine.
func (o *operations) SVD(a tensor.Tensor, uv, full bool) (s, u, v tensor.Tensor, err error) {
	defer naming("SVD", &err)
	defer rescue.Into(&err)
	c, err := plain(a)
	switch {
	case err != nil:
		return nil, nil, nil, err
	case c.Shape().TotalSize() == 0: // on which the default engine panics
		return nil, nil, nil, fmt.Errorf("a matrix of shape %v has no singular values: %w", c.Shape(), ops.ErrUnsupported)
	}
	return stock.SVD(c, uv, full)
}
