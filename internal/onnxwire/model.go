package onnxwire

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
	Configurations  []*DeviceConfiguration
	Extra
}

// Validate reports, as *ModelError, what keeps m from being a model at all: it has no graph.
func (m *Model) Validate() error {
	if m == nil || m.Graph == nil {
		return &ModelError{Reason: "the file is protobuf but holds no ONNX graph: it is no ONNX model, or was cut off early"}
	}
	return nil
}

// Parse reads a model. Tensor.RawData aliases data, which must not change while the model is in use. The errors are
// *SyntaxError and *ModelError.
func Parse(data []byte) (*Model, error) {
	m := new(Model)
	if err := decodeRoot(data, "model", m); err != nil {
		return nil, err
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Model) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			m.IRVersion = d.int64(&m.Extra)
		case 2:
			m.ProducerName = d.str(&m.Extra)
		case 3:
			m.ProducerVersion = d.str(&m.Extra)
		case 4:
			m.Domain = d.str(&m.Extra)
		case 5:
			m.ModelVersion = d.int64(&m.Extra)
		case 6:
			m.DocString = d.str(&m.Extra)
		case 7:
			m.Graph = optional(d, m.Graph, "graph")
		case 8:
			m.OpsetImports = repeated(d, m.OpsetImports, "opset_import")
		case 14:
			m.MetadataProps = repeated(d, m.MetadataProps, "metadata_props")
		case 20:
			m.TrainingInfo = repeated(d, m.TrainingInfo, "training_info")
		case 25:
			m.Functions = repeated(d, m.Functions, "functions")
		case 26:
			m.Configurations = repeated(d, m.Configurations, "configuration")
		default:
			d.unknown(&m.Extra)
		}
	}
}

func (m *Model) encode(e *encoder) {
	e.int64(1, m.IRVersion, &m.Extra)
	e.str(2, m.ProducerName, &m.Extra)
	e.str(3, m.ProducerVersion, &m.Extra)
	e.str(4, m.Domain, &m.Extra)
	e.int64(5, m.ModelVersion, &m.Extra)
	e.str(6, m.DocString, &m.Extra)
	writeOptional(e, 7, m.Graph)
	writeRepeated(e, 8, m.OpsetImports)
	writeRepeated(e, 14, m.MetadataProps)
	writeRepeated(e, 20, m.TrainingInfo)
	writeRepeated(e, 25, m.Functions)
	writeRepeated(e, 26, m.Configurations)
	e.unknown(&m.Extra)
}

// OperatorSetID is OperatorSetIdProto: a domain of operators and the version of it in use.
type OperatorSetID struct {
	Domain  string // empty, like "ai.onnx", for the standard operators
	Version int64
	Extra
}

func (o *OperatorSetID) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			o.Domain = d.str(&o.Extra)
		case 2:
			o.Version = d.int64(&o.Extra)
		default:
			d.unknown(&o.Extra)
		}
	}
}

func (o *OperatorSetID) encode(e *encoder) {
	e.str(1, o.Domain, &o.Extra)
	e.int64(2, o.Version, &o.Extra)
	e.unknown(&o.Extra)
}

// StringEntry is StringStringEntryProto: one entry of a map from strings to strings.
type StringEntry struct {
	Key   string
	Value string
	Extra
}

func (s *StringEntry) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			s.Key = d.str(&s.Extra)
		case 2:
			s.Value = d.str(&s.Extra)
		default:
			d.unknown(&s.Extra)
		}
	}
}

func (s *StringEntry) encode(e *encoder) {
	e.str(1, s.Key, &s.Extra)
	e.str(2, s.Value, &s.Extra)
	e.unknown(&s.Extra)
}

// TrainingInfo is TrainingInfoProto: how to initialize the model and how to take one training step.
type TrainingInfo struct {
	Initialization         *Graph
	Algorithm              *Graph
	InitializationBindings []*StringEntry // initializer name → output of Initialization that sets it
	UpdateBindings         []*StringEntry // initializer name → output of Algorithm that updates it
	Extra
}

func (t *TrainingInfo) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			t.Initialization = optional(d, t.Initialization, "initialization")
		case 2:
			t.Algorithm = optional(d, t.Algorithm, "algorithm")
		case 3:
			t.InitializationBindings = repeated(d, t.InitializationBindings, "initialization_binding")
		case 4:
			t.UpdateBindings = repeated(d, t.UpdateBindings, "update_binding")
		default:
			d.unknown(&t.Extra)
		}
	}
}

func (t *TrainingInfo) encode(e *encoder) {
	writeOptional(e, 1, t.Initialization)
	writeOptional(e, 2, t.Algorithm)
	writeRepeated(e, 3, t.InitializationBindings)
	writeRepeated(e, 4, t.UpdateBindings)
	e.unknown(&t.Extra)
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

func (f *Function) decode(d *decoder) {
	for d.next() {
		switch d.num {
		case 1:
			f.Name = d.str(&f.Extra)
		case 4:
			f.Inputs = d.strs(f.Inputs)
		case 5:
			f.Outputs = d.strs(f.Outputs)
		case 6:
			f.Attributes = d.strs(f.Attributes)
		case 7:
			f.Nodes = repeated(d, f.Nodes, "node")
		case 8:
			f.DocString = d.str(&f.Extra)
		case 9:
			f.OpsetImports = repeated(d, f.OpsetImports, "opset_import")
		case 10:
			f.Domain = d.str(&f.Extra)
		case 11:
			f.AttributeProtos = repeated(d, f.AttributeProtos, "attribute_proto")
		case 12:
			f.ValueInfo = repeated(d, f.ValueInfo, "value_info")
		case 13:
			f.Overload = d.str(&f.Extra)
		case 14:
			f.MetadataProps = repeated(d, f.MetadataProps, "metadata_props")
		default:
			d.unknown(&f.Extra)
		}
	}
}

func (f *Function) encode(e *encoder) {
	e.str(1, f.Name, &f.Extra)
	e.strs(4, f.Inputs)
	e.strs(5, f.Outputs)
	e.strs(6, f.Attributes)
	writeRepeated(e, 7, f.Nodes)
	e.str(8, f.DocString, &f.Extra)
	writeRepeated(e, 9, f.OpsetImports)
	e.str(10, f.Domain, &f.Extra)
	writeRepeated(e, 11, f.AttributeProtos)
	writeRepeated(e, 12, f.ValueInfo)
	e.str(13, f.Overload, &f.Extra)
	writeRepeated(e, 14, f.MetadataProps)
	e.unknown(&f.Extra)
}
