package engine

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/dense"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Products are ONNX's Gemm, which reads operands as they are or transposed:
//
//	shape (m,k), strides (k,1)    as it is
//	shape (m,k), strides (1,m)    transposed: the matrix (k,m) of the same memory
//	any other strides             copied
//
// A tensor for a product has exactly its shape. The functions of package tensor give that of WithReuse the shape before they
// ask an engine, and with it the strides of a tensor without gaps, also to a slice; what is then written lies beside the slice.
// They also forget that it is a slice. What they do not change shows it: the memory of a slice with gaps has more elements than
// its new shape, and that of columns of a transposed tensor is both transposed and not contiguous.

// matrix is an operand of a product.
type matrix struct {
	a          *ndarray.Array
	of         tensor.Dtype
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
func (x matrix) turned() matrix { return matrix{x.a, x.of, !x.transposed} }

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
			return matrix{turned.Array(), d.Dtype(), true}, nil
		}
	}
	a, err := m.Packed(context.Background())
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
	return matrix{a, d.Dtype(), false}, nil
}

// column reads a vector, of one dimension or of two with one row or column, as a column.
func column(t tensor.Tensor) (matrix, error) {
	a, err := arrayOf(t)
	switch {
	case err != nil:
		return matrix{}, err
	case a.Rank() == 1, a.Rank() == 2 && slices.Contains(a.Shape, 1):
		return matrix{a.Reshaped(a.Len(), 1), t.Dtype(), false}, nil
	}
	return matrix{}, fmt.Errorf("%s is no vector", a)
}

// row reads a vector as a row.
func row(t tensor.Tensor) (matrix, error) {
	m, err := column(t)
	if err != nil {
		return matrix{}, err
	}
	return m.turned(), nil
}

// multipliable reports operands that have no product.
func multipliable(x, y matrix) error {
	switch dt := x.a.DType; {
	case x.of != y.of:
		return fmt.Errorf("tensors of %s and %s have no product; they must have one type", x.of, y.of)
	case dt == ndarray.String || dt == ndarray.Bool:
		return fmt.Errorf("tensors of %s have no product: %w", x.of, ops.ErrUnsupported)
	case x.cols() != y.rows():
		return fmt.Errorf("matrices of %d×%d and %d×%d have no product", x.rows(), x.cols(), y.rows(), y.cols())
	}
	return nil
}

// multiply computes x·y.
func (o *operations) multiply(out *ndarray.Array, x, y matrix) error {
	attrs := []ssa.Attr{ssa.IntAttr("transA", int64(side(x.transposed))), ssa.IntAttr("transB", int64(side(y.transposed)))}
	return o.kernels.run(out, "Gemm", attrs, x.a, y.a)
}

// product computes x·y into a tensor of a shape that the caller has allocated.
func (o *operations) product(d *tensor.Dense, x, y matrix, shape ...int) error {
	if err := multipliable(x, y); err != nil {
		return err
	}
	m, err := dense.MemoryOf(d)
	switch {
	case err != nil:
		return err
	case d.Dtype() != x.of:
		return typeError(d, x.of)
	case !slices.Equal(m.Shape, shape):
		return fmt.Errorf("the tensor for a product of shape %v has shape %v", shape, m.Shape)
	case isReshapedSlice(d, &m):
		return &dense.Error{Tensor: fmt.Sprintf("the tensor of %s%v for a product", d.Dtype(), m.Shape),
			Reason: "it was a slice with gaps, whose strides package tensor has replaced before the engine was asked; give a tensor with memory of its own, or call the engine's method"}
	}
	return o.write(d, shape, func(out *ndarray.Array) error { return o.multiply(out, x, y) }, false)
}

// isReshapedSlice reports a tensor that package tensor has given other strides than a slice has (see above).
func isReshapedSlice(d *tensor.Dense, m *dense.Memory) bool {
	order := d.DataOrder()
	return !d.IsView() && !slices.Contains(m.Shape, 0) && (m.Elems() != ndarray.Product(m.Shape) && m.Contiguous() || order.IsNotContiguous() && order.IsTransposed())
}

// target is the tensor for a product.
func target(to tensor.Tensor) (*tensor.Dense, error) {
	d, err := denseOf(to)
	if err == nil {
		forgetAxes(d)
	}
	return d, err
}

// axesOfT is where a tensor keeps the axes of its method T.
var axesOfT, hasAxesOfT = reflect.TypeFor[tensor.Dense]().FieldByName("transposeWith")

// forgetAxes takes the axes of a transposition from a tensor that is not transposed any more. Package tensor leaves them when it
// reshapes the tensor of WithReuse, and gives them to its pool each time: where another tensor has got them for its shape
// meanwhile, that shape becomes 0×0.
func forgetAxes(d *tensor.Dense) {
	if hasAxesOfT && axesOfT.Type == reflect.TypeFor[[]int]() && !d.IsMaterializable() {
		*(*[]int)(unsafe.Add(unsafe.Pointer(d), axesOfT.Offset)) = nil
	}
}

// MatMul is [Engine.MatMul].
func (o *operations) MatMul(a, b, to tensor.Tensor) error {
	return o.productInto("MatMul", a, b, to, matrixOf, matrixOf, matrixShape)
}

// MatVecMul is [Engine.MatVecMul].
func (o *operations) MatVecMul(a, b, to tensor.Tensor) error {
	return o.productInto("MatVecMul", a, b, to, matrixOf, column, func(x, _ matrix) []int { return []int{x.rows()} })
}

