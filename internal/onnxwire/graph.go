package onnxwire

// Graph is GraphProto: nodes in topological order, with the values they start from and end in.
type Graph struct {
	Name                    string
	DocString               string
	Nodes                   []*Node
	Initializers            []*Tensor
	SparseInitializers      []*SparseTensor
	Inputs                  []*ValueInfo
	Outputs                 []*ValueInfo
	ValueInfo               []*ValueInfo // types of values in between, as far as the producer knew them
	QuantizationAnnotations []*TensorAnnotation
	MetadataProps           []*StringEntry
	Extra
}

func (g *Graph) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			g.Nodes = repeated(d, g.Nodes, "node")
		case 2:
			g.Name = d.str(&g.Extra)
		case 5:
			g.Initializers = repeated(d, g.Initializers, "initializer")
		case 10:
			g.DocString = d.str(&g.Extra)
		case 11:
			g.Inputs = repeated(d, g.Inputs, "input")
		case 12:
			g.Outputs = repeated(d, g.Outputs, "output")
		case 13:
			g.ValueInfo = repeated(d, g.ValueInfo, "value_info")
		case 14:
			g.QuantizationAnnotations = repeated(d, g.QuantizationAnnotations, "quantization_annotation")
		case 15:
			g.SparseInitializers = repeated(d, g.SparseInitializers, "sparse_initializer")
		case 16:
			g.MetadataProps = repeated(d, g.MetadataProps, "metadata_props")
		default:
			d.unknown(&g.Extra)
		}
	}
}

func (g *Graph) encode(e *encoder) {
	writeRepeated(e, 1, g.Nodes)
	e.str(2, g.Name, &g.Extra)
	writeRepeated(e, 5, g.Initializers)
	e.str(10, g.DocString, &g.Extra)
	writeRepeated(e, 11, g.Inputs)
	writeRepeated(e, 12, g.Outputs)
	writeRepeated(e, 13, g.ValueInfo)
	writeRepeated(e, 14, g.QuantizationAnnotations)
	writeRepeated(e, 15, g.SparseInitializers)
	writeRepeated(e, 16, g.MetadataProps)
	e.unknown(&g.Extra)
}

// ValueInfo is ValueInfoProto: the name of a value and its type.
type ValueInfo struct {
	Name          string
	Type          *Type // nil where nothing is said
	DocString     string
	MetadataProps []*StringEntry
	Extra
}

func (v *ValueInfo) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			v.Name = d.str(&v.Extra)
		case 2:
			v.Type = optional(d, v.Type, "type")
		case 3:
			v.DocString = d.str(&v.Extra)
		case 4:
			v.MetadataProps = repeated(d, v.MetadataProps, "metadata_props")
		default:
			d.unknown(&v.Extra)
		}
	}
}

func (v *ValueInfo) encode(e *encoder) {
	e.str(1, v.Name, &v.Extra)
	writeOptional(e, 2, v.Type)
	e.str(3, v.DocString, &v.Extra)
	writeRepeated(e, 4, v.MetadataProps)
	e.unknown(&v.Extra)
}

// TensorAnnotation is TensorAnnotation: which tensors hold the quantization parameters of a value.
type TensorAnnotation struct {
	TensorName                string
	QuantParameterTensorNames []*StringEntry // such as "SCALE_TENSOR" → name of an initializer
	Extra
}

func (t *TensorAnnotation) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			t.TensorName = d.str(&t.Extra)
		case 2:
			t.QuantParameterTensorNames = repeated(d, t.QuantParameterTensorNames, "quant_parameter_tensor_names")
		default:
			d.unknown(&t.Extra)
		}
	}
}

func (t *TensorAnnotation) encode(e *encoder) {
	e.str(1, t.TensorName, &t.Extra)
	writeRepeated(e, 2, t.QuantParameterTensorNames)
	e.unknown(&t.Extra)
}
