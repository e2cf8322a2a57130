package berth

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
)

// goTypes pairs ONNX element types with the Go types of a tensor.Dense.
var goTypes = map[ndarray.DType]reflect.Type{
	ndarray.Float32: reflect.TypeFor[float32](), ndarray.Float64: reflect.TypeFor[float64](),
	ndarray.Int8: reflect.TypeFor[int8](), ndarray.Int16: reflect.TypeFor[int16](),
	ndarray.Int32: reflect.TypeFor[int32](), ndarray.Int64: reflect.TypeFor[int64](),
	ndarray.Uint8: reflect.TypeFor[uint8](), ndarray.Uint16: reflect.TypeFor[uint16](),
	ndarray.Uint32: reflect.TypeFor[uint32](), ndarray.Uint64: reflect.TypeFor[uint64](),
	ndarray.Bool: reflect.TypeFor[bool](), ndarray.String: reflect.TypeFor[string](),
	ndarray.Complex64: reflect.TypeFor[complex64](), ndarray.Complex128: reflect.TypeFor[complex128](),
	ndarray.Float16: reflect.TypeFor[Float16](), ndarray.BFloat16: reflect.TypeFor[BFloat16](),
	ndarray.Float8E4M3FN: reflect.TypeFor[Float8E4M3FN](), ndarray.Float8E4M3FNUZ: reflect.TypeFor[Float8E4M3FNUZ](),
	ndarray.Float8E5M2: reflect.TypeFor[Float8E5M2](), ndarray.Float8E5M2FNUZ: reflect.TypeFor[Float8E5M2FNUZ](),
	ndarray.Float8E8M0: reflect.TypeFor[Float8E8M0](), ndarray.Float4E2M1: reflect.TypeFor[Float4E2M1](),
	ndarray.Uint4: reflect.TypeFor[Uint4](), ndarray.Int4: reflect.TypeFor[Int4](),
	ndarray.Uint2: reflect.TypeFor[Uint2](), ndarray.Int2: reflect.TypeFor[Int2](),
	ndarray.Float6E2M3: reflect.TypeFor[Float6E2M3](), ndarray.Float6E3M2: reflect.TypeFor[Float6E3M2](),
}

var onnxTypes = func() map[reflect.Type]ndarray.DType {
	out := map[reflect.Type]ndarray.DType{}
	for _, d := range slices.Sorted(maps.Keys(goTypes)) {
		out[goTypes[d]] = d
		if goTypes[d].PkgPath() != "" {
			tensor.Register(tensor.Dtype{Type: goTypes[d]})
		}
	}
	out[reflect.TypeFor[int]()] = ndarray.Int64
	out[reflect.TypeFor[uint]()] = ndarray.Uint64
	return out
}()

// ArrayOf views a tensor as an array over the same memory; a sliced, transposed
// or column-major tensor is copied into row-major order first.
func ArrayOf(d *tensor.Dense) (_ *ndarray.Array, err error) {
	defer rescue.Into(&err)
	if d == nil || d.Dtype().Type == nil {
		return nil, errors.New("a tensor that is nil or has no element type")
	}
	dt, ok := onnxTypes[d.Dtype().Type]
	if !ok || dt == ndarray.Int64 && d.Dtype().Size() != 8 {
		return nil, fmt.Errorf("a tensor of Go type %s, which has no ONNX element type", d.Dtype())
	}
	a := &ndarray.Array{DType: dt, Shape: slices.Clone([]int(d.Shape()))}
	if slices.Contains(a.Shape, 0) {
		return ndarray.New(dt, a.Shape...)
	}
	if d.RequiresIterator() || d.DataOrder().IsColMajor() {
		return packed(d, a)
	}
	elems := elements(d)
	if dt == ndarray.String {
		a.Str = elems.Interface().([]string)
		return a, nil
	}
	if n := a.Len(); n > 0 {
		a.Data = unsafe.Slice((*byte)(elems.UnsafePointer()), n*dt.Size())
	}
	return a, nil
}

// elements returns the tensor's memory as a reflected slice; a scalar's in a
// slice of one.
func elements(d *tensor.Dense) reflect.Value {
	v := reflect.ValueOf(d.Data())
	if v.Kind() == reflect.Slice {
		return v
	}
	s := reflect.MakeSlice(reflect.SliceOf(v.Type()), 1, 1)
	s.Index(0).Set(v)
	return s
}

// packed copies a tensor with unusual strides element by element.
func packed(d *tensor.Dense, a *ndarray.Array) (*ndarray.Array, error) {
	out, err := ndarray.New(a.DType, a.Shape...)
	if err != nil {
		return nil, err
	}
	size := a.DType.Size()
	elems := elements(d)
	base := elems.UnsafePointer()
	it := d.Iterator()
	for k := 0; ; k++ {
		i, err := it.Next()
		if err != nil {
			break
		}
		if a.DType == ndarray.String {
			out.Str[k] = elems.Index(i).String()
			continue
		}
		copy(out.Data[k*size:(k+1)*size], unsafe.Slice((*byte)(unsafe.Add(base, i*size)), size))
	}
	return out, nil
}

// DenseOf views an array as a tensor over the same memory.
func DenseOf(v ndarray.Value) (_ *tensor.Dense, err error) {
	defer rescue.Into(&err)
	a, ok := v.(*ndarray.Array)
	if !ok || a == nil {
		return nil, fmt.Errorf("the value is a %T, not a tensor; use RunValues", v)
	}
	if n, err := ndarray.ByteSize(a.DType, a.Shape); err != nil || a.DType != ndarray.String && n > len(a.Data) {
		return nil, fmt.Errorf("the data of %v is shorter than its shape says", a)
	}
	t := goTypes[a.DType]
	if t == nil {
		return nil, fmt.Errorf("element type %s has no Go type", a.DType)
	}
	var backing any
	if a.DType == ndarray.String {
		backing = a.Str
	} else {
		backing = sliceOf(t, a.Data, a.Len())
	}
	if len(a.Shape) == 0 {
		return tensor.New(tensor.FromScalar(reflect.ValueOf(backing).Index(0).Interface())), nil
	}
	return tensor.New(tensor.WithShape(a.Shape...), tensor.WithBacking(backing)), nil
}

// sliceOf makes a []T over bytes for a reflected T.
func sliceOf(t reflect.Type, data []byte, n int) any {
	s := reflect.New(reflect.SliceOf(t)).Elem()
	if n > 0 {
		h := (*[]byte)(s.Addr().UnsafePointer())
		*h = unsafe.Slice(unsafe.SliceData(data), n)
	}
	return s.Interface()
}

// valuesOf views tensors as arrays. Of several errors, it returns that of the first name.
func valuesOf(in map[string]*tensor.Dense) (map[string]ndarray.Value, error) {
	out := make(map[string]ndarray.Value, len(in))
	var failed string
	var err error
	for name, d := range in {
		a, e := ArrayOf(d)
		if e != nil && (err == nil || name < failed) {
			failed, err = name, &InputError{Name: name, Want: "a tensor", Got: e.Error()}
		}
		out[name] = a
	}
	return out, err
}
