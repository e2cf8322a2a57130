package onnxwire

import "unsafe"

// Tensor is TensorProto: a constant array. Its elements are in exactly one place: RawData, the typed list that belongs to
// DataType, or, with DataExternal, the file that ExternalData names.
type Tensor struct {
	Dims     []int64 // lengths of the axes, outermost first; none: a scalar
	DataType DataType
	Name     string

	// RawData holds the elements little-endian, packed, row-major. It aliases the input, is not aligned, and must not be
	// written to. nil: not there.
	RawData []byte

	FloatData  []float32 // TypeFloat; TypeComplex64 as real, imaginary, real, …
	Int32Data  []int32   // all types up to 32 bits that have no list of their own; 4-bit types two, 2-bit types four an entry
	StringData [][]byte  // TypeString
	Int64Data  []int64   // TypeInt64
	DoubleData []float64 // TypeDouble; TypeComplex128 as real, imaginary, real, …
	Uint64Data []uint64  // TypeUint32 and TypeUint64

	DataLocation  DataLocation
	ExternalData  []*StringEntry // "location", "offset", "length", "checksum"
	Segment       *Segment
	DocString     string
	MetadataProps []*StringEntry
	Extra
}

// DataLocation is TensorProto.DataLocation.
type DataLocation int32

// The places where the elements of a Tensor can be.
const (
	DataDefault  DataLocation = 0 // in the tensor itself
	DataExternal DataLocation = 1 // in another file, see Tensor.ExternalData
)

// ParseTensor reads a TensorProto, such as an input_0.pb of a test data set. RawData aliases data.
func ParseTensor(data []byte) (*Tensor, error) {
	return parse[Tensor](data, "tensor")
}

func (t *Tensor) fields(c codec) {
	varints(c, 1, &t.Dims)
	integer(c, 2, &t.DataType)
	optional(c, 3, &t.Segment, "segment")
	packedFixed(c, 4, &t.FloatData)
	packedVarints(c, 5, &t.Int32Data)
	c.blobs(6, &t.StringData)
	packedVarints(c, 7, &t.Int64Data)
	c.str(8, &t.Name)
	c.bytes(rawData, &t.RawData, c.d.view)
	packedFixed(c, 10, &t.DoubleData)
	packedVarints(c, 11, (*[]int64)(unsafe.Pointer(&t.Uint64Data))) // the same bits
	c.str(12, &t.DocString)
	repeated(c, 13, &t.ExternalData, "external_data")
	integer(c, 14, &t.DataLocation)
	repeated(c, 16, &t.MetadataProps, "metadata_props")
}

// Segment is TensorProto.Segment: the part of a larger tensor that this one holds, in elements.
type Segment struct {
	Begin int64
	End   int64
	Extra
}

func (s *Segment) fields(c codec) {
	integer(c, 1, &s.Begin)
	integer(c, 2, &s.End)
}

// SparseTensor is SparseTensorProto: a constant array given by its elements that are not zero.
type SparseTensor struct {
	Values  *Tensor // [NNZ]; its Name is the name of the sparse tensor
	Indices *Tensor // int64: [NNZ] positions in the flattened array, or [NNZ, rank] coordinates, ascending
	Dims    []int64 // lengths of the axes of the dense array
	Extra
}

func (s *SparseTensor) fields(c codec) {
	optional(c, 1, &s.Values, "values")
	optional(c, 2, &s.Indices, "indices")
	varints(c, 3, &s.Dims)
}
