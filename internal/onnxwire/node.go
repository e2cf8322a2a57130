package onnxwire

// Node is NodeProto: one use of an operator or function.
type Node struct {
	Inputs        []string // value names; an empty one is an optional input left out
	Outputs       []string // value names; an empty one is an output that is not computed
	Name          string
	OpType        string
	Domain        string // empty, like "ai.onnx", for the standard operators
	Overload      string // which function, where several share domain and OpType
	Attributes    []*Attribute
	DocString     string
	MetadataProps []*StringEntry
	Extra
}

func (n *Node) fields(c codec) {
	c.strs(1, &n.Inputs)
	c.strs(2, &n.Outputs)
	c.str(3, &n.Name)
	c.str(4, &n.OpType)
	repeated(c, 5, &n.Attributes, "attribute")
	c.str(6, &n.DocString)
	c.str(7, &n.Domain)
	c.str(8, &n.Overload)
	repeated(c, 9, &n.MetadataProps, "metadata_props")
}
