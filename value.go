package berth

import (
	"fmt"
	"unsafe"

	"github.com/berth-onnx/berth/ndarray"
)

// Tensor makes a value over data (not copied), an input of [Session.Run] and the like. The Go
// type gives the element type; no shape makes a scalar. The error is a [*ShapeError].
//
//	x, err := berth.Tensor(pixels, 1, 3, 224, 224) // pixels is a []float32
func Tensor[T ndarray.Element](data []T, shape ...int) (*ndarray.Array, error) {
	var z T
	a := &ndarray.Array{DType: ndarray.DTypeOf(z), Shape: append([]int(nil), shape...)}
	if a.DType == ndarray.String {
		a.Str = *(*[]string)(unsafe.Pointer(&data))
	} else if len(data) > 0 {
		a.Data = unsafe.Slice((*byte)(unsafe.Pointer(&data[0])), len(data)*int(unsafe.Sizeof(z)))
	}
	if err := a.Check(); err != nil {
		return nil, err
	}
	return a, nil
}

// As returns the elements of a tensor in row-major order: its own memory, not a copy, unless
// that is not aligned for T. The error is a [*TypeError] if v is no tensor or T does not stand
// for its element type, and a [*ShapeError] if its data and shape disagree. Values without a Go
// type of their own have one here ([Float16] and the like).
//
//	scores, err := berth.As[float32](out["scores"])
func As[T ndarray.Element](v ndarray.Value) ([]T, error) {
	var z T
	a, ok := v.(*ndarray.Array)
	if !ok || a == nil || a.DType != ndarray.DTypeOf(z) || a.DType.Size() != int(unsafe.Sizeof(z)) && a.DType != ndarray.String {
		return nil, &TypeError{Want: fmt.Sprintf("%T", z), Got: ndarray.Describe(v)}
	}
	if err := a.Check(); err != nil {
		return nil, err
	}
	if a.DType == ndarray.String {
		return *(*[]T)(unsafe.Pointer(&a.Str)), nil
	}
	if !a.Aligned() {
		a = a.Clone()
	}
	if len(a.Data) == 0 {
		return []T{}, nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&a.Data[0])), len(a.Data)/a.DType.Size()), nil
}

// The Go element types of tensors whose ONNX type Go lacks. Each holds the bit
// pattern (types narrower than a byte: one element per byte).
type (
	// Float16 is an IEEE half-precision bit pattern.
	Float16 uint16
	// BFloat16 is a bfloat16 bit pattern.
	BFloat16 uint16
	// Float8E4M3FN is a float8 bit pattern; the other three likewise.
	Float8E4M3FN   uint8
	Float8E4M3FNUZ uint8
	Float8E5M2     uint8
	Float8E5M2FNUZ uint8
	// Float8E8M0 is a power-of-two scale.
	Float8E8M0 uint8
	// Float4E2M1 is a float4 bit pattern in the low four bits.
	Float4E2M1 uint8
	// Float6E2M3 and Float6E3M2 are float6 bit patterns in the low six bits.
	Float6E2M3 uint8
	Float6E3M2 uint8
	// Uint4, Int4, Uint2 and Int2 hold one number each.
	Uint4 uint8
	Int4  int8
	Uint2 uint8
	Int2  int8
)

// DType is [ndarray.Float16].
func (Float16) DType() ndarray.DType { return ndarray.Float16 }

// DType is [ndarray.BFloat16].
func (BFloat16) DType() ndarray.DType { return ndarray.BFloat16 }

// DType is [ndarray.Float8E4M3FN].
func (Float8E4M3FN) DType() ndarray.DType { return ndarray.Float8E4M3FN }

// DType is [ndarray.Float8E4M3FNUZ].
func (Float8E4M3FNUZ) DType() ndarray.DType { return ndarray.Float8E4M3FNUZ }

// DType is [ndarray.Float8E5M2].
func (Float8E5M2) DType() ndarray.DType { return ndarray.Float8E5M2 }

// DType is [ndarray.Float8E5M2FNUZ].
func (Float8E5M2FNUZ) DType() ndarray.DType { return ndarray.Float8E5M2FNUZ }

// DType is [ndarray.Float8E8M0].
func (Float8E8M0) DType() ndarray.DType { return ndarray.Float8E8M0 }

// DType is [ndarray.Float4E2M1].
func (Float4E2M1) DType() ndarray.DType { return ndarray.Float4E2M1 }

// DType is [ndarray.Float6E2M3].
func (Float6E2M3) DType() ndarray.DType { return ndarray.Float6E2M3 }

// DType is [ndarray.Float6E3M2].
func (Float6E3M2) DType() ndarray.DType { return ndarray.Float6E3M2 }

// DType is [ndarray.Uint4].
func (Uint4) DType() ndarray.DType { return ndarray.Uint4 }

// DType is [ndarray.Int4].
func (Int4) DType() ndarray.DType { return ndarray.Int4 }

// DType is [ndarray.Uint2].
func (Uint2) DType() ndarray.DType { return ndarray.Uint2 }

// DType is [ndarray.Int2].
func (Int2) DType() ndarray.DType { return ndarray.Int2 }
