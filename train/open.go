package train

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/gradient"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// A step needs sizes that are known when it is compiled: those of the loss, and those that derivatives of windows depend on. Where they are not, an input
// of the model has dimensions that no option binds, and these are what the user must know of.

// shapeError reports a value of a shape that it must not have, or that is not known.
type shapeError struct {
	what string
	typ  ssa.Type
	want string
}

// Error names the value and its type.
func (e *shapeError) Error() string {
	t := e.typ.String()
	if !e.typ.Ranked {
		t = "of unknown shape"
	}
	return fmt.Sprintf("the %s is %s; %s", e.what, t, e.want)
}

// whereOpen adds to an error that open shapes cause which dimensions of which inputs are open, and how they are bound.
func (t *Trainer) whereOpen(g *ssa.Graph, err error) error {
	var shape *shapeError
	var slope *gradient.Error
	switch {
	case errors.As(err, &shape) && !shape.typ.IsStatic():
	case errors.As(err, &slope) && errors.Is(err, ops.ErrUnsupported):
	default:
		return err
	}
	params := paramsByName(g)
	var open []string
	for _, port := range t.model.Inputs() {
		if p := params[port.Name]; p != nil && !p.Type.IsStatic() {
			open = append(open, fmt.Sprintf("%s of input %q (%s)", openDims(p.Type), p.Name, p.Type))
		}
	}
	if open == nil {
		return err
	}
	return fmt.Errorf("%w: open are %s; fix them by berth.WithShape or WithDim in Options.Compile (--shape, --dim)", err, strings.Join(open, ", "))
}

// openDims names the dimensions of a type that are no numbers: by their symbols, or by their place.
func openDims(t ssa.Type) string {
	if !t.Ranked {
		return "all dimensions"
	}
	var symbols, places []string
	for i, d := range t.Shape {
		names := d.Symbols(nil)
		if _, known := d.Const(); !known && len(names) == 0 {
			places = append(places, fmt.Sprintf("dimension %d", i))
		}
		for _, name := range names {
			if !slices.Contains(symbols, name) {
				symbols = append(symbols, name)
			}
		}
	}
	return strings.Join(append(symbols, places...), ", ")
}

// declare gives the inputs of the model that a step takes the types that the model declares: options that bind dimensions, which are applied once
// more, refer to these.
func (t *Trainer) declare(g *ssa.Graph) {
	params := paramsByName(g)
	for _, port := range t.model.Inputs() {
		if p := params[port.Name]; p != nil {
			p.Type = port.Type
		}
	}
}
