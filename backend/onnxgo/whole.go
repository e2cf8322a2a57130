package onnxgo

import (
	"github.com/owulveryck/onnx-go"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// whole is a model that the graph has read itself.
type whole struct {
	model   *berth.Model
	decoded bool            // onnx-go knows inputs and outputs
	inputs  map[string]bool // true for those with a default
}

// has reports that the model has an input.
func (w *whole) has(input string) bool {
	_, ok := w.inputs[input]
	return ok
}

// Parse decodes a serialized model into an onnx.Model over this graph, in place of its UnmarshalBinary: the graph reads the
// model itself, and onnx-go learns the names of inputs and outputs. The bytes must not change while the graph is in use.
// Inputs with a default value do not count for SetInput; their nodes, by name, take other values. Errors are those of
// [berth.Parse], or a [*GraphError].
func (g *Graph) Parse(m *onnx.Model, data []byte) error {
	return g.decode(m, func(opts ...berth.Option) (*berth.Model, error) { return berth.Parse(data, opts...) })
}

// Open is Parse for a file and its external data. Weights stay in the mapped file until they are used: [Graph.Close] lets go
// of it. Errors are those of [berth.Open], or a [*GraphError].
func (g *Graph) Open(m *onnx.Model, path string) error {
	return g.decode(m, func(opts ...berth.Option) (*berth.Model, error) { return berth.Open(path, opts...) })
}

func (g *Graph) decode(m *onnx.Model, open func(...berth.Option) (*berth.Model, error)) (err error) {
	defer rescue.Into(&err)
	switch {
	case g == nil:
		return errUnmade
	case m == nil:
		return &GraphError{Reason: "the onnx.Model is nil; onnx.NewModel(backend) makes one"}
	}
	if err := g.begin(open); err != nil {
		return err
	}
	stub, err := g.whole.stub()
	if err == nil {
		err = m.UnmarshalBinary(stub)
	}
	return g.end(err)
}

// begin reads the model.
func (g *Graph) begin(open func(...berth.Option) (*berth.Model, error)) error {
	defer g.lock()()
	if len(g.nodes) > 0 || g.whole != nil {
		return &GraphError{Reason: "the graph has a model already; NewGraph makes one for another model"}
	}
	model, err := open(g.opts...)
	if err != nil {
		return err
	}
	g.whole = &whole{model: model, inputs: map[string]bool{}}
	for _, in := range model.Inputs() {
		g.whole.inputs[in.Name] = in.Optional
	}
	return nil
}

// end checks that onnx-go has decoded into this graph, and declares inputs and outputs.
func (g *Graph) end(err error) error {
	defer g.lock()()
	if err == nil {
		err = g.err
	}
	if err == nil && len(g.made) != 1 {
		err = &GraphError{Reason: "the onnx.Model belongs to another backend; onnx.NewModel(backend) makes one for this"}
	}
	if err != nil {
		g.whole.model.Close()
		g.whole = nil
		return err
	}
	g.whole.decoded = true
	ports := map[string]*outline{}
	for _, p := range append(g.whole.model.Inputs(), g.whole.model.Outputs()...) {
		ports[p.Name] = outlineOf(p.Type)
	}
	for n := range g.added() {
		n.outline = ports[n.name]
	}
	return nil
}

// outlineOf is what onnx-go makes of a declared type: dimensions that are no numbers are left out.
func outlineOf(t ssa.Type) *outline {
	a, err := ndarray.New(t.DType, 1)
	if t.Kind != ssa.KindTensor || err != nil {
		return nil
	}
	d, err := denseOf(a)
	if err != nil {
		return nil
	}
	o := &outline{dtype: d.Dtype(), shape: tensor.Shape{}, whole: &t}
	for _, dim := range t.Shape {
		if n, ok := dim.Const(); ok {
			o.shape = append(o.shape, int(n))
		}
	}
	return o
}

// stub writes a model of one operator with the inputs and outputs of the whole, which onnx-go decodes without a loss.
func (w *whole) stub() ([]byte, error) {
	node := &onnxwire.Node{OpType: "Model", Domain: "berth"}
	graph := &onnxwire.Graph{Name: "berth", Nodes: []*onnxwire.Node{node}}
	for _, in := range w.model.Inputs() {
		node.Inputs = append(node.Inputs, in.Name)
		if !in.Optional {
			graph.Inputs = append(graph.Inputs, &onnxwire.ValueInfo{Name: in.Name})
		}
	}
	for _, out := range w.model.Outputs() {
		if !w.has(out.Name) { // else the input's node has it
			node.Outputs = append(node.Outputs, out.Name)
		}
		graph.Outputs = append(graph.Outputs, &onnxwire.ValueInfo{Name: out.Name})
	}
	if len(node.Outputs) == 0 {
		node.Outputs = []string{""}
	}
	return onnxwire.Marshal(&onnxwire.Model{IRVersion: 4, Graph: graph})
}

// isOptional reports that an input has a default value.
func (g *Graph) isOptional(n *Node) bool { return g.whole != nil && g.whole.inputs[n.name] }

// Close ends the use of the graph: the files of a model read by Open are let go. Results stay valid.
func (g *Graph) Close() error {
	if g == nil {
		return nil
	}
	defer g.lock()()
	g.fail(berth.ErrClosed)
	if g.whole != nil {
		return g.whole.model.Close()
	}
	return nil
}
