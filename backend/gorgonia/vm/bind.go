package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/lower"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// input is where a parameter is read. The array is pointed at the memory of the value.
type input struct {
	lower.Source
	name  string
	typ   ssa.Type
	array *ndarray.Array
}

// output is where a result goes.
type output struct {
	lower.Sink
	places []place
	at     unsafe.Pointer // what the windows show
	copied ndarray.Array  // shows what Into or State hold
}

// place is a node that shows a result as its value, or an input that shows it as its gradient. Each has a window of its own:
// what a node lets go of, by ExprGraph.UnbindAll for instance, Gorgonia gives to other tensors.
type place struct {
	node   *gorgonia.Node
	grad   bool
	window gorgonia.Value
}

// wire connects parameters and results with nodes.
func (m *VM) wire(low *lower.Graph) {
	for i, s := range low.Inputs {
		v := m.prog.Graph.Params[i]
		in := input{Source: s, name: v.Name, typ: v.Type, array: &ndarray.Array{}}
		if s.Node == nil {
			in.name = "state of " + lower.NameOf(s.Held)
		}
		m.inputs, m.args = append(m.inputs, in), append(m.args, in.array)
	}
	m.slices = low.Slices
	for _, s := range low.Outputs {
		o := output{Sink: s}
		if s.Node != nil {
			o.places = append(o.places, place{node: s.Node})
		}
		for _, n := range s.GradientOf() {
			o.places = append(o.places, place{node: n, grad: true})
		}
		m.outputs = append(m.outputs, o)
	}
}

// read points the parameter at the value that is bound now.
func (in *input) read(ctx context.Context) error {
	var v gorgonia.Value = in.State
	if in.Node != nil {
		v = in.Node.Value()
	}
	if v == nil {
		return &InputError{Name: in.name, Want: in.typ.String(), Got: "no value; bind one with gorgonia.Let"}
	}
	if err := values.View(ctx, in.array, v); err != nil {
		return in.refused(err)
	}
	return nil
}

// refused names the input whose value is no array; other errors, as those of the budget of memory, stay what they are.
func (in *input) refused(err error) error {
	if wrong := (*values.Error)(nil); errors.As(err, &wrong) {
		return &InputError{Name: in.name, Want: in.typ.String(), Got: err.Error()}
	}
	return fmt.Errorf("input %q: %w", in.name, err)
}

// deliver binds a result to its node and to what else wants it. In the usual case all
// is bound since an earlier pass.
func (o *output) deliver(v ndarray.Value) (err error) {
	defer rescue.Into(&err)
	a, ok := v.(*ndarray.Array)
	if !ok {
		return fmt.Errorf("the result is %s, no tensor", ndarray.Describe(v))
	}
	at := first(a)
	for i := range o.places {
		if err := o.places[i].show(a, at != o.at); err != nil {
			return err
		}
	}
	o.at = at
	for _, into := range o.Into {
		if err := o.fill(into, a); err != nil {
			return err
		}
	}
	if o.State != nil {
		return o.copyTo(o.State, a)
	}
	return nil
}

// failed names the node of a result that could not be delivered.
func (o *output) failed(err error) error {
	if named := (*GraphError)(nil); errors.As(err, &named) {
		return err
	}
	n := o.Of
	if n == nil {
		n = o.Held
	}
	e := &GraphError{Node: lower.NameOf(n), Err: err}
	if n.Op() != nil {
		e.Op = fmt.Sprintf("%T", n.Op())
	}
	return e
}

// first is where the elements of an array begin.
func first(a *ndarray.Array) unsafe.Pointer {
	if a.DType == ndarray.String {
		return unsafe.Pointer(unsafe.SliceData(a.Str))
	}
	return unsafe.Pointer(unsafe.SliceData(a.Data))
}

// show binds a window over a result to the node, unless the one of an earlier pass is bound and shows it.
func (p *place) show(a *ndarray.Array, moved bool) (err error) {
	defer rescue.Into(&err)
	if p.grad && p.node.Value() == nil {
		return &GraphError{Node: lower.NameOf(p.node), Err: errors.New("a gradient is bound to the value of its input, which has none any more; bind one with gorgonia.Let")}
	}
	if !moved && p.window != nil && p.bound() == p.window && p.isOver(a) {
		return nil
	}
	if p.window, err = values.Of(a, p.node.Dtype(), p.node.Shape()); err != nil {
		return err
	}
	if p.grad {
		gorgonia.WithGrad(p.window)(p.node)
		return nil
	}
	return gorgonia.UnsafeLet(p.node, p.window)
}

// isOver reports whether the window shows an array still: Gorgonia makes other tensors of those that a graph lets go of.
func (p *place) isOver(a *ndarray.Array) bool {
	d, ok := p.window.(*tensor.Dense)
	return !ok || a.Len() == 0 || d.Uintptr() == uintptr(first(a))
}

// bound is what the node shows now.
func (p *place) bound() gorgonia.Value {
	if !p.grad {
		return p.node.Value()
	}
	g, err := p.node.Grad()
	if err != nil {
		return nil
	}
	return g
}

// fill copies a result into what gorgonia.Read names, which is made the first time.
func (o *output) fill(into *gorgonia.Value, a *ndarray.Array) (err error) {
	if *into == nil {
		c := &ndarray.Array{DType: a.DType, Shape: a.Shape, Data: bytes.Clone(a.Data), Str: slices.Clone(a.Str)}
		*into, err = values.Of(c, o.Of.Dtype(), o.Of.Shape())
		return err
	}
	if err := o.copyTo(*into, a); err != nil {
		return fmt.Errorf("gorgonia.Read: %w; or set the variable to nil", err)
	}
	return nil
}

// copyTo copies a result into a value of its type and size.
func (o *output) copyTo(v gorgonia.Value, a *ndarray.Array) error {
	if err := values.Target(&o.copied, v); err != nil {
		return err
	}
	if o.copied.DType != a.DType || o.copied.Len() != a.Len() {
		return fmt.Errorf("the result %v does not fit into a value of %v; give one of its type and size", a, &o.copied)
	}
	copy(o.copied.Data, a.Data)
	copy(o.copied.Str, a.Str)
	return nil
}
