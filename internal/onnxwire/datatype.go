package onnxwire

import "fmt"

// DataType is TensorProto.DataType: the type of a tensor's elements.
type DataType int32

// The element types.
const (
	TypeUndefined      DataType = 0
	TypeFloat          DataType = 1
	TypeUint8          DataType = 2
	TypeInt8           DataType = 3
	TypeUint16         DataType = 4
	TypeInt16          DataType = 5
	TypeInt32          DataType = 6
	TypeInt64          DataType = 7
	TypeString         DataType = 8
	TypeBool           DataType = 9
	TypeFloat16        DataType = 10
	TypeDouble         DataType = 11
	TypeUint32         DataType = 12
	TypeUint64         DataType = 13
	TypeComplex64      DataType = 14
	TypeComplex128     DataType = 15
	TypeBFloat16       DataType = 16
	TypeFloat8E4M3FN   DataType = 17
	TypeFloat8E4M3FNUZ DataType = 18
	TypeFloat8E5M2     DataType = 19
	TypeFloat8E5M2FNUZ DataType = 20
	TypeUint4          DataType = 21
	TypeInt4           DataType = 22
	TypeFloat4E2M1     DataType = 23
	TypeFloat8E8M0     DataType = 24
	TypeUint2          DataType = 25
	TypeInt2           DataType = 26
	TypeFloat6E2M3     DataType = 27
	TypeFloat6E3M2     DataType = 28
)

var dataTypes = [...]struct {
	name string
	bits int
}{
	TypeUndefined:      {"UNDEFINED", 0},
	TypeFloat:          {"FLOAT", 32},
	TypeUint8:          {"UINT8", 8},
	TypeInt8:           {"INT8", 8},
	TypeUint16:         {"UINT16", 16},
	TypeInt16:          {"INT16", 16},
	TypeInt32:          {"INT32", 32},
	TypeInt64:          {"INT64", 64},
	TypeString:         {"STRING", 0},
	TypeBool:           {"BOOL", 8},
	TypeFloat16:        {"FLOAT16", 16},
	TypeDouble:         {"DOUBLE", 64},
	TypeUint32:         {"UINT32", 32},
	TypeUint64:         {"UINT64", 64},
	TypeComplex64:      {"COMPLEX64", 64},
	TypeComplex128:     {"COMPLEX128", 128},
	TypeBFloat16:       {"BFLOAT16", 16},
	TypeFloat8E4M3FN:   {"FLOAT8E4M3FN", 8},
	TypeFloat8E4M3FNUZ: {"FLOAT8E4M3FNUZ", 8},
	TypeFloat8E5M2:     {"FLOAT8E5M2", 8},
	TypeFloat8E5M2FNUZ: {"FLOAT8E5M2FNUZ", 8},
	TypeUint4:          {"UINT4", 4},
	TypeInt4:           {"INT4", 4},
	TypeFloat4E2M1:     {"FLOAT4E2M1", 4},
	TypeFloat8E8M0:     {"FLOAT8E8M0", 8},
	TypeUint2:          {"UINT2", 2},
	TypeInt2:           {"INT2", 2},
	TypeFloat6E2M3:     {"FLOAT6E2M3", 6},
	TypeFloat6E3M2:     {"FLOAT6E3M2", 6},
}

// Known reports whether t is a type of the format other than TypeUndefined.
func (t DataType) Known() bool {
	return t > 0 && int(t) < len(dataTypes)
}

// Bits returns how many bits an element has in RawData: 0 for strings, which are not in RawData, and for unknown types.
func (t DataType) Bits() int {
	if !t.Known() {
		return 0
	}
	return dataTypes[t].bits
}

// String returns the name onnx.proto gives to t.
func (t DataType) String() string {
	if t >= 0 && int(t) < len(dataTypes) {
		return dataTypes[t].name
	}
	return fmt.Sprintf("DataType(%d)", int32(t))
}
