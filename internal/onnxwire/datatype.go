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

var dataTypeNames = []string{
	"UNDEFINED", "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING", "BOOL", "FLOAT16", "DOUBLE",
	"UINT32", "UINT64", "COMPLEX64", "COMPLEX128", "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2",
	"FLOAT8E5M2FNUZ", "UINT4", "INT4", "FLOAT4E2M1", "FLOAT8E8M0", "UINT2", "INT2", "FLOAT6E2M3", "FLOAT6E3M2",
}

// String returns the name onnx.proto gives to t.
func (t DataType) String() string {
	return enumName(t, dataTypeNames, "DataType")
}

// enumName returns the name of v among those of its enumeration, which counts from 0.
func enumName[T ~int32](v T, names []string, enum string) string {
	if v >= 0 && int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", enum, int32(v))
}