// Outer is [Engine.Outer].
func (o *operations) Outer(a, b, to tensor.Tensor) error {
	return o.productInto("Outer", a, b, to, column, row, matrixShape)
}

// matrixShape is the shape of a product that is a matrix.
func matrixShape(x, y matrix) []int { return []int{x.rows(), y.cols()} }

// productInto computes a product of two tensors, read as matrices, into a tensor of a shape.
func (o *operations) productInto(name string, a, b, to tensor.Tensor, left, right func(tensor.Tensor) (matrix, error), shape func(x, y matrix) []int) error {
	_, err := guarded(o, name, func() (any, error) {
		d, err := target(to)
		if err != nil {
			return nil, err
		}
		x, err := left(a)
		if err != nil {
			return nil, err
		}
		y, err := right(b)
		if err != nil {
			return nil, err
		}
		return nil, o.product(d, x, y, shape(x, y)...)
	})
	return err
}

// Inner is [Engine.Inner].
func (o *operations) Inner(a, b tensor.Tensor) (any, error) {
	return guarded(o, "Inner", func() (any, error) {
		x, err := column(a)
		if err != nil {
			return nil, err
		}
		y, err := column(b)
		if err == nil {
			err = multipliable(x.turned(), y)
		}
		if err != nil {
			return nil, err
		}
		to, err := newArray(x.a.DType, nil)
		if err != nil {
			return nil, err
		}
		if err := o.multiply(to, x.turned(), y); err != nil {
			return nil, err
		}
		return goTyped(to, a.Dtype()).Data(), nil
	})
}

// Dot is [Engine.Dot].
func (o *operations) Dot(x, y tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	return guarded(o, "Dot", func() (tensor.Tensor, error) {
		in, err := arraysOf(x, y)
		switch {
		case err != nil:
			return nil, err
		case in[1].Rank() == 0:
			return o.MulScalar(x, y, true, opts...)
		case in[0].Rank() == 0:
			return o.MulScalar(y, x, false, opts...)
		}
		left, right, shape, err := o.unfold(flat(in[0], in[1]), flat(in[1], in[0]))
		if err != nil {
			return nil, err
		}
		left.of, right.of = x.Dtype(), y.Dtype()
		if err := multipliable(left, right); err != nil {
			return nil, err
		}
		return o.result(x.(*tensor.Dense), x.Dtype(), shape, func(out *ndarray.Array) error { return o.multiply(out, left, right) }, opts)
	})
}

// flat is a vector without dimensions of one element, where it is an operand of Dot beside a vector or a matrix.
func flat(a, other *ndarray.Array) *ndarray.Array {
	if tensor.Shape(a.Shape).IsVector() && other.Rank() <= 2 {
		return a.Reshaped(a.Len())
	}
	return a
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
	return matrix{a: x.Reshaped(x.Len()/n, n)}, matrix{a: y.Reshaped(n, y.Len()/n)}, shape, nil
}

// Trace is [Engine.Trace].
func (o *operations) Trace(a tensor.Tensor) (any, error) {
	return guarded(o, "Trace", func() (any, error) {
		c, err := viewed(a)
		switch {
		case err != nil:
			return nil, err
		case c.Dims() == 2 && c.Shape().TotalSize() == 0: // on which the default engine panics
			return reflect.Zero(c.Dtype().Type).Interface(), nil
		}
		return stock.Trace(c)
	})
}

// decomposition is what SVD gives.
type decomposition struct{ s, u, v tensor.Tensor }

// SVD is [Engine.SVD].
func (o *operations) SVD(a tensor.Tensor, uv, full bool) (s, u, v tensor.Tensor, err error) {
	got, err := guarded(o, "SVD", func() (d decomposition, err error) {
		c, err := viewed(a)
		switch {
		case err != nil:
			return d, err
		case c.Dims() != 2 || c.Shape().TotalSize() == 0: // on which the default engine panics
			return d, fmt.Errorf("a tensor of shape %v has no singular values: %w", c.Shape(), ops.ErrUnsupported)
		}
		if err := askForSVD(c.Shape(), uv, full); err != nil {
			return d, err
		}
		if d.s, d.u, d.v, err = stock.SVD(c, uv, full); err != nil {
			return d, err
		}
		for _, part := range []*tensor.Tensor{&d.s, &d.u, &d.v} {
			if *part == nil {
				continue
			}
			if *part, err = o.copied(*part, *part, nil); err != nil {
				return d, err
			}
		}
		return d, nil
	})
	return got.s, got.u, got.v, err
}

// askForSVD asks for the memory that the default engine takes for a matrix: a copy and the factors, in float64.
func askForSVD(shape []int, uv, full bool) error {
	m, n := shape[0], shape[1]
	k := min(m, n)
	sizes := [][]int{{8, m, n}, {8, k}}
	switch {
	case full:
		sizes = append(sizes, []int{8, m, m}, []int{8, n, n})
	case uv:
		sizes = append(sizes, []int{8, m, k}, []int{8, n, k})
	}
	for _, size := range sizes {
		bytes, err := ndarray.NumElems(size)
		if err == nil {
			err = ndarray.Budget(0).Ask("a factor of a matrix", int64(bytes))
		}
		if err != nil {
			return fmt.Errorf("the singular value decomposition of a matrix of shape %v, a factor of %v elements: %w", shape, size[1:], err)
		}
	}
	return nil
}
