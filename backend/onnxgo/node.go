package onnxgo

import (
	"fmt"

	"gonum.org/v1/gonum/graph"
	"gorgonia.org/tensor"
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
	shape tensor.Shape
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
	if t != nil && (!isDense || d == nil) {
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

// misaddressed is a weight that onnx-go takes for an input. Its SetInput sets the node that has the input's position as
// its number, which is another one if the file lists initializers among the inputs before the last of them.
type misaddressed struct{ *Node }

// SetTensor refuses.
func (m misaddressed) SetTensor(tensor.Tensor) error {
	return &GraphError{m.GetName(), fmt.Sprintf("onnx-go counts initializers where it sets input %d; set inputs of this model by name (model.GetNodeByName), or decode it with Parse or Open of the backend", m.id)}
}

var _ graph.Node = (*Node)(nil)
