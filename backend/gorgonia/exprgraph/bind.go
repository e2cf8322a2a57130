package exprgraph

import (
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia/internal/values"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
)

var errNil = &Error{Node: "nil", Err: errors.New("the graph is nil; Import makes graphs")}

// missing is the error of a nil node in a list of a graph.
func missing(list string, i int) error {
	return &Error{Node: fmt.Sprintf("%s[%d]", list, i), Err: errors.New("the node is nil; Import makes graphs, and nodes may be put in the place of its own")}
}

// Bind gives the inputs their values, one for each input in the model's order. The graph
// reads the arrays' memory in later passes; of an array that is not aligned for its elements, that of
// a clone ([ndarray.Array.Aligned]). A value that does not fit its input is a
// [*berth.InputError], and then none is bound.
func (g *Graph) Bind(in ...ndarray.Value) (err error) {
	defer rescue.Into(&err)
	if g == nil {
		return errNil
	}
	if len(in) != len(g.Inputs) {
		return fmt.Errorf("got %d values of inputs, want %d, one for each of Graph.Inputs in its order", len(in), len(g.Inputs))
	}
	bound := make([]gorgonia.Value, len(in))
	for i, n := range g.Inputs {
		if n == nil {
			return missing("Inputs", i)
		}
		if bound[i], err = valueFor(n, in[i]); err != nil {
			return err
		}
	}
	for i, n := range g.Inputs {
		if err := gorgonia.Let(n, bound[i]); err != nil {
			return err
		}
	}
	return nil
}

// valueFor is an array as the value of an input.
func valueFor(n *gorgonia.Node, v ndarray.Value) (gorgonia.Value, error) {
	dt, _ := values.DType(n.Dtype())
	want := (&ndarray.Array{DType: dt, Shape: n.Shape()}).String()
	a, ok := v.(*ndarray.Array)
	if !ok || a == nil || a.DType != dt || !slices.Equal(n.Shape(), a.Shape) {
		return nil, &berth.InputError{Name: n.Name(), Want: want, Got: ndarray.Describe(v)}
	}
	return values.Of(aligned(a), n.Dtype(), n.Shape())
}

// aligned is an array that Gorgonia can read: itself, or a clone of one whose address is no multiple of its elements' size, as
// that of weights mapped from a file may be.
func aligned(a *ndarray.Array) *ndarray.Array {
	if a.Aligned() {
		return a
	}
	return a.Clone()
}

// Results are the outputs' values after a pass of a machine, in the model's order: arrays
// over the memory that the nodes are bound to. An output that the machine left without a
// value is an [*Error].
func (g *Graph) Results() (_ []*ndarray.Array, err error) {
	defer rescue.Into(&err)
	if g == nil {
		return nil, errNil
	}
	out := make([]*ndarray.Array, len(g.Outputs))
	for i, n := range g.Outputs {
		if n == nil {
			return nil, missing("Outputs", i)
		}
		if n.Value() == nil {
			return nil, &Error{Node: n.String(), Err: errors.New("the output has no value: run a machine first, one of package vm with the node among those to keep")}
		}
		if out[i], err = values.Array(n.Value()); err != nil {
			return nil, &Error{Node: n.String(), Err: err}
		}
	}
	return out, nil
}
