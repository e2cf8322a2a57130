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

func (g *Graph) fields(c codec) {
	repeated(c, 1, &g.Nodes, "node")
	c.str(2, &g.Name)
	repeated(c, 5, &g.Initializers, "initializer")
	c.str(10, &g.DocString)
	repeated(c, 11, &g.Inputs, "input")
	repeated(c, 12, &g.Outputs, "output")
	repeated(c, 13, &g.ValueInfo, "value_info")
	repeated(c, 14, &g.QuantizationAnnotations, "quantization_annotation")
	repeated(c, 15, &g.SparseInitializers, "sparse_initializer")
	repeated(c, 16, &g.MetadataProps, "metadata_props")
}

// InitializerNames returns the names of all initializers, sparse ones included.
func (g *Graph) InitializerNames() map[string]bool {
	names := make(map[string]bool, len(g.Initializers))
	for _, t := range g.Initializers {
		names[t.Name] = true
	}
	for _, t := range g.SparseInitializers {
		if t.Values != nil {
			names[t.Values.Name] = true
		}
	}
	return names
}

// ValueInfo is ValueInfoProto: the name of a value and its type.
type ValueInfo struct {
	Name          string
	Type          *Type // nil where nothing is said
	DocString     string
	MetadataProps []*StringEntry
	Extra
}

func (v *ValueInfo) fields(c codec) {
	c.str(1, &v.Name)
	optional(c, 2, &v.Type, "type")
	c.str(3, &v.DocString)
	repeated(c, 4, &v.MetadataProps, "metadata_props")
}

// TensorAnnotation is TensorAnnotation: which tensors hold the quantization parameters of a value.
type TensorAnnotation struct {
	TensorName                string
	QuantParameterTensorNames []*StringEntry // such as "SCALE_TENSOR" → name of an initializer
	Extra
}

func (t *TensorAnnotation) fields(c codec) {
	c.str(1, &t.TensorName)
	repeated(c, 2, &t.QuantParameterTensorNames, "quant_parameter_tensor_names")
}
