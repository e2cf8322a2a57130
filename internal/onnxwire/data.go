package onnxwire

import "context"

// The messages of onnx-data.proto: values that are not tensors, as test data sets hold them.

// ParseValue reads a value of the given kind, such as an input_0.pb of a test data set: a *Sequence, *Map, *Optional or
// *SparseTensor, else a *Tensor. A message does not say of which kind it is. RawData aliases data. The context can end the reading,
// and carries the budget for what is copied.
func ParseValue(ctx context.Context, data []byte, kind ElemKind) (Message, error) {
	switch kind {
	case ElemSequence:
		return orNil(parseContext[Sequence](ctx, data, "sequence"))
	case ElemMap:
		return orNil(parseContext[Map](ctx, data, "map"))
	case ElemOptional:
		return orNil(parseContext[Optional](ctx, data, "optional"))
	case ElemSparseTensor:
		return orNil(parseContext[SparseTensor](ctx, data, "sparse_tensor"))
	}
	return orNil(parseContext[Tensor](ctx, data, "tensor"))
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

var elemKindNames = []string{"UNDEFINED", "TENSOR", "SPARSE_TENSOR", "SEQUENCE", "MAP", "OPTIONAL"}

// String returns the name onnx-data.proto gives to k.
func (k ElemKind) String() string {
	return enumName(k, elemKindNames, "ElemKind")
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

func (s *Sequence) fields(c codec) {
	c.str(1, &s.Name)
	integer(c, 2, &s.ElemType)
	repeated(c, 3, &s.Tensors, "tensor_values")
	repeated(c, 4, &s.SparseTensors, "sparse_tensor_values")
	repeated(c, 5, &s.Sequences, "sequence_values")
	repeated(c, 6, &s.Maps, "map_values")
	repeated(c, 7, &s.Optionals, "optional_values")
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

func (m *Map) fields(c codec) {
	c.str(1, &m.Name)
	integer(c, 2, &m.KeyType)
	varints(c, 3, &m.Keys)
	c.blobs(4, &m.StringKeys)
	optional(c, 5, &m.Values, "values")
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

func (o *Optional) fields(c codec) {
	c.str(1, &o.Name)
	integer(c, 2, &o.ElemType)
	optional(c, 3, &o.Tensor, "tensor_value")
	optional(c, 4, &o.SparseTensor, "sparse_tensor_value")
	optional(c, 5, &o.Sequence, "sequence_value")
	optional(c, 6, &o.Map, "map_value")
	optional(c, 7, &o.Optional, "optional_value")
}
