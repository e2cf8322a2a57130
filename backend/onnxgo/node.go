package onnxgo

import (
	"fmt"

	"gonum.org/v1/gonum/graph"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
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
	whole *ssa.Type    // where the graph has read the model
}

// has reports whether a value may have elements of a type. That is asked for only when a run has failed: cases of onnx-go's own
// suite have other types than their models declare, and pass.
func (o *outline) has(dt ndarray.DType) bool {
	declared := dtypeOf(o.dtype)
	return declared == ndarray.Undefined || declared == dt
}

// fits refuses a value of an input of another shape than is declared, and, where the graph has read the model, of another type.
// onnx-go leaves out the dimensions that are no numbers, so that the others are looked for in their order.
func (n *Node) fits(t tensor.Tensor) error {
	o := n.declared()
	if t == nil || o == nil {
		return nil
	}
	switch given := t.Shape(); {
	case o.whole != nil:
		if dtypeOf(t.Dtype()) != o.whole.DType || !o.whole.Fits(given) {
			return &berth.InputError{Name: n.name, Want: o.whole.String(), Got: fmt.Sprintf("a tensor of %s%v", t.Dtype(), []int(given))}
		}
	case !isPart(o.shape, given):
		return &berth.InputError{Name: n.name, Want: fmt.Sprintf("a tensor with the dimensions %v in this order, perhaps with others between them", []int(o.shape)), Got: fmt.Sprintf("one of shape %v", []int(given))}
	}
	return nil
}

// isPart reports whether dimensions are among those of a shape, in the same order.
func isPart(dims, shape []int) bool {
	for _, n := range shape {
		if len(dims) > 0 && dims[0] == n {
			dims = dims[1:]
		}
	}
	return len(dims) == 0
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
// copied: the next run reads it. nil takes the value away. A result of an operator can not be set. What is not of the declared
// shape is a [*berth.InputError]: of all of it, and of another type, where the graph has read the model by [Graph.Parse] or
// [Graph.Open]; of what onnx-go hands over, the dimensions that are numbers, elsewhere.
func (n *Node) SetTensor(t tensor.Tensor) (err error) {
	if n == nil || n.g == nil {
		return errUnmade
	}
	defer rescue.Into(&err)
	n.g.mu.Lock()
	defer n.g.mu.Unlock()
	return n.g.set(n, t)
}

// dense refuses what is no tensor with elements.
func (n *Node) dense(t tensor.Tensor) error {
	d, isDense := t.(*tensor.Dense)
	switch {
	case t == nil:
		return nil
	case !isDense:
		return &GraphError{n.name, fmt.Sprintf("a %T is no dense tensor; give a *tensor.Dense", t)}
	case d == nil:
		return &GraphError{n.name, "the tensor is a nil *tensor.Dense; nil itself takes a value away"}
	case d.Dtype().Type == nil:
		return &GraphError{n.name, "the tensor has no element type; tensor.New makes tensors"}
	}
	return nil
}

// GetTensor returns the value of an input or weight as it was set, or what the last run computed, nil if it failed. Before
// the first run, the tensor is a placeholder of zeros, of the declared type and of those dimensions that are declared as numbers;
// nil if nothing is declared.
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
func (m misaddressed) SetTensor(t tensor.Tensor) (err error) {
	defer rescue.Into(&err)
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	if m.same.role == weight {
		return m.g.set(m.meant, t)
	}
	return &GraphError{m.name, fmt.Sprintf("it is not input %d, %q, which onnx-go takes it for, as the model lists initializers among its inputs; set inputs by name (model.GetNodeByName), or decode the model with Parse or Open of the backend", m.id, m.meant.name)}
}

var _ graph.Node = (*Node)(nil)
