package ssa

import "slices"

// AttrKind says which field of an [Attr] holds.
type AttrKind uint8

// The kinds of attributes. Graph attributes are [Node.Bodies].
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
	AttrOther // kept verbatim in Other (sparse tensors, type lists)
)

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

// Int returns an integer attribute or its default.
func (n *Node) Int(name string, def int64) int64 {
	if a := n.Attr(name); a != nil && a.Kind == AttrInt {
		return a.I
	}
	return def
}

// Float returns a float attribute or its default.
func (n *Node) Float(name string, def float32) float32 {
	if a := n.Attr(name); a != nil && a.Kind == AttrFloat {
		return a.F
	}
	return def
}

// Str returns a string attribute or its default.
func (n *Node) Str(name, def string) string {
	if a := n.Attr(name); a != nil && a.Kind == AttrString {
		return a.S
	}
	return def
}

// Ints returns an integer list attribute, nil if absent.
func (n *Node) Ints(name string) []int64 {
	if a := n.Attr(name); a != nil {
		return a.Ints
	}
	return nil
}

// Floats returns a float list attribute, nil if absent.
func (n *Node) Floats(name string) []float32 {
	if a := n.Attr(name); a != nil {
		return a.Floats
	}
	return nil
}

// Strings returns a string list attribute, nil if absent.
func (n *Node) Strings(name string) []string {
	if a := n.Attr(name); a != nil {
		return a.Strings
	}
	return nil
}

// Equal compares two attributes by value (tensors by identity).
func (a Attr) Equal(b Attr) bool {
	return a.Name == b.Name && a.Kind == b.Kind && a.I == b.I && (a.F == b.F || a.F != a.F && b.F != b.F) && a.S == b.S &&
		slices.Equal(a.Ints, b.Ints) && slices.Equal(a.Floats, b.Floats) && slices.Equal(a.Strings, b.Strings) &&
		a.Tensor == b.Tensor && slices.Equal(a.Tensors, b.Tensors) && a.Type.Equal(b.Type) && a.Other == nil && b.Other == nil
}
