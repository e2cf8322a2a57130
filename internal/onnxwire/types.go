package onnxwire

// Type is TypeProto: the type of a value. At most one of the pointers is set.
type Type struct {
	Tensor       *TensorType
	Sequence     *SequenceType
	Map          *MapType
	Optional     *OptionalType
	SparseTensor *SparseTensorType
	Opaque       *OpaqueType
	Denotation   string // what the value stands for, such as "IMAGE"
	Extra
}

// only clears every alternative but the one of field num: the last alternative in a file wins.
func (t *Type) only(num int) {
	was := *t
	*t = Type{Denotation: was.Denotation, Extra: was.Extra}
	switch num {
	case 1:
		t.Tensor = was.Tensor
	case 4:
		t.Sequence = was.Sequence
	case 5:
		t.Map = was.Map
	case 7:
		t.Opaque = was.Opaque
	case 8:
		t.SparseTensor = was.SparseTensor
	case 9:
		t.Optional = was.Optional
	}
}

func (t *Type) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1, 4, 5, 7, 8, 9:
			t.only(int(d.num))
			t.decodeValue(d)
		case 6:
			t.Denotation = d.str(&t.Extra)
		default:
			d.unknown(&t.Extra)
		}
	}
}

func (t *Type) decodeValue(d *decoder) {
	switch d.num {
	case 1:
		t.Tensor = optional(d, t.Tensor, "tensor_type")
	case 4:
		t.Sequence = optional(d, t.Sequence, "sequence_type")
	case 5:
		t.Map = optional(d, t.Map, "map_type")
	case 7:
		t.Opaque = optional(d, t.Opaque, "opaque_type")
	case 8:
		t.SparseTensor = optional(d, t.SparseTensor, "sparse_tensor_type")
	case 9:
		t.Optional = optional(d, t.Optional, "optional_type")
	}
}

func (t *Type) encode(e *encoder) {
	writeOptional(e, 1, t.Tensor)
	writeOptional(e, 4, t.Sequence)
	writeOptional(e, 5, t.Map)
	e.str(6, t.Denotation, &t.Extra)
	writeOptional(e, 7, t.Opaque)
	writeOptional(e, 8, t.SparseTensor)
	writeOptional(e, 9, t.Optional)
	e.unknown(&t.Extra)
}

// TensorType is TypeProto.Tensor.
type TensorType struct {
	ElemType DataType
	Shape    *Shape // nil: of unknown rank; no dimensions: a scalar
	Extra
}

func (t *TensorType) decode(d *decoder) {
	decodeTensorType(d, &t.ElemType, &t.Shape, &t.Extra)
}

func (t *TensorType) encode(e *encoder) {
	encodeTensorType(e, t.ElemType, t.Shape, &t.Extra)
}

// SparseTensorType is TypeProto.SparseTensor.
type SparseTensorType struct {
	ElemType DataType
	Shape    *Shape // nil: of unknown rank
	Extra
}

func (t *SparseTensorType) decode(d *decoder) {
	decodeTensorType(d, &t.ElemType, &t.Shape, &t.Extra)
}

func (t *SparseTensorType) encode(e *encoder) {
	encodeTensorType(e, t.ElemType, t.Shape, &t.Extra)
}

// decodeTensorType reads the fields that dense and sparse tensor types have alike.
func decodeTensorType(d *decoder, elem *DataType, shape **Shape, x *Extra) {
	for d.next() {
		switch d.num {
		case 1:
			*elem = DataType(d.int32(x))
		case 2:
			*shape = optional(d, *shape, "shape")
		default:
			d.unknown(x)
		}
	}
}

func encodeTensorType(e *encoder, elem DataType, shape *Shape, x *Extra) {
	e.int32(1, int32(elem), x)
	writeOptional(e, 2, shape)
	e.unknown(x)
}

// SequenceType is TypeProto.Sequence.
type SequenceType struct {
	ElemType *Type
	Extra
}

func (t *SequenceType) decode(d *decoder) {
	decodeElemType(d, &t.ElemType, &t.Extra)
}

func (t *SequenceType) encode(e *encoder) {
	encodeElemType(e, t.ElemType, &t.Extra)
}

// OptionalType is TypeProto.Optional.
type OptionalType struct {
	ElemType *Type
	Extra
}

func (t *OptionalType) decode(d *decoder) {
	decodeElemType(d, &t.ElemType, &t.Extra)
}

func (t *OptionalType) encode(e *encoder) {
	encodeElemType(e, t.ElemType, &t.Extra)
}

// decodeElemType reads the one field of sequence and optional types.
func decodeElemType(d *decoder, elem **Type, x *Extra) {
	for d.next() {
		switch d.num {
		case 1:
			*elem = optional(d, *elem, "elem_type")
		default:
			d.unknown(x)
		}
	}
}

func encodeElemType(e *encoder, elem *Type, x *Extra) {
	writeOptional(e, 1, elem)
	e.unknown(x)
}

// MapType is TypeProto.Map.
type MapType struct {
	KeyType   DataType // an integer type or TypeString
	ValueType *Type
	Extra
}

func (t *MapType) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			t.KeyType = DataType(d.int32(&t.Extra))
		case 2:
			t.ValueType = optional(d, t.ValueType, "value_type")
		default:
			d.unknown(&t.Extra)
		}
	}
}

func (t *MapType) encode(e *encoder) {
	e.int32(1, int32(t.KeyType), &t.Extra)
	writeOptional(e, 2, t.ValueType)
	e.unknown(&t.Extra)
}

// OpaqueType is TypeProto.Opaque: a type that only its domain understands.
type OpaqueType struct {
	Domain string
	Name   string
	Extra
}

func (t *OpaqueType) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			t.Domain = d.str(&t.Extra)
		case 2:
			t.Name = d.str(&t.Extra)
		default:
			d.unknown(&t.Extra)
		}
	}
}

func (t *OpaqueType) encode(e *encoder) {
	e.str(1, t.Domain, &t.Extra)
	e.str(2, t.Name, &t.Extra)
	e.unknown(&t.Extra)
}

// Shape is TensorShapeProto: the lengths of a tensor's axes, outermost first.
type Shape struct {
	Dims []*Dim
	Extra
}

func (s *Shape) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			s.Dims = repeated(d, s.Dims, "dim")
		default:
			d.unknown(&s.Extra)
		}
	}
}

func (s *Shape) encode(e *encoder) {
	writeRepeated(e, 1, s.Dims)
	e.unknown(&s.Extra)
}

// DimKind says which of the alternatives of a Dim is in use.
type DimKind uint8

// The alternatives of a Dim.
const (
	DimUnknown DimKind = iota // nothing is said
	DimValue                  // Value is the length
	DimParam                  // Param names the length
)

// Dim is TensorShapeProto.Dimension: the length of one axis.
type Dim struct {
	Kind       DimKind
	Value      int64  // elements, with DimValue
	Param      string // the same name means the same length within a graph, with DimParam; may be empty
	Denotation string // what the axis stands for, such as "DATA_BATCH"
	Extra
}

func (m *Dim) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			m.Kind, m.Value, m.Param = DimValue, int64(d.varint()), ""
		case 2:
			m.Kind, m.Value, m.Param = DimParam, 0, d.text()
		case 3:
			m.Denotation = d.str(&m.Extra)
		default:
			d.unknown(&m.Extra)
		}
	}
}

func (m *Dim) encode(e *encoder) {
	switch m.Kind {
	case DimValue:
		e.varint(1, uint64(m.Value))
	case DimParam:
		e.text(2, m.Param)
	}
	e.str(3, m.Denotation, &m.Extra)
	e.unknown(&m.Extra)
}
