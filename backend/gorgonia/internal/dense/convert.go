// Package dense knows where the elements of a tensor of gorgonia.org/tensor lie, and views tensors as arrays and arrays as
// tensors.
package dense

import (
	"context"
	"fmt"
	"math"
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
// row-major order first, within the budget of memory of the context. The error is a [*Error], one of that budget, or of the context.
func ArrayOf(ctx context.Context, d *tensor.Dense) (_ *ndarray.Array, err error) {
	defer rescue.Into(&err)
	m, err := MemoryOf(d)
	if err != nil {
		return nil, err
	}
	return m.Packed(ctx)
}

// lookEvery is how many elements are copied between two looks at the context.
const lookEvery = 1 << 16

// Packed is the elements in row-major order: the same memory where they lie so, else a copy within the budget of memory of the
// context, which ends with it.
func (m *Memory) Packed(ctx context.Context) (*ndarray.Array, error) {
	if m.Contiguous() {
		return m.Array(), nil
	}
	out, err := ndarray.NewContext(ctx, ndarray.BudgetOf(ctx), m.DType, m.Shape...)
	if err == nil {
		m.while(func(at, k int) bool {
			if k%lookEvery == 0 {
				err = rescue.WithCause(ctx, ctx.Err())
			}
			m.copyElement(out, k, at)
			return err == nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("a copy of a tensor of %s%v in row-major order: %w", m.DType, m.Shape, err)
	}
	return out, nil
}

// View points an array at the elements of a tensor; those that do not lie in row-major order are copied. Where the array shows
// the same memory already, nothing is allocated. The error is that of [ArrayOf].
func View(ctx context.Context, a *ndarray.Array, d *tensor.Dense) error {
	dt, n, err := check(d)
	if err != nil {
		return err
	}
	if n > 0 && !IsContiguous(d) {
		packed, err := ArrayOf(ctx, d)
		if err == nil {
			*a = *packed
		}
		return err
	}
	if !slices.Equal(a.Shape, d.Shape()) {
		a.Shape = slices.Clone([]int(d.Shape()))
	}
	a.DType, a.Data, a.Str = dt, nil, nil
	switch size := n * elemSize(dt); {
	case size > len(d.Raw):
		return fault(d, fmt.Sprintf("its memory has %d bytes, its elements take %d", len(d.Raw), size))
	case n == 0:
	case dt == ndarray.String:
		a.Str = stringsIn(d.Raw)[:n:n]
	default:
		a.Data = d.Raw[:size:size]
	}
	return nil
}

// IsContiguous reports whether the elements of a tensor lie one after the other, in row-major order.
func IsContiguous(d *tensor.Dense) bool {
	shape, strides := d.Shape(), d.Strides()
	if len(strides) != len(shape) {
		strides = stridesOf(d)
	}
	return areRowMajor(shape, strides)
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
	dt, n, err := check(d)
	if err != nil {
		return Memory{}, err
	}
	m := Memory{DType: dt, Shape: slices.Clone([]int(d.Shape()))}
	if n == 0 {
		return m, nil
	}
	m.Strides = stridesOf(d)
	if dt == ndarray.String {
		m.str = stringsIn(d.Raw)
	} else {
		m.data = d.Raw
	}
	if last := m.last(); last < 0 || last >= m.Elems() {
		return Memory{}, fault(d, fmt.Sprintf("its memory has %d elements, its strides reach element %d", m.Elems(), last))
	}
	return m, nil
}

// check finds a tensor's element type and how many elements it has, and whether they can be read.
func check(d *tensor.Dense) (dt ndarray.DType, n int, err error) {
	if d == nil {
		return 0, 0, &Error{"a nil *tensor.Dense", "it has no elements"}
	}
	if d.Dtype().Type == nil {
		return 0, 0, &Error{"a *tensor.Dense", "it has no element type; tensor.New makes tensors"}
	}
	dt, known := onnxTypes[d.Dtype().Type]
	n, err = ndarray.NumElems(d.Shape())
	switch {
	case !known:
		err = fault(d, "its Go type has no ONNX element type")
	case err != nil:
		err = fault(d, err.Error())
	case n == 0:
	case !d.IsNativelyAccessible():
		err = fault(d, "its memory is that of a device")
	case slices.Contains(d.Mask(), true):
		err = fault(d, "elements are masked, which ONNX does not know; fill them first")
	case len(d.Raw) == 0:
		err = fault(d, "it has no memory")
	}
	return dt, n, err
}

// fault is an error that names a tensor.
func fault(d *tensor.Dense, reason string) error {
	return &Error{fmt.Sprintf("a tensor of %s%v", d.Dtype(), []int(d.Shape())), reason}
}

// stringsIn are the strings whose headers bytes are.
func stringsIn(raw []byte) []string {
	return unsafe.Slice((*string)(unsafe.Pointer(unsafe.SliceData(raw))), len(raw)/elemSize(ndarray.String))
}

// elemSize is how many bytes an element takes in the memory of a tensor: of a string, those of its header, which are fewer on
// machines of 32 bits than [ndarray.DType.Size] counts.
func elemSize(dt ndarray.DType) int {
	if dt == ndarray.String {
		return int(unsafe.Sizeof(""))
	}
	return dt.Size()
}

// Overlap reports whether two pieces of memory have bytes in common.
func Overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	x, y := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
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

// Elems is how many elements the memory has, those between the tensor's own included.
func (m *Memory) Elems() int {
	if m.DType == ndarray.String {
		return len(m.str)
	}
	return len(m.data) / m.DType.Size()
}

// last is the position of the last element, -1 if strides lead backwards.
func (m *Memory) last() int {
	at := 0
	for i, n := range m.Shape {
		switch {
		case m.Strides[i] < 0:
			return -1
		case n > 1 && m.Strides[i] > (math.MaxInt-at)/(n-1):
			return math.MaxInt
		}
		at += (n - 1) * m.Strides[i]
	}
	return at
}

// Contiguous reports whether the elements lie one after the other, in row-major order.
func (m *Memory) Contiguous() bool {
	return slices.Contains(m.Shape, 0) || areRowMajor(m.Shape, m.Strides)
}

func areRowMajor(shape, strides []int) bool {
	next := 1
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] != 1 && strides[i] != next {
			return false
		}
		next *= shape[i]
	}
	return true
}

// Shared reports whether two elements have the same place, so that a result can not be written there. Strides that are each
// beyond all that the smaller ones reach, as those of slices and transposed tensors are, have a place for each element.
func (m *Memory) Shared() bool {
	if slices.Contains(m.Shape, 0) {
		return false
	}
	axes := make([]int, 0, len(m.Shape))
	for i, n := range m.Shape {
		if n > 1 {
			axes = append(axes, i)
		}
	}
	slices.SortFunc(axes, func(i, j int) int { return m.Strides[i] - m.Strides[j] })
	reach := 0
	for _, i := range axes {
		if m.Strides[i] <= reach {
			return m.meet()
		}
		reach += (m.Shape[i] - 1) * m.Strides[i]
	}
	return false
}

// meet looks at every element for one whose place another has.
func (m *Memory) meet() (same bool) {
	taken := make([]bool, m.Elems())
	m.each(func(at, _ int) { same, taken[at] = same || taken[at], true })
	return same
}

// Extent is the memory from the first to the last element, those of others between them included; nil for strings.
func (m *Memory) Extent() []byte {
	if m.DType == ndarray.String || slices.Contains(m.Shape, 0) {
		return nil
	}
	return m.data[:(m.last()+1)*m.DType.Size()]
}

// Meets reports whether two tensors may have bytes in common. Those whose ranges of memory overlap are known to be apart where
// they lie side by side, as columns of a matrix do: for a stride S of one of them, a tensor's elements have remainders modulo S
// from that of its first element on, as far as the strides that are no multiples of S reach, and those of the two are different.
//
//	S = 4     a a b b | a a b b | a a b b     remainders of a: 0 to 1, of b: 2 to 3
func (m *Memory) Meets(o *Memory) bool {
	if slices.Contains(m.Shape, 0) || slices.Contains(o.Shape, 0) {
		return false
	}
	a, b := m.start(), o.start()
	if a >= b+o.reach(0) || b >= a+m.reach(0) {
		return false
	}
	for _, t := range []*Memory{m, o} {
		for i, n := range t.Shape {
			s := uintptr(t.Strides[i] * elemSize(t.DType))
			if n < 2 || s == 0 {
				continue
			}
			ahead := (b%s + s - a%s) % s // of a's remainders are those of b, and behind the last of b's come a's again
			if m.reach(s) <= ahead && ahead+o.reach(s) <= s {
				return false
			}
		}
	}
	return true
}

// start is the address of the first element.
func (m *Memory) start() uintptr {
	if m.DType == ndarray.String {
		return uintptr(unsafe.Pointer(unsafe.SliceData(m.str)))
	}
	return uintptr(unsafe.Pointer(unsafe.SliceData(m.data)))
}

// reach is how many bytes the elements take from the first to the end of the last, along dimensions whose strides are no
// multiples of so many bytes; along all of them for 0.
func (m *Memory) reach(multiple uintptr) uintptr {
	size := uintptr(elemSize(m.DType))
	bytes := size
	for i, n := range m.Shape {
		if s := uintptr(m.Strides[i]) * size; multiple == 0 || s%multiple != 0 {
			bytes += uintptr(n-1) * s
		}
	}
	return bytes
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
	m.while(func(at, k int) bool {
		f(at, k)
		return true
	})
}

// while is each until f returns false.
func (m *Memory) while(f func(at, k int) bool) {
	index := make([]int, len(m.Shape))
	for at, k := 0, 0; f(at, k); k++ {
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
	if last := to.last(); last < 0 || last >= m.Elems() {
		return &Error{a.String(), fmt.Sprintf("its memory has %d elements, strides %v reach element %d", m.Elems(), strides, last)}
	}
	if to.Shared() {
		return &Error{a.String(), fmt.Sprintf("strides %v give several elements one place", strides)}
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

// Fill writes the first element of an array of the same type to all places.
func (m *Memory) Fill(a *ndarray.Array) {
	if slices.Contains(m.Shape, 0) {
		return
	}
	if m.DType == ndarray.String {
		m.each(func(at, _ int) { m.str[at] = a.Str[0] })
		return
	}
	size := m.DType.Size()
	m.each(func(at, _ int) { copy(m.data[at*size:(at+1)*size], a.Data) })
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
	return tensor.New(tensor.WithShape(a.Shape...), tensor.WithBacking(Backing(t, a))), nil
}

// Backing is an array's memory as a slice of a Go type of its elements' size.
func Backing(t reflect.Type, a *ndarray.Array) any {
	if a.DType == ndarray.String {
		return a.Str
	}
	s := reflect.New(reflect.SliceOf(t)).Elem()
	if n := a.Len(); n > 0 {
		*(*[]byte)(s.Addr().UnsafePointer()) = unsafe.Slice(unsafe.SliceData(a.Data), n)
	}
	return s.Interface()
}
