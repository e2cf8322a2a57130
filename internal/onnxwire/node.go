package onnxwire

// Node is NodeProto: one use of an operator or function.
type Node struct {
	Inputs               []string // value names; an empty one is an optional input left out
	Outputs              []string // value names; an empty one is an output nobody wants
	Name                 string
	OpType               string
	Domain               string // empty, like "ai.onnx", for the standard operators
	Overload             string // which function, where several share domain and OpType
	Attributes           []*Attribute
	DocString            string
	MetadataProps        []*StringEntry
	DeviceConfigurations []*NodeDeviceConfiguration
	Extra
}

func (n *Node) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			n.Inputs = d.strs(n.Inputs)
		case 2:
			n.Outputs = d.strs(n.Outputs)
		case 3:
			n.Name = d.str(&n.Extra)
		case 4:
			n.OpType = d.str(&n.Extra)
		case 5:
			n.Attributes = repeated(d, n.Attributes, "attribute")
		case 6:
			n.DocString = d.str(&n.Extra)
		case 7:
			n.Domain = d.str(&n.Extra)
		case 8:
			n.Overload = d.str(&n.Extra)
		case 9:
			n.MetadataProps = repeated(d, n.MetadataProps, "metadata_props")
		case 10:
			n.DeviceConfigurations = repeated(d, n.DeviceConfigurations, "device_configurations")
		default:
			d.unknown(&n.Extra)
		}
	}
}

func (n *Node) encode(e *encoder) {
	e.strs(1, n.Inputs)
	e.strs(2, n.Outputs)
	e.str(3, n.Name, &n.Extra)
	e.str(4, n.OpType, &n.Extra)
	writeRepeated(e, 5, n.Attributes)
	e.str(6, n.DocString, &n.Extra)
	e.str(7, n.Domain, &n.Extra)
	e.str(8, n.Overload, &n.Extra)
	writeRepeated(e, 9, n.MetadataProps)
	writeRepeated(e, 10, n.DeviceConfigurations)
	e.unknown(&n.Extra)
}
