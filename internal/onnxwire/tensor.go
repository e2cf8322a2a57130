package onnxwire

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

func (t *Tensor) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			t.Dims = varints(d, t.Dims)
		case 2:
			t.DataType = DataType(d.int32(&t.Extra))
		case 3:
			t.Segment = optional(d, t.Segment, "segment")
		case 8:
			t.Name = d.str(&t.Extra)
		case 9:
			t.RawData = d.view()
		case 12:
			t.DocString = d.str(&t.Extra)
		case 13:
			t.ExternalData = repeated(d, t.ExternalData, "external_data")
		case 14:
			t.DataLocation = DataLocation(d.int32(&t.Extra))
		case 16:
			t.MetadataProps = repeated(d, t.MetadataProps, "metadata_props")
		default:
			t.decodeTyped(d)
		}
	}
}

// decodeTyped reads the typed lists of elements.
func (t *Tensor) decodeTyped(d *decoder) {
	switch d.num {
	case 4:
		t.FloatData = d.floats(t.FloatData)
	case 5:
		t.Int32Data = varints(d, t.Int32Data)
	case 6:
		t.StringData = d.blobs(t.StringData)
	case 7:
		t.Int64Data = varints(d, t.Int64Data)
	case 10:
		t.DoubleData = d.doubles(t.DoubleData)
	case 11:
		t.Uint64Data = varints(d, t.Uint64Data)
	default:
		d.unknown(&t.Extra)
	}
}

func (t *Tensor) encode(e *encoder) {
	writeVarints(e, 1, t.Dims)
	e.int32(2, int32(t.DataType), &t.Extra)
	writeOptional(e, 3, t.Segment)
	e.packedFloats(4, t.FloatData)
	writePacked(e, 5, t.Int32Data)
	e.blobs(6, t.StringData)
	writePacked(e, 7, t.Int64Data)
	e.str(8, t.Name, &t.Extra)
	if t.RawData != nil {
		e.bytes(9, t.RawData)
	}
	e.packedDoubles(10, t.DoubleData)
	writePacked(e, 11, t.Uint64Data)
	e.str(12, t.DocString, &t.Extra)
	writeRepeated(e, 13, t.ExternalData)
	e.int32(14, int32(t.DataLocation), &t.Extra)
	writeRepeated(e, 16, t.MetadataProps)
	e.unknown(&t.Extra)
}

// Segment is TensorProto.Segment: the part of a larger tensor that this one holds, in elements.
type Segment struct {
	Begin int64
	End   int64
	Extra
}

func (s *Segment) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			s.Begin = d.int64(&s.Extra)
		case 2:
			s.End = d.int64(&s.Extra)
		default:
			d.unknown(&s.Extra)
		}
	}
}

func (s *Segment) encode(e *encoder) {
	e.int64(1, s.Begin, &s.Extra)
	e.int64(2, s.End, &s.Extra)
	e.unknown(&s.Extra)
}

// SparseTensor is SparseTensorProto: a constant array given by its elements that are not zero.
type SparseTensor struct {
	Values  *Tensor // [NNZ]; its Name is the name of the sparse tensor
	Indices *Tensor // int64: [NNZ] positions in the flattened array, or [NNZ, rank] coordinates, ascending
	Dims    []int64 // lengths of the axes of the dense array
	Extra
}

// ParseSparseTensor reads a SparseTensorProto. RawData of its tensors aliases data.
func ParseSparseTensor(data []byte) (*SparseTensor, error) {
	return parse[SparseTensor](data, "sparse_tensor")
}

func (s *SparseTensor) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			s.Values = optional(d, s.Values, "values")
		case 2:
			s.Indices = optional(d, s.Indices, "indices")
		case 3:
			s.Dims = varints(d, s.Dims)
		default:
			d.unknown(&s.Extra)
		}
	}
}

func (s *SparseTensor) encode(e *encoder) {
	writeOptional(e, 1, s.Values)
	writeOptional(e, 2, s.Indices)
	writeVarints(e, 3, s.Dims)
	e.unknown(&s.Extra)
}
