package onnxgo

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia"
	"github.com/berth-onnx/berth/internal/onnxwire"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// message writes the recorded nodes as the message of a model, for the importer: inputs with the types and ranks of the
// values that are set, dimensions open, and the results wanted as outputs. Tensors are not copied. What onnx-go lost
// beyond recovery is a *LossError.
func (g *Graph) message(inputs map[string]*ndarray.Array, wanted []*Node) (*onnxwire.Model, error) {
	w := &onnxwire.Graph{Name: "onnx-go"}
	names := g.wireNames()
	for n := range g.added() {
		if n.same != n || n.isAbsent() || !n.used && !slices.Contains(wanted, n) {
			continue
		}
		switch {
		case n.role == weight:
			t, err := tensorMessage(names[n], g.valueOf(n))
			if err != nil {
				return nil, unreadable(n.name, "the weight", err)
			}
			w.Initializers = append(w.Initializers, t)
		case n.role == input && inputs[names[n]] != nil:
			w.Inputs = append(w.Inputs, inputMessage(names[n], inputs[names[n]]))
		}
	}
	for _, o := range g.made {
		node, err := o.message(names)
		if err != nil {
			return nil, err
		}
		w.Nodes = append(w.Nodes, node)
	}
	for _, n := range wanted {
		w.Outputs = append(w.Outputs, &onnxwire.ValueInfo{Name: names[n]})
	}
	return &onnxwire.Model{IRVersion: 4, Graph: w}, nil
}

// wireNames gives each value the name it has in the message: its own, if no other value has it.
func (g *Graph) wireNames() map[*Node]string {
	names, taken := map[*Node]string{}, map[string]bool{}
	for n := range g.added() {
		if n.same != n {
			continue
		}
		name := n.name
		if !n.named || taken[name] {
			name = fmt.Sprintf("%s#%d", n.name, n.id)
		}
		names[n], taken[name] = name, true
	}
	return names
}

// inputMessage declares an input of the type and rank of a value.
func inputMessage(name string, a *ndarray.Array) *onnxwire.ValueInfo {
	s := &onnxwire.Shape{}
	for i := range a.Shape {
		s.Dims = append(s.Dims, &onnxwire.Dim{Kind: onnxwire.DimParam, Param: fmt.Sprintf("%s_%d", name, i)})
	}
	return &onnxwire.ValueInfo{Name: name, Type: &onnxwire.Type{Tensor: &onnxwire.TensorType{ElemType: onnxwire.DataType(a.DType), Shape: s}}}
}

// unreadable names the node whose tensor is no array; other errors, as those of the budget of memory, stay what they are.
func unreadable(node, what string, err error) error {
	if wrong := (*gorgonia.DenseError)(nil); errors.As(err, &wrong) {
		return &GraphError{node, fmt.Sprintf("%s: %v", what, err)}
	}
	return fmt.Errorf("node %q: %s: %w", node, what, err)
}

// tensorMessage shares the memory of a tensor.
func tensorMessage(name string, t tensor.Tensor) (*onnxwire.Tensor, error) {
	a, err := arrayOf(t)
	if err != nil {
		return nil, err
	}
	out := &onnxwire.Tensor{Name: name, DataType: onnxwire.DataType(a.DType), RawData: a.Data}
	for _, d := range a.Shape {
		out.Dims = append(out.Dims, int64(d))
	}
	for _, s := range a.Str {
		out.StringData = append(out.StringData, []byte(s))
	}
	return out, nil
}

func (o *operation) message(names map[*Node]string) (*onnxwire.Node, error) {
	n := &onnxwire.Node{OpType: o.Name}
	for _, v := range o.in {
		if o.isFake(v) {
			continue
		}
		if s := v.same; s.role == input && v.g.valueOf(s) == nil && !v.g.isInput(s) && !s.isAbsent() {
			return nil, &LossError{Operator: o.Name, Value: o.out[0].name, Lost: fmt.Sprintf("its operand %q, which is no input and which no operator computes: a sparse initializer, perhaps", s.name)}
		}
		n.Inputs = append(n.Inputs, names[v.same])
	}
	for _, v := range o.out {
		n.Outputs = append(n.Outputs, names[v])
	}
	for _, name := range slices.Sorted(maps.Keys(o.Attributes)) {
		a, err := o.attribute(name)
		if err != nil {
			return nil, err
		}
		n.Attributes = append(n.Attributes, a)
	}
	return n, nil
}

// isAbsent reports that a node is an operand or result left out.
func (n *Node) isAbsent() bool { return n.named && n.name == "" }

// isInput reports that a value is one of the model's inputs.
func (g *Graph) isInput(n *Node) bool { return slices.Contains(g.inputs, n) }

// isFake reports that an operand is the node that onnx-go makes up for an operator that has none.
func (o *operation) isFake(n *Node) bool {
	if len(o.in) != 1 || n.maker != nil || n.sets > 0 || n.stamp > 0 || !strings.HasSuffix(n.name, "/input") {
		return false
	}
	known := ops.Lookup("", o.Name)
	return known != nil && known.MinIn == 0
}

// attribute writes what onnx-go made of an attribute.
func (o *operation) attribute(name string) (*onnxwire.Attribute, error) {
	a := &onnxwire.Attribute{Name: name}
	switch v := o.Attributes[name].(type) {
	case float32:
		a.Type, a.F = onnxwire.AttrFloat, v
	case int64:
		a.Type, a.I = onnxwire.AttrInt, v
	case string:
		a.Type, a.S = onnxwire.AttrString, []byte(v)
	case []float32:
		a.Type, a.Floats = onnxwire.AttrFloats, v
	case []int64:
		a.Type, a.Ints = onnxwire.AttrInts, v
	case []string:
		a.Type = onnxwire.AttrStrings
		for _, s := range v {
			a.Strings = append(a.Strings, []byte(s))
		}
	case tensor.Tensor:
		t, err := tensorMessage("", v)
		if err != nil {
			return nil, unreadable(o.out[0].name, fmt.Sprintf("attribute %q", name), err)
		}
		a.Type, a.T = onnxwire.AttrTensor, t
	default:
		return nil, &LossError{Operator: o.Name, Value: o.out[0].name, Lost: fmt.Sprintf("the value of attribute %q", name)}
	}
	return a, nil
}
