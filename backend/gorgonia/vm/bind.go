package vm

import (
	"bytes"
	"fmt"
	"slices"
	"unsafe"

	"gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/lower"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
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
	of     []*gorgonia.Node // inputs whose gradient the node is
	window gorgonia.Value   // shows the result
	at     unsafe.Pointer   // what the window shows
	copied ndarray.Array    // shows what Into or State hold
}

// wire connects parameters and results with nodes.
func (m *VM) wire(low *lower.Graph) {
	for i, s := range low.Inputs {
		v := m.prog.Graph.Params[i]
		in := input{Source: s, name: v.Name, typ: v.Type, array: &ndarray.Array{}}
		m.inputs, m.args = append(m.inputs, in), append(m.args, in.array)
	}
	for _, s := range low.Outputs {
		m.outputs = append(m.outputs, output{Sink: s, of: s.GradientOf()})
	}
}

// read points the parameter at the value that is bound now.
func (in *input) read() error {
	if in.State != nil {
		return values.View(in.array, in.State)
	}
	v := in.Node.Value()
	if v == nil {
		return &InputError{Name: in.name, Want: in.typ.String(), Got: "no value; bind one with gorgonia.Let"}
	}
	if err := values.View(in.array, v); err != nil {
		return &InputError{Name: in.name, Want: in.typ.String(), Got: err.Error()}
	}
	return nil
}

// deliver binds a result to its node and to what else wants it. In the usual case all
// is bound since an earlier pass.
func (o *output) deliver(a *ndarray.Array) error {
	if p := first(a); p != o.at || o.window == nil {
		if err := o.show(a); err != nil {
			return err
		}
		o.at = p
	}
	if o.Node != nil && o.Node.Value() != o.window {
		if err := gorgonia.UnsafeLet(o.Node, o.window); err != nil {
			return err
		}
	}
	for _, n := range o.of {
		if g, err := n.Grad(); err != nil || g != o.window {
			gorgonia.WithGrad(o.window)(n)
		}
	}
	for _, into := range o.Into {
		if err := o.fill(into, a); err != nil {
			return err
		}
	}
	if o.State != nil {
		if err := values.Target(&o.copied, o.State); err != nil {
			return err
		}
		copy(o.copied.Data, a.Data)
	}
	return nil
}

// first is where the elements of an array begin.
func first(a *ndarray.Array) unsafe.Pointer {
	if a.DType == ndarray.String {
		return unsafe.Pointer(unsafe.SliceData(a.Str))
	}
	return unsafe.Pointer(unsafe.SliceData(a.Data))
}

// show makes the window over a result.
func (o *output) show(a *ndarray.Array) (err error) {
	switch {
	case o.Node != nil:
		o.window, err = values.Of(a, o.Node.Dtype(), o.Node.Shape())
	case len(o.Grads) > 0:
		o.window, err = values.Of(a, o.Grads[0].Dtype(), o.Grads[0].Shape())
	default:
		t, ok := values.Dtype(a.DType)
		if !ok {
			return fmt.Errorf("elements of type %s can not be shown", a.DType)
		}
		o.window, err = values.Of(a, t, a.Shape)
	}
	return err
}

// fill copies a result into what gorgonia.Read names, which is made the first time.
func (o *output) fill(into *gorgonia.Value, a *ndarray.Array) (err error) {
	if *into == nil {
		c := &ndarray.Array{DType: a.DType, Shape: a.Shape, Data: bytes.Clone(a.Data), Str: slices.Clone(a.Str)}
		*into, err = values.Of(c, o.window.Dtype(), o.window.Shape())
		return err
	}
	if err := values.Target(&o.copied, *into); err != nil {
		return fmt.Errorf("gorgonia.Read: %w", err)
	}
	if o.copied.DType != a.DType || o.copied.Len() != a.Len() {
		return fmt.Errorf("gorgonia.Read of %v into a value of %v", a, &o.copied)
	}
	copy(o.copied.Data, a.Data)
	copy(o.copied.Str, a.Str)
	return nil
}
