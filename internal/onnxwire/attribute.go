package onnxwire

import (
	"fmt"
	"math"
)

// AttributeType is AttributeProto.AttributeType: which value field of an Attribute is in use.
type AttributeType int32

// The attribute types.
const (
	AttrUndefined     AttributeType = 0 // files older than IR version 2 do not say; see Attribute.Kind
	AttrFloat         AttributeType = 1
	AttrInt           AttributeType = 2
	AttrString        AttributeType = 3
	AttrTensor        AttributeType = 4
	AttrGraph         AttributeType = 5
	AttrFloats        AttributeType = 6
	AttrInts          AttributeType = 7
	AttrStrings       AttributeType = 8
	AttrTensors       AttributeType = 9
	AttrGraphs        AttributeType = 10
	AttrSparseTensor  AttributeType = 11
	AttrSparseTensors AttributeType = 12
	AttrTypeProto     AttributeType = 13
	AttrTypeProtos    AttributeType = 14
)

var attributeTypeNames = [...]string{
	"UNDEFINED", "FLOAT", "INT", "STRING", "TENSOR", "GRAPH", "FLOATS", "INTS", "STRINGS", "TENSORS", "GRAPHS",
	"SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS",
}

// String returns the name onnx.proto gives to t.
func (t AttributeType) String() string {
	if t >= 0 && int(t) < len(attributeTypeNames) {
		return attributeTypeNames[t]
	}
	return fmt.Sprintf("AttributeType(%d)", int32(t))
}

// Attribute is AttributeProto: a named constant given to a node, or, with RefAttrName, taken from the function around it.
//
// The field that Type names is always written, zero or not: readers tell a missing zero from a written one.
type Attribute struct {
	Name          string
	RefAttrName   string // attribute of the enclosing function that gives the value; Type says of which type it is
	DocString     string
	Type          AttributeType
	F             float32
	I             int64
	S             []byte // nil when absent
	T             *Tensor
	G             *Graph
	SparseTensor  *SparseTensor
	TP            *Type
	Floats        []float32
	Ints          []int64
	Strings       [][]byte
	Tensors       []*Tensor
	Graphs        []*Graph
	SparseTensors []*SparseTensor
	TypeProtos    []*Type
	Extra
}

// Kind returns Type, or, in old files where it is undefined, the type of the value field that is there. A list without
// elements leaves no trace in a file, so AttrUndefined is left for an attribute of an old file with no value at all.
func (a *Attribute) Kind() AttributeType {
	if a.Type != AttrUndefined {
		return a.Type
	}
	switch {
	case a.Floats != nil:
		return AttrFloats
	case a.Ints != nil:
		return AttrInts
	case a.Strings != nil:
		return AttrStrings
	case a.T != nil:
		return AttrTensor
	case a.G != nil:
		return AttrGraph
	case a.S != nil:
		return AttrString
	case a.F != 0 || a.Explicit.Has(attrFieldF):
		return AttrFloat
	case a.I != 0 || a.Explicit.Has(attrFieldI):
		return AttrInt
	default:
		return a.rareKind()
	}
}

func (a *Attribute) rareKind() AttributeType {
	switch {
	case a.Tensors != nil:
		return AttrTensors
	case a.Graphs != nil:
		return AttrGraphs
	case a.SparseTensor != nil:
		return AttrSparseTensor
	case a.SparseTensors != nil:
		return AttrSparseTensors
	case a.TP != nil:
		return AttrTypeProto
	case a.TypeProtos != nil:
		return AttrTypeProtos
	default:
		return AttrUndefined
	}
}

const (
	attrFieldF = 2
	attrFieldI = 3
)

func (a *Attribute) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			a.Name = d.str(&a.Extra)
		case attrFieldF:
			a.F = d.float32(&a.Extra)
		case attrFieldI:
			a.I = d.int64(&a.Extra)
		case 4:
			a.S = d.bytes()
		case 7:
			a.Floats = d.floats(a.Floats)
		case 8:
			a.Ints = varints(d, a.Ints)
		case 9:
			a.Strings = d.blobs(a.Strings)
		case 13:
			a.DocString = d.str(&a.Extra)
		case 20:
			a.Type = AttributeType(d.int32(&a.Extra))
		case 21:
			a.RefAttrName = d.str(&a.Extra)
		default:
			a.decodeMessage(d)
		}
	}
	a.settle()
}

// decodeMessage reads the fields that are messages.
func (a *Attribute) decodeMessage(d *decoder) {
	switch d.num {
	case 5:
		a.T = optional(d, a.T, "t")
	case 6:
		a.G = optional(d, a.G, "g")
	case 10:
		a.Tensors = repeated(d, a.Tensors, "tensors")
	case 11:
		a.Graphs = repeated(d, a.Graphs, "graphs")
	case 14:
		a.TP = optional(d, a.TP, "tp")
	case 15:
		a.TypeProtos = repeated(d, a.TypeProtos, "type_protos")
	case 22:
		a.SparseTensor = optional(d, a.SparseTensor, "sparse_tensor")
	case 23:
		a.SparseTensors = repeated(d, a.SparseTensors, "sparse_tensors")
	default:
		d.unknown(&a.Extra)
	}
}

// settle makes an attribute read from a file equal to one built by hand: where Type names the field, the field's presence
// says nothing more. A reference has a type and no value.
func (a *Attribute) settle() {
	if a.RefAttrName != "" {
		return
	}
	switch a.Type {
	case AttrFloat:
		a.note(attrFieldF, false)
	case AttrInt:
		a.note(attrFieldI, false)
	case AttrString:
		if a.S == nil {
			a.S = []byte{}
		}
	}
}

func (a *Attribute) encode(e *encoder) {
	typ := a.Type
	if a.RefAttrName != "" {
		typ = AttrUndefined
	}
	e.str(1, a.Name, &a.Extra)
	if typ == AttrFloat {
		e.fixed32(attrFieldF, math.Float32bits(a.F))
	} else {
		e.float32(attrFieldF, a.F, &a.Extra)
	}
	if typ == AttrInt {
		e.varint(attrFieldI, uint64(a.I))
	} else {
		e.int64(attrFieldI, a.I, &a.Extra)
	}
	if typ == AttrString || a.S != nil {
		e.bytes(4, a.S)
	}
	writeOptional(e, 5, a.T)
	writeOptional(e, 6, a.G)
	e.floats(7, a.Floats)
	writeVarints(e, 8, a.Ints)
	e.blobs(9, a.Strings)
	writeRepeated(e, 10, a.Tensors)
	writeRepeated(e, 11, a.Graphs)
	e.str(13, a.DocString, &a.Extra)
	writeOptional(e, 14, a.TP)
	writeRepeated(e, 15, a.TypeProtos)
	e.int32(20, int32(a.Type), &a.Extra)
	e.str(21, a.RefAttrName, &a.Extra)
	writeOptional(e, 22, a.SparseTensor)
	writeRepeated(e, 23, a.SparseTensors)
	e.unknown(&a.Extra)
}
