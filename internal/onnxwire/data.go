package onnxwire

import "fmt"

// The messages of onnx-data.proto: values that are not tensors, as test data sets hold them.

// ParseValue reads a value of the given type, such as an input_0.pb of a test data set for the model input of that type: a
// *Sequence, *Map, *Optional or *SparseTensor where typ says so, else a *Tensor. A value does not say itself which of these
// it is. RawData aliases data.
func ParseValue(data []byte, typ *Type) (Message, error) {
	switch {
	case typ == nil:
		return orNil(ParseTensor(data))
	case typ.Sequence != nil:
		return orNil(ParseSequence(data))
	case typ.Map != nil:
		return orNil(ParseMap(data))
	case typ.Optional != nil:
		return orNil(ParseOptional(data))
	case typ.SparseTensor != nil:
		return orNil(ParseSparseTensor(data))
	default:
		return orNil(ParseTensor(data))
	}
}

// orNil keeps a nil pointer from becoming a Message that is not nil.
func orNil[M Message](m M, err error) (Message, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

// ElemKind says what a Sequence or an Optional holds (SequenceProto.DataType, OptionalProto.DataType).
type ElemKind int32

// The kinds of elements.
const (
	ElemUndefined    ElemKind = 0
	ElemTensor       ElemKind = 1
	ElemSparseTensor ElemKind = 2
	ElemSequence     ElemKind = 3
	ElemMap          ElemKind = 4
	ElemOptional     ElemKind = 5
)

var elemKindNames = [...]string{"UNDEFINED", "TENSOR", "SPARSE_TENSOR", "SEQUENCE", "MAP", "OPTIONAL"}

// String returns the name onnx-data.proto gives to k.
func (k ElemKind) String() string {
	if k >= 0 && int(k) < len(elemKindNames) {
		return elemKindNames[k]
	}
	return fmt.Sprintf("ElemKind(%d)", int32(k))
}

// Sequence is SequenceProto. The list that belongs to ElemType holds the elements.
type Sequence struct {
	Name          string
	ElemType      ElemKind
	Tensors       []*Tensor
	SparseTensors []*SparseTensor
	Sequences     []*Sequence
	Maps          []*Map
	Optionals     []*Optional
	Extra
}

// ParseSequence reads a SequenceProto. RawData of its tensors aliases data.
func ParseSequence(data []byte) (*Sequence, error) {
	return parse[Sequence](data, "sequence")
}

func (s *Sequence) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			s.Name = d.str(&s.Extra)
		case 2:
			s.ElemType = ElemKind(d.int32(&s.Extra))
		case 3:
			s.Tensors = repeated(d, s.Tensors, "tensor_values")
		case 4:
			s.SparseTensors = repeated(d, s.SparseTensors, "sparse_tensor_values")
		case 5:
			s.Sequences = repeated(d, s.Sequences, "sequence_values")
		case 6:
			s.Maps = repeated(d, s.Maps, "map_values")
		case 7:
			s.Optionals = repeated(d, s.Optionals, "optional_values")
		default:
			d.unknown(&s.Extra)
		}
	}
}

func (s *Sequence) encode(e *encoder) {
	e.str(1, s.Name, &s.Extra)
	e.int32(2, int32(s.ElemType), &s.Extra)
	writeRepeated(e, 3, s.Tensors)
	writeRepeated(e, 4, s.SparseTensors)
	writeRepeated(e, 5, s.Sequences)
	writeRepeated(e, 6, s.Maps)
	writeRepeated(e, 7, s.Optionals)
	e.unknown(&s.Extra)
}

// Map is MapProto: keys, and as many values in the same order.
type Map struct {
	Name       string
	KeyType    DataType
	Keys       []int64  // all integer key types
	StringKeys [][]byte // TypeString
	Values     *Sequence
	Extra
}

// ParseMap reads a MapProto. RawData of its tensors aliases data.
func ParseMap(data []byte) (*Map, error) {
	return parse[Map](data, "map")
}

func (m *Map) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			m.Name = d.str(&m.Extra)
		case 2:
			m.KeyType = DataType(d.int32(&m.Extra))
		case 3:
			m.Keys = varints(d, m.Keys)
		case 4:
			m.StringKeys = d.blobs(m.StringKeys)
		case 5:
			m.Values = optional(d, m.Values, "values")
		default:
			d.unknown(&m.Extra)
		}
	}
}

func (m *Map) encode(e *encoder) {
	e.str(1, m.Name, &m.Extra)
	e.int32(2, int32(m.KeyType), &m.Extra)
	writeVarints(e, 3, m.Keys)
	e.blobs(4, m.StringKeys)
	writeOptional(e, 5, m.Values)
	e.unknown(&m.Extra)
}

// Optional is OptionalProto: a value of the kind ElemType, or none when the field that belongs to it is nil.
type Optional struct {
	Name         string
	ElemType     ElemKind
	Tensor       *Tensor
	SparseTensor *SparseTensor
	Sequence     *Sequence
	Map          *Map
	Optional     *Optional
	Extra
}

// ParseOptional reads an OptionalProto. RawData of its tensors aliases data.
func ParseOptional(data []byte) (*Optional, error) {
	return parse[Optional](data, "optional")
}

func (o *Optional) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			o.Name = d.str(&o.Extra)
		case 2:
			o.ElemType = ElemKind(d.int32(&o.Extra))
		case 3:
			o.Tensor = optional(d, o.Tensor, "tensor_value")
		case 4:
			o.SparseTensor = optional(d, o.SparseTensor, "sparse_tensor_value")
		case 5:
			o.Sequence = optional(d, o.Sequence, "sequence_value")
		case 6:
			o.Map = optional(d, o.Map, "map_value")
		case 7:
			o.Optional = optional(d, o.Optional, "optional_value")
		default:
			d.unknown(&o.Extra)
		}
	}
}

func (o *Optional) encode(e *encoder) {
	e.str(1, o.Name, &o.Extra)
	e.int32(2, int32(o.ElemType), &o.Extra)
	writeOptional(e, 3, o.Tensor)
	writeOptional(e, 4, o.SparseTensor)
	writeOptional(e, 5, o.Sequence)
	writeOptional(e, 6, o.Map)
	writeOptional(e, 7, o.Optional)
	e.unknown(&o.Extra)
}
