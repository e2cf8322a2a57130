package onnxwire

// Type is TypeProto: the type of a value. At most one of the pointers is set.
type Type struct {
	Tensor       *TensorType
	Sequence     *SequenceType
	Map          *MapType
	Optional     *OptionalType
	SparseTensor *TensorType
	Denotation   string // what the value stands for, such as "IMAGE"
	Extra
}

func (t *Type) fields(c codec) {
	alternative(c, 1, t, &t.Tensor, "tensor_type")
	alternative(c, 4, t, &t.Sequence, "sequence_type")
	alternative(c, 5, t, &t.Map, "map_type")
	c.str(6, &t.Denotation)
	alternative(c, 8, t, &t.SparseTensor, "sparse_tensor_type")
	alternative(c, 9, t, &t.Optional, "optional_type")
}

// TensorType is TypeProto.Tensor and TypeProto.SparseTensor, which have the same fields.
type TensorType struct {
	ElemType DataType
	Shape    *Shape // nil: of unknown rank; no dimensions: a scalar
	Extra
}

func (t *TensorType) fields(c codec) {
	integer(c, 1, &t.ElemType)
	optional(c, 2, &t.Shape, "shape")
}

// SequenceType is TypeProto.Sequence.
type SequenceType struct {
	ElemType *Type
	Extra
}

func (t *SequenceType) fields(c codec) {
	optional(c, 1, &t.ElemType, "elem_type")
}

// OptionalType is TypeProto.Optional.
type OptionalType struct {
	ElemType *Type
	Extra
}

func (t *OptionalType) fields(c codec) {
	optional(c, 1, &t.ElemType, "elem_type")
}

// MapType is TypeProto.Map.
type MapType struct {
	KeyType   DataType // an integer type or TypeString
	ValueType *Type
	Extra
}

func (t *MapType) fields(c codec) {
	integer(c, 1, &t.KeyType)
	optional(c, 2, &t.ValueType, "value_type")
}

// Shape is TensorShapeProto: the lengths of a tensor's axes, outermost first.
type Shape struct {
	Dims []*Dim
	Extra
}

func (s *Shape) fields(c codec) {
	repeated(c, 1, &s.Dims, "dim")
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

func (m *Dim) fields(c codec) {
	if c.reads(1) {
		m.Kind, m.Value, m.Param = DimValue, int64(c.d.varint()), ""
		c.d.next()
	}
	if c.reads(2) {
		m.Kind, m.Value, m.Param = DimParam, 0, c.d.text()
		c.d.next()
	}
	switch {
	case c.e == nil:
	case m.Kind == DimValue:
		c.e.varint(1, uint64(m.Value))
	case m.Kind == DimParam:
		c.e.text(2, m.Param)
	}
	c.str(3, &m.Denotation)
}
