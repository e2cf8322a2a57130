package ndarray

import (
	"fmt"
	"math"
)

// DType is an ONNX element type. The numbers are those of TensorProto.DataType.
type DType uint8

// The element types of ONNX.
const (
	Undefined      DType = 0
	Float32        DType = 1
	Uint8          DType = 2
	Int8           DType = 3
	Uint16         DType = 4
	Int16          DType = 5
	Int32          DType = 6
	Int64          DType = 7
	String         DType = 8
	Bool           DType = 9
	Float16        DType = 10
	Float64        DType = 11
	Uint32         DType = 12
	Uint64         DType = 13
	Complex64      DType = 14
	Complex128     DType = 15
	BFloat16       DType = 16
	Float8E4M3FN   DType = 17
	Float8E4M3FNUZ DType = 18 // float8e4m3fnuz
	Float8E5M2     DType = 19
	Float8E5M2FNUZ DType = 20 // float8e5m2fnuz
	Uint4          DType = 21
	Int4           DType = 22
	Float4E2M1     DType = 23
	Float8E8M0     DType = 24
	Uint2          DType = 25
	Int2           DType = 26
	Float6E2M3     DType = 27
	Float6E3M2     DType = 28

	// NumDTypes is one more than the largest known element type.
	NumDTypes = 29
)

type dtypeInfo struct {
	name string
	size int // bytes of one element in memory
	bits int // bits of one element in a file
}

var dtypes = [NumDTypes]dtypeInfo{
	Undefined: {"undefined", 0, 0}, Float32: {"float32", 4, 32}, Uint8: {"uint8", 1, 8}, Int8: {"int8", 1, 8},
	Uint16: {"uint16", 2, 16}, Int16: {"int16", 2, 16}, Int32: {"int32", 4, 32}, Int64: {"int64", 8, 64},
	String: {"string", 16, 0}, Bool: {"bool", 1, 8}, Float16: {"float16", 2, 16}, Float64: {"float64", 8, 64},
	Uint32: {"uint32", 4, 32}, Uint64: {"uint64", 8, 64}, Complex64: {"complex64", 8, 64}, Complex128: {"complex128", 16, 128},
	BFloat16: {"bfloat16", 2, 16}, Float8E4M3FN: {"float8e4m3fn", 1, 8}, Float8E4M3FNUZ: {"float8e4m3fnuz", 1, 8},
	Float8E5M2: {"float8e5m2", 1, 8}, Float8E5M2FNUZ: {"float8e5m2fnuz", 1, 8}, Uint4: {"uint4", 1, 4}, Int4: {"int4", 1, 4},
	Float4E2M1: {"float4e2m1", 1, 4}, Float8E8M0: {"float8e8m0", 1, 8}, Uint2: {"uint2", 1, 2}, Int2: {"int2", 1, 2},
	Float6E2M3: {"float6e2m3", 1, 6}, Float6E3M2: {"float6e3m2", 1, 6},
}

// Valid reports whether d names an element type berth knows.
func (d DType) Valid() bool { return d > Undefined && d < NumDTypes }

// Size returns the bytes one element takes in memory (16 for a string's header).
func (d DType) Size() int {
	if d >= NumDTypes {
		return 0
	}
	return dtypes[d].size
}

// FileBits returns the bits one element takes in a file's raw data; 0 for strings.
func (d DType) FileBits() int {
	if d >= NumDTypes {
		return 0
	}
	return dtypes[d].bits
}

// FileBytes returns how many bytes n elements take in a file, where elements narrower than a byte are packed; 0 for types
// without a fixed width.
func (d DType) FileBytes(n int) int {
	if bits := d.FileBits(); bits < 8 {
		return n/8*bits + (n%8*bits+7)/8
	}
	return n * (d.FileBits() / 8)
}

// String returns the lower-case ONNX name of the type ("float32", "int4", …).
func (d DType) String() string {
	if d >= NumDTypes {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypes[d].name
}

// ParseDType is the inverse of String; ok is false for an unknown name.
func ParseDType(s string) (d DType, ok bool) {
	for i, t := range dtypes {
		if t.name == s {
			return DType(i), true
		}
	}
	return Undefined, false
}

// IsFloat reports a real floating-point type of any width, down to float4.
func (d DType) IsFloat() bool {
	switch d {
	case Float32, Float64, Float16, BFloat16, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float4E2M1, Float8E8M0, Float6E2M3, Float6E3M2:
		return true
	}
	return false
}

// IsHalf reports a float type of 16 bits.
func (d DType) IsHalf() bool { return d == Float16 || d == BFloat16 }

// InFloat32 reports the float types that kernels compute in float32: that, and the half types.
func (d DType) InFloat32() bool { return d == Float32 || d.IsHalf() }

// IsByte reports an integer type of 8 bits.
func (d DType) IsByte() bool { return d == Int8 || d == Uint8 }

// MaxFinite is the largest number of a float type of 16 bits or more; 0 for others.
func (d DType) MaxFinite() float64 {
	switch d {
	case Float16:
		return 65504
	case BFloat16:
		return float64(BF16ToF32(0x7f7f))
	case Float32:
		return math.MaxFloat32
	case Float64:
		return math.MaxFloat64
	}
	return 0
}

// IsInteger reports a signed or unsigned integer type of any width (bool is none).
func (d DType) IsInteger() bool { return d.IsSigned() || d.IsUnsigned() }

// IsSigned reports a signed integer type.
func (d DType) IsSigned() bool {
	switch d {
	case Int8, Int16, Int32, Int64, Int4, Int2:
		return true
	}
	return false
}

// IsUnsigned reports an unsigned integer type (bool is none).
func (d DType) IsUnsigned() bool {
	switch d {
	case Uint8, Uint16, Uint32, Uint64, Uint4, Uint2:
		return true
	}
	return false
}

// IsComplex reports complex64 or complex128.
func (d DType) IsComplex() bool { return d == Complex64 || d == Complex128 }
