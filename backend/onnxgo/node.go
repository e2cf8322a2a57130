package onnxgo

import (
	"fmt"

	"gonum.org/v1/gonum/graph"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/ndarray"
)

// Node is a value of the model. It implements [graph.Node], onnx.Namer and onnx.DataCarrier.
type Node struct {
	g     *Graph
	id    int64
	name  string
	named bool

	added   bool
	maker   *operation    // whose result it is; nil for inputs and weights
	used    bool          // as an operand
	held    tensor.Tensor // what SetTensor was given last: a weight, an input, until the end of decoding a placeholder
	sets    int           // calls of SetTensor while the model was decoded
	late    bool          // one of them was not right after the node was added: it is an initializer
	stamp   int           // when SetTensor was last called after decoding; 0 is never
	outline *outline      // declared type and shape
	result  tensor.Tensor // of the last run
	same    *Node         // the node that stands for all nodes of the value; see roles
	twins   []*Node       // of that node: the others
	role    role          // of that node
}

// outline is what a model declares of a value.
type outline struct {
	dtype tensor.Dtype
	shape tensor.Shape // without the dimensions that are no numbers
}

// fits reports whether a value may have elements of a type. Sizes are the business of operators: how many dimensions are
// declared does not reach a backend.
func (o *outline) fits(dt ndarray.DType) bool {
	a, err := arrayOf(tensor.New(tensor.Of(o.dtype), tensor.WithShape(1)))
	return err != nil || a.DType == dt
}

// ID returns the number of the node: onnx-go numbers inputs first, from 0.
func (n *Node) ID() int64 {
	if n == nil {
		return -1
	}
	return n.id
}

// SetName sets the name of the value.
func (n *Node) SetName(name string) {
	if n == nil || n.g == nil {
		return
	}
	n.g.mu.Lock()
	defer n.g.mu.Unlock()
	n.name, n.named = name, true
}

// GetName returns the name of the value.
func (n *Node) GetName() string {
	if n == nil || n.g == nil {
		return ""
	}
	n.g.mu.Lock()
	defer n.g.mu.Unlock()
	return n.name
}

// String returns the name, or the number of a node without one.
func (n *Node) String() string {
	if name := n.GetName(); name != "" {
		return name
	}
	return fmt.Sprintf("#%d", n.ID())
}

// SetTensor gives an input its value, or a weight another one, after which the next run compiles anew. The tensor is not
// copied: the next run reads it. nil takes the value away. A result of an operator can not be set.
func (n *Node) SetTensor(t tensor.Tensor) (err error) {
	if n == nil || n.g == nil {
		return errUnmade
	}
	n.g.mu.Lock()
	defer n.g.mu.Unlock()
	d, isDense := t.(*tensor.Dense)
	switch {
	case isDense && d == nil:
		return &GraphError{n.name, "the tensor is a nil *tensor.Dense"}
	case t != nil && !isDense:
		return &GraphError{n.name, fmt.Sprintf("a %T is no dense tensor", t)}
	}
	return n.g.set(n, t)
}

// GetTensor returns the value of an input or weight as it was set, or what the last run computed. Before it is there, the
// tensor is a placeholder of the declared type and of those dimensions that are declared as numbers; nil if nothing is
// declared.
func (n *Node) GetTensor() tensor.Tensor {
	if n == nil || n.g == nil {
		return nil
	}
	n.g.mu.Lock()
	defer n.g.mu.Unlock()
	return n.g.get(n)
}

// misaddressed is a node whose number is the position of another input: onnx-go's SetInput, which takes positions for numbers,
// means that input. They differ where a file lists initializers among the inputs.
type misaddressed struct {
	*Node
	meant *Node
}

// SetTensor sets the input that is meant in place of a weight. If the node is an input itself, its number does not say which of
// the two is meant.
func (m misaddressed) SetTensor(t tensor.Tensor) error {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	if m.same.role == weight {
		return m.g.set(m.meant, t)
	}
	return &GraphError{m.name, fmt.Sprintf("it is not input %d, %q, which onnx-go takes it for, as the model lists initializers among its inputs; set inputs by name (model.GetNodeByName), or decode the model with Parse or Open of the backend", m.id, m.meant.name)}
}

var _ graph.Node = (*Node)(nil)
