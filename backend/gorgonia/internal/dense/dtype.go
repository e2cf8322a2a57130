package dense

import (
	"maps"
	"reflect"
	"slices"
	"strconv"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
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
	ndarray.Float16: reflect.TypeFor[berth.Float16](), ndarray.BFloat16: reflect.TypeFor[berth.BFloat16](),
	ndarray.Float8E4M3FN: reflect.TypeFor[berth.Float8E4M3FN](), ndarray.Float8E4M3FNUZ: reflect.TypeFor[berth.Float8E4M3FNUZ](),
	ndarray.Float8E5M2: reflect.TypeFor[berth.Float8E5M2](), ndarray.Float8E5M2FNUZ: reflect.TypeFor[berth.Float8E5M2FNUZ](),
	ndarray.Float8E8M0: reflect.TypeFor[berth.Float8E8M0](), ndarray.Float4E2M1: reflect.TypeFor[berth.Float4E2M1](),
	ndarray.Uint4: reflect.TypeFor[berth.Uint4](), ndarray.Int4: reflect.TypeFor[berth.Int4](),
	ndarray.Uint2: reflect.TypeFor[berth.Uint2](), ndarray.Int2: reflect.TypeFor[berth.Int2](),
	ndarray.Float6E2M3: reflect.TypeFor[berth.Float6E2M3](), ndarray.Float6E3M2: reflect.TypeFor[berth.Float6E3M2](),
}

// onnxTypes is the way back; int and uint are ONNX's types of as many bits.
var onnxTypes = func() map[reflect.Type]ndarray.DType {
	out := map[reflect.Type]ndarray.DType{reflect.TypeFor[int](): ndarray.Int64, reflect.TypeFor[uint](): ndarray.Uint64}
	if strconv.IntSize == 32 {
		out[reflect.TypeFor[int]()], out[reflect.TypeFor[uint]()] = ndarray.Int32, ndarray.Uint32
	}
	for _, d := range slices.Sorted(maps.Keys(goTypes)) {
		out[goTypes[d]] = d
		if goTypes[d].PkgPath() != "" {
			tensor.Register(tensor.Dtype{Type: goTypes[d]})
		}
	}
	return out
}()

// GoType is the Go type of an element type, nil if it has none.
func GoType(d ndarray.DType) reflect.Type { return goTypes[d] }

// DTypeOf is the element type of a Go type, Undefined if it has none.
func DTypeOf(t reflect.Type) ndarray.DType { return onnxTypes[t] }
