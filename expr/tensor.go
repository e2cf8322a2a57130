package expr

import (
	"context"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/window"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Tensor is an LValue: elements in memory, or a window of another tensor's. Windows share the memory of
// what they are cut from. Reading and assigning at the same time is for the caller to exclude.
type Tensor[T Elem] struct {
	n    *node
	data []T // from the lowest element to the highest
}

// New is a tensor of zeros.
func New[T Elem](shape ...int) (_ *Tensor[T], err error) {
	defer rescue.Into(&err)
	a, err := ndarray.New(dtypeOf[T](), shape...)
	if err != nil {
		return nil, &ShapeError{"New", [][]int{slices.Clone(shape)}, err.Error()}
	}
	_ = sysmem.LargePages(context.Background(), a.Data) // nothing ends it
	return Of(ndarray.Slice[T](a), shape...)
}

// Of is a tensor over data (not copied) in row-major order.
func Of[T Elem](data []T, shape ...int) (_ *Tensor[T], err error) {
	defer rescue.Into(&err)
	dt := dtypeOf[T]()
	if !tile.Supports(dt) {
		return nil, &TypeError{"Of", "elements of " + dt.String() + " are not computed with", nil}
	}
	if n, err := ndarray.NumElems(shape); err != nil || n != len(data) {
		return nil, &ShapeError{"Of", [][]int{{len(data)}, slices.Clone(shape)}, "the data is not as long as the shape says"}
	}
	return tensor(data, shape, nil), nil
}

// FromArray is a tensor over the memory of an array, as models take and give them.
func FromArray[T Elem](a *ndarray.Array) (_ *Tensor[T], err error) {
	defer rescue.Into(&err)
	if a == nil || a.DType != dtypeOf[T]() {
		return nil, &TypeError{"FromArray", "the array is " + ndarray.Describe(a) + ", not of " + dtypeOf[T]().String(), nil}
	}
	if err := a.Check(); err != nil {
		return nil, err
	}
	if !a.Aligned() {
		a = a.Clone()
	}
	return Of(ndarray.Slice[T](a), a.Shape...)
}

// tensor makes a tensor over data, in a window of it or in row-major order.
func tensor[T Elem](data []T, shape []int, w *window.Window) *Tensor[T] {
	p := &place{array: ndarray.Array{DType: dtypeOf[T](), Shape: slices.Clone(shape), Data: ndarray.Bytes(data)}, window: w}
	if w != nil {
		p.array.Shape = []int{len(data)}
	}
	return &Tensor[T]{&node{kind: leaf, dt: p.array.DType, shape: slices.Clone(shape), place: p}, data}
}

// window is the tensor that a view shows.
func (t *Tensor[T]) window(v *view, err error) *Tensor[T] {
	n := t.operand(*new(T))
	switch {
	case n.err != nil:
		return t
	case err != nil:
		return &Tensor[T]{n: failed(err)}
	}
	strides, first := n.place.strides(n.shape)
	w := v.window(strides, first)
	w.Shape = v.shape
	elems, low := w.Span()
	if elems == 0 {
		return tensor([]T{}, v.shape, nil)
	}
	data := t.data[w.First-low:][:elems:elems]
	w.First = low
	if count, err := ndarray.NumElems(w.Shape); slices.Equal(w.Strides, ops.Strides(w.Shape)) || err == nil && count == 1 { // repeated beyond all sizes there is no count
		w = nil
	}
	return tensor(data, v.shape, w)
}

func (t *Tensor[T]) operand(T) *node {
	if t == nil || t.n == nil {
		return failed(errNilValue)
	}
	return t.n
}

// Shape is a copy of the dimensions, outermost first.
func (t *Tensor[T]) Shape() []int { return slices.Clone(t.operand(*new(T)).shape) }

// Err is what is wrong with a window of a tensor, nil if nothing is; assignments report it too.
func (t *Tensor[T]) Err() error { return t.operand(*new(T)).err }

// Slice is a window: the part that the ranges show, one for each leading dimension.
func (t *Tensor[T]) Slice(ranges ...Range) *Tensor[T] {
	v, err := sliced(t.operand(*new(T)).shape, ranges)
	return t.window(v, err)
}

// Pick is a window of one index of a dimension, which the window lacks; a negative axis or index counts from
// the back.
func (t *Tensor[T]) Pick(axis, index int) *Tensor[T] {
	v, err := picked(t.operand(*new(T)).shape, axis, index)
	return t.window(v, err)
}

// Transpose is a window with the dimensions in another order; without axes, in reverse. Negative axes count from the back.
func (t *Tensor[T]) Transpose(axes ...int) *Tensor[T] {
	v, err := transposed(t.operand(*new(T)).shape, axes)
	return t.window(v, err)
}

// Reshape is a window of another shape over the same elements in row-major order, which must lie in
// that order in memory.
func (t *Tensor[T]) Reshape(shape ...int) *Tensor[T] {
	n := t.operand(*new(T))
	if n.err != nil {
		return t
	}
	if count, err := ndarray.NumElems(shape); err != nil || n.place.window != nil || count != len(t.data) {
		return &Tensor[T]{n: failed(&ShapeError{"Reshape", [][]int{n.shape, slices.Clone(shape)}, "the window has other elements, or they do not lie in row-major order"})}
	}
	return tensor(t.data, shape, nil)
}

// Data returns the elements themselves if they lie in row-major order without gaps, else nil;
// [Tensor.Elements] copies those of any window.
func (t *Tensor[T]) Data() []T {
	if n := t.operand(*new(T)); n.err != nil || n.place.window != nil {
		return nil
	}
	return t.data
}

// Elements returns a copy of the elements in row-major order; nil where [Tensor.Array] is an error.
func (t *Tensor[T]) Elements() []T {
	if d := t.Data(); d != nil {
		return slices.Clone(d)
	}
	a, err := t.Array()
	if err != nil {
		return nil
	}
	return ndarray.Slice[T](a)
}

// Array is the tensor as models take it: its own memory if the elements lie in row-major order
// without gaps, else a copy. The error is that of the tensor, or of the budget of memory.
func (t *Tensor[T]) Array() (_ *ndarray.Array, err error) {
	defer rescue.Into(&err)
	n := t.operand(*new(T))
	switch {
	case n.err != nil:
		return nil, n.err
	case n.place.window != nil:
		return n.place.window.Gather(context.Background(), &n.place.array)
	}
	return &ndarray.Array{DType: n.dt, Shape: slices.Clone(n.shape), Data: n.place.array.Data}, nil
}

// Broadcast is a window that repeats the tensor along dimensions of 1 and new leading ones, until it has
// the shape. It can be read, and not be assigned to.
func (t *Tensor[T]) Broadcast(shape ...int) *Tensor[T] {
	v, err := broadcast(t.operand(*new(T)).shape, shape)
	return t.window(v, err)
}
