// Package dense knows where the elements of a tensor of gorgonia.org/tensor lie, and views tensors as arrays and arrays as
// tensors.
package dense

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

// Error says why a tensor is no array of ONNX elements.
type Error struct {
	Tensor string // its shape and type
	Reason string
}

// Error names the tensor and the reason.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Tensor, e.Reason) }

// ArrayOf views a tensor as an array over the same memory; a sliced, transposed or column-major tensor is copied into
// row-major order first. The error is a [*Error].
func ArrayOf(d *tensor.Dense) (_ *ndarray.Array, err error) {
	defer rescue.Into(&err)
	m, err := MemoryOf(d)
	if err != nil {
		return nil, err
	}
	return m.Packed()
}

// Packed is the elements in row-major order: the same memory where they lie so, else a copy.
func (m *Memory) Packed() (*ndarray.Array, error) {
	if m.Contiguous() {
		return m.Array(), nil
	}
	out, err := ndarray.New(m.DType, m.Shape...)
	if err != nil {
		return nil, err
	}
	m.each(func(at, k int) { m.copyElement(out, k, at) })
	return out, nil
}

// Memory is where the elements of a tensor lie.
type Memory struct {
	DType   ndarray.DType
	Shape   []int
	Strides []int  // in elements
	data    []byte // of a numeric type
	str     []string
}

// MemoryOf checks a tensor and finds its elements.
func MemoryOf(d *tensor.Dense) (Memory, error) {
	if d == nil {
		return Memory{}, &Error{"a nil *tensor.Dense", "it has no elements"}
	}
	if d.Dtype().Type == nil {
		return Memory{}, &Error{"a *tensor.Dense", "it has no element type; tensor.New makes tensors"}
	}
	fail := func(reason string) (Memory, error) {
		return Memory{}, &Error{fmt.Sprintf("a tensor of %s%v", d.Dtype(), []int(d.Shape())), reason}
	}
	dt, ok := onnxTypes[d.Dtype().Type]
	if !ok {
		return fail("its Go type has no ONNX element type")
	}
	m := Memory{DType: dt, Shape: slices.Clone([]int(d.Shape()))}
	n, err := ndarray.NumElems(m.Shape)
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
	m.Strides = stridesOf(d)
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
func (m *Memory) bind(elems reflect.Value) {
	if m.DType == ndarray.String {
		m.str = elems.Interface().([]string)
		return
	}
	m.data = unsafe.Slice((*byte)(elems.UnsafePointer()), elems.Len()*m.DType.Size())
}

// elems is how many elements the memory has.
func (m *Memory) elems() int {
	if m.DType == ndarray.String {
		return len(m.str)
	}
	return len(m.data) / m.DType.Size()
}

// last is the position of the last element, -1 if strides lead backwards.
func (m *Memory) last() int {
	at := 0
	for i, n := range m.Shape {
		if m.Strides[i] < 0 {
			return -1
		}
		at += (n - 1) * m.Strides[i]
	}
	return at
}

// Contiguous reports whether the elements lie one after the other, in row-major order.
func (m *Memory) Contiguous() bool {
	if slices.Contains(m.Shape, 0) {
		return true
	}
	next := 1
	for i := len(m.Shape) - 1; i >= 0; i-- {
		if m.Shape[i] != 1 && m.Strides[i] != next {
			return false
		}
		next *= m.Shape[i]
	}
	return true
}

// Array is the memory of contiguous elements as an array.
func (m *Memory) Array() *ndarray.Array {
	a := &ndarray.Array{DType: m.DType, Shape: m.Shape}
	n := a.Len()
	if m.DType == ndarray.String {
		a.Str = slices.Clip(m.str[:n])
	} else {
		a.Data = slices.Clip(m.data[:n*m.DType.Size()])
	}
	return a
}

// each calls f with the position of every element, in row-major order.
func (m *Memory) each(f func(at, k int)) {
	index := make([]int, len(m.Shape))
	for at, k := 0, 0; ; k++ {
		f(at, k)
		i := len(index) - 1
		for ; i >= 0; i-- {
			index[i]++
			at += m.Strides[i]
			if index[i] < m.Shape[i] {
				break
			}
			at -= m.Shape[i] * m.Strides[i]
			index[i] = 0
		}
		if i < 0 {
			return
		}
	}
}

// copyElement makes element k of an array the one at a position.
func (m *Memory) copyElement(a *ndarray.Array, k, at int) {
	if m.DType == ndarray.String {
		a.Str[k] = m.str[at]
		return
	}
	size := m.DType.Size()
	copy(a.Data[k*size:(k+1)*size], m.data[at*size:])
}

// Move writes an array of the same type and shape into the tensor's memory, at other strides than the tensor's.
func (m *Memory) Move(a *ndarray.Array, strides []int) error {
	to := *m
	to.Strides = slices.Clone(strides)
	if slices.Contains(m.Shape, 0) {
		return nil
	}
	if len(strides) != len(m.Shape) {
		return &Error{a.String(), fmt.Sprintf("%d strides are given for %d dimensions", len(strides), len(m.Shape))}
	}
	if last := to.last(); last < 0 || last >= m.elems() {
		return &Error{a.String(), fmt.Sprintf("its memory has %d elements, strides %v reach element %d", m.elems(), strides, last)}
	}
	to.Store(a)
	return nil
}

// Store writes an array of the same type and shape into the tensor's memory.
func (m *Memory) Store(a *ndarray.Array) {
	if slices.Contains(m.Shape, 0) {
		return
	}
	if m.DType == ndarray.String {
		m.each(func(at, k int) { m.str[at] = a.Str[k] })
		return
	}
	size := m.DType.Size()
	m.each(func(at, k int) { copy(m.data[at*size:(at+1)*size], a.Data[k*size:]) })
}

// Of views an array as a tensor over the same memory; memory that is not aligned for the element type is copied. The
// error is a [*Error], also for values that are no tensors, or an [*ndarray.ShapeError].
func Of(v ndarray.Value) (_ *tensor.Dense, err error) {
	defer rescue.Into(&err)
	a, ok := v.(*ndarray.Array)
	if !ok || a == nil {
		return nil, &Error{ndarray.Describe(v), "it is no tensor; RunValues gives it as it is"}
	}
	if err := a.Check(); err != nil {
		return nil, err
	}
	t := GoType(a.DType)
	if t == nil {
		return nil, &Error{a.String(), "its element type has no Go type"}
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
