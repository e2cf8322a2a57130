package onnxwire

import "context"

// Model is ModelProto, the content of a .onnx file.
type Model struct {
	IRVersion       int64 // version of the file format
	ProducerName    string
	ProducerVersion string
	Domain          string
	ModelVersion    int64
	DocString       string
	Graph           *Graph
	OpsetImports    []*OperatorSetID
	MetadataProps   []*StringEntry
	TrainingInfo    []*TrainingInfo
	Functions       []*Function
	Extra
}

// Parse reads a model. Tensor.RawData and Extra.Unknown alias data, which must not change while the model is in use. The errors are
// *SyntaxError and, where there is no graph, *ModelError.
func Parse(data []byte) (*Model, error) { return ParseContext(context.Background(), data) }

// ParseContext is [Parse]; it ends with the error of the context if that ends before.
func ParseContext(ctx context.Context, data []byte) (*Model, error) {
	m := new(Model)
	if err := decodeRoot(ctx, data, "model", m); err != nil {
		return nil, err
	}
	if m.Graph == nil {
		return nil, &ModelError{Reason: "the file is protobuf but holds no ONNX graph: it is no ONNX model, or was cut off early"}
	}
	return m, nil
}

func (m *Model) fields(c codec) {
	integer(c, 1, &m.IRVersion)
	c.str(2, &m.ProducerName)
	c.str(3, &m.ProducerVersion)
	c.str(4, &m.Domain)
	integer(c, 5, &m.ModelVersion)
	c.str(6, &m.DocString)
	optional(c, 7, &m.Graph, "graph")
	repeated(c, 8, &m.OpsetImports, "opset_import")
	repeated(c, 14, &m.MetadataProps, "metadata_props")
	repeated(c, 20, &m.TrainingInfo, "training_info")
	repeated(c, 25, &m.Functions, "functions")
}

// OperatorSetID is OperatorSetIdProto: a domain of operators and the version of it in use.
type OperatorSetID struct {
	Domain  string // empty, like "ai.onnx", for the standard operators
	Version int64
	Extra
}

func (o *OperatorSetID) fields(c codec) {
	c.str(1, &o.Domain)
	integer(c, 2, &o.Version)
}

// StringEntry is StringStringEntryProto: one entry of a map from strings to strings.
type StringEntry struct {
	Key   string
	Value string
	Extra
}

func (s *StringEntry) fields(c codec) {
	c.str(1, &s.Key)
	c.str(2, &s.Value)
}

// TrainingInfo is TrainingInfoProto: how to initialize the model and how to take one training step.
type TrainingInfo struct {
	Initialization         *Graph
	Algorithm              *Graph
	InitializationBindings []*StringEntry // initializer name → output of Initialization that sets it
	UpdateBindings         []*StringEntry // initializer name → output of Algorithm that updates it
	Extra
}

func (t *TrainingInfo) fields(c codec) {
	optional(c, 1, &t.Initialization, "initialization")
	optional(c, 2, &t.Algorithm, "algorithm")
	repeated(c, 3, &t.InitializationBindings, "initialization_binding")
	repeated(c, 4, &t.UpdateBindings, "update_binding")
}

// Function is FunctionProto: an operator defined by a graph of other operators.
type Function struct {
	Name            string
	Inputs          []string
	Outputs         []string
	Attributes      []string     // names of attributes without a default
	AttributeProtos []*Attribute // attributes with their defaults
	Nodes           []*Node
	DocString       string
	OpsetImports    []*OperatorSetID
	Domain          string
	Overload        string // tells functions of one domain and name apart
	ValueInfo       []*ValueInfo
	MetadataProps   []*StringEntry
	Extra
}

func (f *Function) fields(c codec) {
	c.str(1, &f.Name)
	c.strs(4, &f.Inputs)
	c.strs(5, &f.Outputs)
	c.strs(6, &f.Attributes)
	repeated(c, 7, &f.Nodes, "node")
	c.str(8, &f.DocString)
	repeated(c, 9, &f.OpsetImports, "opset_import")
	c.str(10, &f.Domain)
	repeated(c, 11, &f.AttributeProtos, "attribute_proto")
	repeated(c, 12, &f.ValueInfo, "value_info")
	c.str(13, &f.Overload)
	repeated(c, 14, &f.MetadataProps, "metadata_props")
}
