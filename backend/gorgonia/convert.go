package gorgonia

import (
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
)

// A tensor's elements lie at strides of its memory; an array's are contiguous, in row-major order. The strides alone say
// where an element is, also for slices, transposed tensors and columns of matrices:
//
//	shape (2,3), strides (1,2)      memory  a d b e c f      array  a b c d e f
//
// Where the strides are those of row-major order, both have the same memory.

// DenseError says why a tensor is no array of ONNX elements.
type DenseError struct {
	Tensor string // its shape and type
	Reason string
}

// Error names the tensor and the reason.
func (e *DenseError) Error() string { return fmt.Sprintf("%s: %s", e.Tensor, e.Reason) }

// ArrayOf views a tensor as an array over the same memory; a sliced, transposed or column-major tensor is copied into
// row-major order first. The error is a [*DenseError].
func ArrayOf(d *tensor.Dense) (_ *ndarray.Array, err error) {
	defer rescue.Into(&err)
	m, err := memoryOf(d)
	if err != nil {
		return nil, err
	}
	if m.contiguous() {
		return m.array(), nil
	}
	out, err := ndarray.New(m.dtype, m.shape...)
	if err != nil {
		return nil, err
	}
	m.each(func(at, k int) { m.copyElement(out, k, at) })
	return out, nil
}

// memory is where the elements of a tensor lie.
type memory struct {
	dtype   ndarray.DType
	shape   []int
	strides []int
	data    []byte // of a numeric type
	str     []string
}

// memoryOf checks a tensor and finds its elements.
func memoryOf(d *tensor.Dense) (memory, error) {
	if d == nil || d.Dtype().Type == nil {
		return memory{}, &DenseError{"a tensor", "it is nil or has no element type"}
	}
	fail := func(reason string) (memory, error) {
		return memory{}, &DenseError{fmt.Sprintf("a tensor of %s%v", d.Dtype(), []int(d.Shape())), reason}
	}
	dt, ok := onnxTypes[d.Dtype().Type]
	if !ok {
		return fail("its Go type has no ONNX element type")
	}
	m := memory{dtype: dt, shape: slices.Clone([]int(d.Shape()))}
	n, err := ndarray.NumElems(m.shape)
	switch {
	case err != nil:
		return fail(err.Error())
	case n == 0:
		return m, nil
	case !d.IsNativelyAccessible():
		return fail("its memory is that of a device")
	case slices.Contains(d.Mask(), true):
		return fail("elements are masked, which ONNX does not know; fill them first")
	case d.MemSize() == 0:
		return fail("it has no memory")
	}
	m.strides = stridesOf(d)
	m.bind(elements(d))
	if last := m.last(); last < 0 || last >= m.elems() {
		return fail(fmt.Sprintf("its memory has %d elements, its strides reach element %d", m.elems(), last))
	}
	return m, nil
}

// elements returns the tensor's memory as a reflected slice.
func elements(d *tensor.Dense) reflect.Value {
	if d.IsScalar() {
		d = d.ShallowClone()
		if err := d.Reshape(1); err != nil {
			panic(err)
		}
	}
	return reflect.ValueOf(d.Data())
}

// stridesOf are the strides of each dimension; package tensor leaves out those of scalars and of column-major vectors.
func stridesOf(d *tensor.Dense) []int {
	shape, strides := d.Shape(), d.Strides()
	if len(strides) == len(shape) {
		return slices.Clone(strides)
	}
	out := make([]int, len(shape))
	for i := range out {
		if len(strides) > 0 && shape[i] > 1 {
			out[i] = strides[0]
		}
	}
	return out
}

// bind takes the tensor's memory.
func (m *memory) bind(elems reflect.Value) {
	if m.dtype == ndarray.String {
		m.str = elems.Interface().([]string)
		return
	}
	m.data = unsafe.Slice((*byte)(elems.UnsafePointer()), elems.Len()*m.dtype.Size())
}

