package ssa

import (
	"math"
	"slices"
)

// AttrKind says which field of an [Attr] holds.
type AttrKind uint8

// The kinds of attributes. Graph attributes are [Node.Bodies]; their kind is for
// schemas.
const (
	AttrNone AttrKind = iota
	AttrInt
	AttrFloat
	AttrString
	AttrInts
	AttrFloats
	AttrStrings
	AttrTensor
	AttrTensors
	AttrType
	AttrGraph
	AttrOther // kept verbatim in Other (sparse tensors, type lists)
)

var attrKindNames = [...]string{"undefined", "int", "float", "string", "ints", "floats", "strings", "tensor", "tensors", "type_proto", "graph", "other"}

// String returns the name that ONNX has for the kind, in lower case.
func (k AttrKind) String() string { return attrKindNames[min(k, AttrOther)] }

// Attr is one attribute of a node.
type Attr struct {
	Name    string
	Kind    AttrKind
	I       int64
	F       float32
	S       string
	Ints    []int64
	Floats  []float32
	Strings []string
	Tensor  *Constant
	Tensors []*Constant
	Type    Type
	Other   any
}

// IntAttr makes an integer attribute.
func IntAttr(name string, v int64) Attr { return Attr{Name: name, Kind: AttrInt, I: v} }

// FloatAttr makes a float attribute.
func FloatAttr(name string, v float32) Attr { return Attr{Name: name, Kind: AttrFloat, F: v} }

// StringAttr makes a string attribute.
func StringAttr(name, v string) Attr { return Attr{Name: name, Kind: AttrString, S: v} }

// IntsAttr makes an integer list attribute.
func IntsAttr(name string, v ...int64) Attr {
	return Attr{Name: name, Kind: AttrInts, Ints: slices.Clone(v)}
}

// FloatsAttr makes a float list attribute.
func FloatsAttr(name string, v ...float32) Attr {
	return Attr{Name: name, Kind: AttrFloats, Floats: slices.Clone(v)}
}

// StringsAttr makes a string list attribute.
func StringsAttr(name string, v ...string) Attr {
	return Attr{Name: name, Kind: AttrStrings, Strings: slices.Clone(v)}
}

// TensorAttr makes a tensor attribute.
func TensorAttr(name string, c *Constant) Attr { return Attr{Name: name, Kind: AttrTensor, Tensor: c} }

// Attr returns the attribute with a name, nil if the node has none.
//
//go:noinline // hundreds of places would have the loop
func (n *Node) Attr(name string) *Attr {
	for i := range n.Attrs {
		if n.Attrs[i].Name == name {
			return &n.Attrs[i]
		}
	}
	return nil
}

// SetAttr adds or replaces an attribute.
func (n *Node) SetAttr(a Attr) {
	if old := n.Attr(a.Name); old != nil {
		*old = a
		return
	}
	n.Attrs = append(n.Attrs, a)
}

// DropAttr removes an attribute if it is there.
func (n *Node) DropAttr(name string) {
	n.Attrs = slices.DeleteFunc(n.Attrs, func(a Attr) bool { return a.Name == name })
}

// Has reports whether the node has the attribute.
func (n *Node) Has(name string) bool { return n.Attr(name) != nil }

// Equal compares two attributes by value: floats bit by bit, tensors by identity.
func (a Attr) Equal(b Attr) bool {
	return a.Name == b.Name && a.Kind == b.Kind && a.I == b.I && sameBits(a.F, b.F) && a.S == b.S &&
		slices.Equal(a.Ints, b.Ints) && slices.EqualFunc(a.Floats, b.Floats, sameBits) && slices.Equal(a.Strings, b.Strings) &&
		a.Tensor == b.Tensor && slices.Equal(a.Tensors, b.Tensors) && a.Type.Equal(b.Type) && a.Other == nil && b.Other == nil
}

func sameBits(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
