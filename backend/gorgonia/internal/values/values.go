// Package values shows one piece of memory both as an array of this module and as a
// value of Gorgonia: a *tensor.Dense, or a scalar such as *gorgonia.F32.
package values

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/dense"
	"github.com/berth-onnx/berth/ndarray"
)

// Error says why a value is no array of ONNX elements.
type Error = dense.Error

// DType returns the ONNX element type of a Dtype; ok is false if there is none.
func DType(t tensor.Dtype) (d ndarray.DType, ok bool) {
	d = dense.DTypeOf(t.Type)
	return d, d != ndarray.Undefined
}

// Dtype returns the Dtype of an ONNX element type; ok is false if Gorgonia has none.
func Dtype(d ndarray.DType) (t tensor.Dtype, ok bool) {
	t.Type = dense.GoType(d)
	return t, t.Type != nil
}

// View points an array at the memory of a value. Tensors that are not row-major and
// contiguous are copied. Where array a shows the same memory already, nothing is allocated.
// The error is a [*Error], or one of the budget of memory or of the context.
func View(ctx context.Context, a *ndarray.Array, v gorgonia.Value) error {
	if t, ok := v.(tensor.Tensor); ok {
		d, ok := t.(*tensor.Dense)
		if !ok {
			return &Error{Tensor: fmt.Sprintf("a %T", v), Reason: "it is no *tensor.Dense"}
		}
		return dense.View(ctx, a, d)
	}
	p, dt := scalar(v)
	if p == nil {
		return &Error{Tensor: fmt.Sprintf("a value of type %T", v), Reason: "it is neither a tensor nor a scalar"}
	}
	a.DType, a.Shape, a.Data = dt, a.Shape[:0], unsafe.Slice((*byte)(p), dt.Size())
	return nil
}

// Target is [View] of a value that is written to: one that View would copy is refused.
func Target(a *ndarray.Array, v gorgonia.Value) error {
	if d, ok := v.(*tensor.Dense); ok && d != nil && len(d.Raw) > 0 && (d.IsMasked() || !dense.IsContiguous(d)) {
		return errors.New("results can not be written into a tensor that is a slice with gaps, transposed, column-major or masked; give a contiguous one")
	}
	return View(context.Background(), a, v) // without a copy
}

// scalar returns where a scalar value of Gorgonia lies and its type; nil if v is none.
func scalar(v gorgonia.Value) (unsafe.Pointer, ndarray.DType) {
	switch s := v.(type) {
	case *gorgonia.F64:
		return unsafe.Pointer(s), ndarray.Float64
	case *gorgonia.F32:
		return unsafe.Pointer(s), ndarray.Float32
	case *gorgonia.I:
		return unsafe.Pointer(s), dense.DTypeOf(tensor.Int.Type)
	case *gorgonia.I64:
		return unsafe.Pointer(s), ndarray.Int64
	case *gorgonia.I32:
		return unsafe.Pointer(s), ndarray.Int32
	case *gorgonia.U8:
		return unsafe.Pointer(s), ndarray.Uint8
	case *gorgonia.B:
		return unsafe.Pointer(s), ndarray.Bool
	}
	return nil, ndarray.Undefined
}

// Of shows an array as a value of the Dtype and shape that a node has: a scalar where the
// shape has no dimensions, else a *tensor.Dense over the same memory.
func Of(a *ndarray.Array, t tensor.Dtype, shape tensor.Shape) (gorgonia.Value, error) {
	if d, ok := DType(t); !ok || d != a.DType {
		return nil, fmt.Errorf("%s elements can not be shown as %v", a.DType, t)
	}
	if err := a.Check(); err != nil {
		return nil, err
	}
	if !a.Aligned() {
		return nil, fmt.Errorf("%s lies at an address that is no multiple of its elements' size; give a clone", a)
	}
	if n, err := ndarray.NumElems(shape); err != nil || n != a.Len() {
		return nil, fmt.Errorf("%s can not be shown in shape %v", a, []int(shape))
	}
	if shape.IsScalar() {
		if v := scalarAt(a, t); v != nil {
			return v, nil
		}
	}
	backing := dense.Backing(t.Type, a)
	if shape.IsScalar() {
		return tensor.New(tensor.FromScalar(reflect.ValueOf(backing).Index(0).Interface())), nil
	}
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(backing)), nil
}

// scalarAt shows the first element of an array as a scalar; nil for types without one.
func scalarAt(a *ndarray.Array, t tensor.Dtype) gorgonia.Value {
	if len(a.Data) < a.DType.Size() || a.DType == ndarray.String {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(a.Data))
	switch t {
	case tensor.Float64:
		return (*gorgonia.F64)(p)
	case tensor.Float32:
		return (*gorgonia.F32)(p)
	case tensor.Int:
		return (*gorgonia.I)(p)
	case tensor.Int64:
		return (*gorgonia.I64)(p)
	case tensor.Int32:
		return (*gorgonia.I32)(p)
	case tensor.Uint8:
		return (*gorgonia.U8)(p)
	case tensor.Bool:
		return (*gorgonia.B)(p)
	}
	return nil
}

// Array is View into an array of its own.
func Array(v gorgonia.Value) (*ndarray.Array, error) {
	a := &ndarray.Array{}
	return a, View(context.Background(), a, v)
}