// elems is how many elements the memory has.
func (m *memory) elems() int {
	if m.dtype == ndarray.String {
		return len(m.str)
	}
	return len(m.data) / m.dtype.Size()
}

// last is the position of the last element, -1 if strides lead backwards.
func (m *memory) last() int {
	at := 0
	for i, n := range m.shape {
		if m.strides[i] < 0 {
			return -1
		}
		at += (n - 1) * m.strides[i]
	}
	return at
}

// contiguous reports whether the elements lie one after the other, in row-major order.
func (m *memory) contiguous() bool {
	if slices.Contains(m.shape, 0) {
		return true
	}
	next := 1
	for i := len(m.shape) - 1; i >= 0; i-- {
		if m.shape[i] != 1 && m.strides[i] != next {
			return false
		}
		next *= m.shape[i]
	}
	return true
}

// array is the memory of contiguous elements as an array.
func (m *memory) array() *ndarray.Array {
	a := &ndarray.Array{DType: m.dtype, Shape: m.shape}
	n := a.Len()
	if m.dtype == ndarray.String {
		a.Str = slices.Clip(m.str[:n])
	} else {
		a.Data = slices.Clip(m.data[:n*m.dtype.Size()])
	}
	return a
}

// each calls f with the position of every element, in row-major order.
func (m *memory) each(f func(at, k int)) {
	index := make([]int, len(m.shape))
	for at, k := 0, 0; ; k++ {
		f(at, k)
		i := len(index) - 1
		for ; i >= 0; i-- {
			index[i]++
			at += m.strides[i]
			if index[i] < m.shape[i] {
				break
			}
			at -= m.shape[i] * m.strides[i]
			index[i] = 0
		}
		if i < 0 {
			return
		}
	}
}

// copyElement makes element k of an array the one at a position.
func (m *memory) copyElement(a *ndarray.Array, k, at int) {
	if m.dtype == ndarray.String {
		a.Str[k] = m.str[at]
		return
	}
	size := m.dtype.Size()
	copy(a.Data[k*size:(k+1)*size], m.data[at*size:])
}

// store writes an array of the same type and shape into the tensor's memory.
func (m *memory) store(a *ndarray.Array) {
	if slices.Contains(m.shape, 0) {
		return
	}
	if m.dtype == ndarray.String {
		m.each(func(at, k int) { m.str[at] = a.Str[k] })
		return
	}
	size := m.dtype.Size()
	m.each(func(at, k int) { copy(m.data[at*size:(at+1)*size], a.Data[k*size:]) })
}

// DenseOf views an array as a tensor over the same memory; memory that is not aligned for the element type is copied. The
// error is a [*DenseError], also for values that are no tensors, or an [*ndarray.ShapeError].
func DenseOf(v ndarray.Value) (_ *tensor.Dense, err error) {
	defer rescue.Into(&err)
	a, ok := v.(*ndarray.Array)
	if !ok || a == nil {
		return nil, &DenseError{ndarray.Describe(v), "it is no tensor; RunValues gives it as it is"}
	}
	if err := a.Check(); err != nil {
		return nil, err
	}
	t := goTypes[a.DType]
	if t == nil {
		return nil, &DenseError{a.String(), "its element type has no Go type"}
	}
	if !a.Aligned() {
		a = a.Clone()
	}
	return tensor.New(tensor.WithShape(a.Shape...), tensor.WithBacking(backing(t, a))), nil
}

// backing is an array's memory as a slice of a Go type.
func backing(t reflect.Type, a *ndarray.Array) any {
	if a.DType == ndarray.String {
		return a.Str
	}
	s := reflect.New(reflect.SliceOf(t)).Elem()
	if n := a.Len(); n > 0 {
		*(*[]byte)(s.Addr().UnsafePointer()) = unsafe.Slice(unsafe.SliceData(a.Data), n)
	}
	return s.Interface()
}
