package onnxwire

import "slices"

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

var attributeTypeNames = []string{
	"UNDEFINED", "FLOAT", "INT", "STRING", "TENSOR", "GRAPH", "FLOATS", "INTS", "STRINGS", "TENSORS", "GRAPHS",
	"SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS",
}

// String returns the name onnx.proto gives to t.
func (t AttributeType) String() string {
	return enumName(t, attributeTypeNames, "AttributeType")
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
	for _, v := range [...]struct {
		kind  AttributeType
		there bool
	}{
		{AttrFloats, a.Floats != nil}, {AttrInts, a.Ints != nil}, {AttrStrings, a.Strings != nil},
		{AttrTensor, a.T != nil}, {AttrGraph, a.G != nil}, {AttrString, a.S != nil},
		{AttrFloat, a.F != 0 || a.Explicit.Has(attrFieldF)}, {AttrInt, a.I != 0 || a.Explicit.Has(attrFieldI)},
		{AttrTensors, a.Tensors != nil}, {AttrGraphs, a.Graphs != nil},
		{AttrSparseTensor, a.SparseTensor != nil}, {AttrSparseTensors, a.SparseTensors != nil},
		{AttrTypeProto, a.TP != nil}, {AttrTypeProtos, a.TypeProtos != nil},
	} {
		if v.there {
			return v.kind
		}
	}
	return AttrUndefined
}

// HasExternal reports whether elements of the attribute's tensors lie in another file.
func (a *Attribute) HasExternal() bool {
	external := func(t *Tensor) bool { return t.DataLocation == DataExternal }
	return a.T != nil && external(a.T) || slices.ContainsFunc(a.Tensors, external)
}

const (
	attrFieldF = 2
	attrFieldI = 3
)

// finish makes an attribute read from a file equal to one built by hand: where Type names the field, the field's presence
// says nothing more. A reference has a type and no value.
func (a *Attribute) finish() {
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

// written returns c for the value field of type t, which is written even if zero where Type names it.
func (a *Attribute) written(c codec, t AttributeType) codec {
	c.always = a.Type == t && a.RefAttrName == ""
	return c
}

func (a *Attribute) fields(c codec) {
	c.str(1, &a.Name)
	a.written(c, AttrFloat).float32(attrFieldF, &a.F)
	integer(a.written(c, AttrInt), attrFieldI, &a.I)
	a.written(c, AttrString).bytes(4, &a.S, c.d.bytes)
	optional(c, 5, &a.T, "t")
	optional(c, 6, &a.G, "g")
	c.floats(7, &a.Floats)
	varints(c, 8, &a.Ints)
	c.blobs(9, &a.Strings)
	repeated(c, 10, &a.Tensors, "tensors")
	repeated(c, 11, &a.Graphs, "graphs")
	c.str(13, &a.DocString)
	optional(c, 14, &a.TP, "tp")
	repeated(c, 15, &a.TypeProtos, "type_protos")
	integer(c, 20, &a.Type)
	c.str(21, &a.RefAttrName)
	optional(c, 22, &a.SparseTensor, "sparse_tensor")
	repeated(c, 23, &a.SparseTensors, "sparse_tensors")
}
