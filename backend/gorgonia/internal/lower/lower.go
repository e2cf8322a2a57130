package lower

import (
	"context"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Graph is an expression graph written as an ssa.Graph.
type Graph struct {
	SSA *ssa.Graph
	// Inputs are the sources of the graph's parameters, in their order.
	Inputs []Source
	// Outputs are the destinations of the graph's results, in their order.
	Outputs []Sink
	// Slices are what slicing ops select. gorgonia.UnsafeLet changes that.
	Slices []Slice
}

// Source is where the value of a parameter comes from: the node that gorgonia.Let binds
// it to, or a tensor that an op holds.
type Source struct {
	Node  *gorgonia.Node
	State *tensor.Dense
	Held  *gorgonia.Node // the first node whose op holds State
}

// Sink is where a result goes.
type Sink struct {
	Of    *gorgonia.Node    // whose value it is; nil for a state
	Node  *gorgonia.Node    // that node, unless it is an input or a constant, which keep the values they have
	Grads []*gorgonia.Node  // inputs whose gradient it is, where the gradient's node can not be bound itself
	Into  []*gorgonia.Value // what gorgonia.Read fills
	State *tensor.Dense     // a tensor that an op holds
	Held  *gorgonia.Node    // the node whose op holds State
}

// GradientOf lists the inputs whose gradient the result is.
func (s Sink) GradientOf() []*gorgonia.Node {
	list := slices.Clone(s.Grads)
	if s.Node != nil {
		for _, n := range s.Node.DerivOf() {
			if n.Op() == nil && n.Deriv() == s.Node {
				list = append(list, n)
			}
		}
	}
	return list
}

// Options choose what is lowered.
type Options struct {
	// Outputs are nodes whose values are results, besides those of [Lower].
	Outputs List
	// Only restricts the results to Outputs.
	Only bool
	// Eval lowers dropout and batch normalization as they are after training.
	Eval bool
	// Portable keeps to standard operators where others are better.
	// What ops hold, and do not change any more, are constants.
	Portable bool
	// Seed is where the numbers of dropout begin.
	Seed uint64
	// Freeze are inputs that become constants, from the values bound to them.
	Freeze List
}

// Lower writes an expression graph. The results are the values of its roots and costs,
// the gradients of its inputs, and what statements read. An error is an [*Error].
func Lower(g *gorgonia.ExprGraph, o Options) (_ *Graph, err error) {
	defer rescue.Into(&err)
	if g == nil {
		return nil, &Error{Err: fmt.Errorf("the expression graph is nil")}
	}
	b := newBuilder(g, o)
	if err := b.freeze(o.Freeze); err != nil {
		return nil, err
	}
	wanted, err := b.wanted()
	if err != nil {
		return nil, err
	}
	for _, n := range wanted {
		if err := b.lowerAll(n); err != nil {
			return nil, err
		}
	}
	for _, n := range wanted {
		b.deliver(n)
	}
	b.deliverStates()
	b.nameAll()
	return b.out, b.err
}

// children returns the operands of a node in order. ExprGraph.From would give those of
// another node where gorgonia.Grad has removed one before.
func (b *builder) children(n *gorgonia.Node) gorgonia.Nodes {
	c, err := field[gorgonia.Nodes](n, "children")
	if err != nil {
		b.fail(err)
	}
	return c
}

// wanted lists the nodes whose values are results, and notes reads and gradients.
func (b *builder) wanted() (list []*gorgonia.Node, err error) {
	seen := map[*gorgonia.Node]bool{}
	add := func(n *gorgonia.Node) {
		if !seen[n] {
			seen[n] = true
			list = append(list, n)
		}
	}
	for i, n := range b.options.Outputs.Nodes {
		if err := b.own(b.options.Outputs, i); err != nil {
			return nil, err
		}
		add(n)
	}
	if b.options.Only {
		return list, nil
	}
	read := map[*gorgonia.Node]bool{}
	for _, n := range b.graph.AllNodes() {
		for _, c := range b.children(n) {
			read[c] = true
		}
	}
	for _, n := range b.graph.AllNodes() {
		switch kind := kindOf(n); {
		case kind == "readOp":
			into, err := field[*gorgonia.Value](n.Op(), "into")
			if err == nil && into == nil {
				err = fmt.Errorf("gorgonia.Read into a nil pointer; give it the address of a gorgonia.Value")
			}
			if err != nil {
				return nil, b.failed(n, err)
			}
			of := b.children(n)[0]
			b.reads[of] = append(b.reads[of], into)
			add(of)
		case kind == "letOp":
			return nil, b.failed(n, fmt.Errorf("the statement of gorgonia.Set is not supported; bind values with gorgonia.Let before a pass"))
		case kind == "devTrans":
			return nil, b.failed(n, fmt.Errorf("only the CPU is supported; build the graph without a transport to a device"))
		case n.Op() == nil && n.Deriv() != nil:
			b.noteGradient(n)
			add(n.Deriv())
		case n.Op() != nil && !isConstant(n) && (!read[n] && !b.isStray(n) || isCost(n)):
			add(n)
		}
	}
	return list, b.err
}

// gradientGroups are the groups into which gorgonia.Grad puts the nodes that it makes.
var gradientGroups = []string{"gradients", "undifferentiated nodes"}

// isStray reports whether a node is a gradient that gorgonia.Grad made on its way and that
// nobody asked for, such as that of a batch of data beside that of the weights.
func (b *builder) isStray(n *gorgonia.Node) bool {
	group, err := field[string](n, "group")
	if err != nil {
		b.fail(err)
	}
	return len(n.DerivOf()) == 0 && slices.Contains(gradientGroups, group)
}

// isCost reports whether a node is what gorgonia.Grad differentiated: its derivative by
// itself is the constant 1. Other nodes may read it.
func isCost(n *gorgonia.Node) bool { return n.IsScalar() && n.Deriv() != nil && isConstant(n.Deriv()) }

// noteGradient keeps in mind that a node is the gradient of an input. Where it is an input
// or a constant itself, a copy is bound to the input as its gradient: solvers write to
// gradients.
func (b *builder) noteGradient(of *gorgonia.Node) {
	d := of.Deriv()
	if d.Op() == nil || isConstant(d) {
		b.grads[d] = append(b.grads[d], of)
	}
}

// deliver makes a node's value a result.
func (b *builder) deliver(n *gorgonia.Node) {
	v := b.made[n]
	if v == nil {
		return
	}
	s := Sink{Of: n, Into: b.reads[n], Grads: b.grads[n]}
	if n.Op() == nil || isConstant(n) || len(s.Grads) > 0 {
		v = b.op("Identity", v)
	} else {
		s.Node = n
	}
	b.result(v, s)
}

func (b *builder) result(v *ssa.Value, s Sink) {
	if slices.Contains(b.out.SSA.Results, v) {
		v = b.op("Identity", v)
	}
	b.out.SSA.Results = append(b.out.SSA.Results, v)
	b.out.Outputs = append(b.out.Outputs, s)
}

// deliverStates makes results of what ops keep from run to run.
func (b *builder) deliverStates() {
	for _, u := range b.updates {
		b.result(u.value, Sink{State: u.of, Held: u.by})
	}
}

// lowerAll lowers a node and what it needs, operands first. Graphs may be deep, so the
// stack is one of its own.
func (b *builder) lowerAll(n *gorgonia.Node) error {
	stack := []*gorgonia.Node{n}
	for len(stack) > 0 {
		top := stack[len(stack)-1]
		if _, done := b.made[top]; done {
			stack = stack[:len(stack)-1]
			continue
		}
		pending := false
		for _, c := range slices.Backward(append(slices.Clone(b.children(top)), b.runsAfter(top)...)) {
			if _, done := b.made[c]; !done {
				pending = true
				stack = append(stack, c)
			}
		}
		if pending {
			continue
		}
		v, err := b.lowerOne(top)
		if err != nil {
			return b.failed(top, err)
		}
		b.made[top] = v
		stack = stack[:len(stack)-1]
	}
	return nil
}

func (b *builder) lowerOne(n *gorgonia.Node) (_ *ssa.Value, err error) {
	defer rescue.Into(&err)
	b.writing = n
	switch {
	case isConstant(n):
		return b.bound(n, n.Value())
	case b.frozen[n]:
		if n.Value() == nil {
			return nil, fmt.Errorf("%s makes a constant of the input, and no value is bound to it; bind one first, with gorgonia.Let or gorgonia.WithValue", b.options.Freeze.As)
		}
		return b.bound(n, n.Value())
	case n.Op() == nil:
		return b.input(n)
	}
	in := make([]*ssa.Value, 0, 2)
	for _, c := range b.children(n) {
		in = append(in, b.made[c])
	}
	v, err := b.apply(n, in)
	if err == nil {
		err = b.err
	}
	if err != nil {
		return nil, err
	}
	return b.shaped(v, n)
}

// shaped gives a result the shape that its node has, which may differ by dimensions of 1.
func (b *builder) shaped(v *ssa.Value, n *gorgonia.Node) (*ssa.Value, error) {
	dt, ok := values.DType(n.Dtype())
	if !ok {
		return nil, ErrElements(n.Dtype())
	}
	if v.Type.DType != dt {
		return nil, fmt.Errorf("the result has elements of type %s where the node has %v", v.Type.DType, n.Dtype())
	}
	have, ok := v.Type.Static()
	want := []int(n.Shape())
	size, _ := ndarray.NumElems(want)
	if n, _ := ndarray.NumElems(have); !ok || n != size {
		return nil, fmt.Errorf("the result has shape %v where the node has %v", v.Type.Shape, want)
	}
	return b.reshape(v, want...), b.err
}

// ErrElements refuses a type of elements.
func ErrElements(t tensor.Dtype) error {
	return fmt.Errorf("elements of type %v have no ONNX type; use one that has, such as float32, float64, int64 or bool", t)
}

// input adds a parameter.
func (b *builder) input(n *gorgonia.Node) (*ssa.Value, error) {
	dt, ok := values.DType(n.Dtype())
	if !ok {
		return nil, ErrElements(n.Dtype())
	}
	if _, err := ndarray.ByteSize(dt, n.Shape()); err != nil {
		return nil, fmt.Errorf("%w; give it a shape of sizes that are not negative, and that fits into memory", err)
	}
	b.out.Inputs = append(b.out.Inputs, Source{Node: n})
	return b.out.SSA.AddParam(NameOf(n), ssa.StaticTensor(dt, n.Shape()...)), nil
}

// state adds a parameter for a tensor that an op holds, a constant in a model to be written.
func (b *builder) state(d *tensor.Dense) *ssa.Value {
	if v := b.states[d]; v != nil {
		return v
	}
	dt, _ := values.DType(d.Dtype())
	if b.options.Eval && b.options.Portable {
		a, err := values.Array(d)
		if err != nil {
			b.fail(err)
			return b.zeros(dt, d.Shape()...)
		}
		b.states[d] = b.constant(ssa.NewConstant(a.Clone()))
		return b.states[d]
	}
	b.out.Inputs = append(b.out.Inputs, Source{State: d, Held: b.writing})
	b.states[d] = b.out.SSA.AddParam("state", ssa.StaticTensor(dt, d.Shape()...))
	return b.states[d]
}

// bound adds a constant.
func (b *builder) bound(n *gorgonia.Node, v gorgonia.Value) (*ssa.Value, error) {
	a, err := ValueOf(n, v)
	if err != nil {
		return nil, err
	}
	return b.constant(ssa.NewConstant(a)), nil
}

// ValueOf copies a value of a node. One that is not of the node's type and shape, up to dimensions of 1, is an error: gorgonia.Let
// takes numbers and vectors for any node.
func ValueOf(n *gorgonia.Node, v gorgonia.Value) (*ndarray.Array, error) {
	var a ndarray.Array
	if err := values.View(context.Background(), &a, v); err != nil {
		return nil, err
	}
	dt, _ := values.DType(n.Dtype())
	if want := (&ndarray.Array{DType: dt, Shape: n.Shape()}); a.DType != dt || a.Len() != want.Len() {
		return nil, fmt.Errorf("its value is %s where the node is %s; bind one of that type and shape", &a, want)
	}
	return a.Clone().Reshaped(n.Shape()...), nil
}
