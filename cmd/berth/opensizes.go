package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Sizes for dimensions that the model and the command line leave open. One is the
// size tried first; many models do not run with it, because a window or a stride
// does not fit into one pixel, so larger ones are tried in turn.

// tried are the sizes given to open dimensions, in turn, until the model runs.
var tried = []int{1, 2, 16, 32, 64, 160, 224, 512}

// attempt is one use of a model: inputs and their shapes.
type attempt func(shapes map[string][]int, in map[string]ndarray.Value) error

// withOpenSizes calls use with inputs for the model, those given and random ones,
// with one size after the other for what stays open, until a call does not fail at
// a node. Where nothing is open it calls use once.
func (a *app) withOpenSizes(ctx context.Context, m *berth.Model, have map[string]ndarray.Value, use attempt) error {
	var first error
	for try := range 2 * len(tried) {
		size, lastOnly := tried[try/2], try%2 == 1
		shapes := a.bindShapes(m, have)
		open := a.growOpen(m, shapes, have, size, lastOnly)
		if first != nil && len(open) == 0 || size == 1 && lastOnly {
			continue
		}
		in, err := a.randomInputs(m, shapes, have)
		if err != nil {
			return err
		}
		err = use(shapes, in)
		var at *ops.NodeError
		switch {
		case err == nil:
			if first != nil {
				a.note("berth: the model does not run with open dimensions of 1; they were taken as --shape %s", shapesText(shapes, open, " --shape "))
			}
			return nil
		case ctx.Err() != nil || !errors.As(err, &at) || errors.Is(err, ops.ErrUnsupported) || len(open) == 0:
			return err
		case first == nil:
			first = fmt.Errorf("%w; the sizes of %s are open and were guessed: give them with --shape or --dim", err, strings.Join(open, ", "))
		}
	}
	return first
}

// growOpen sets open dimensions to size and lists the inputs that have any. Batch
// dimensions stay 1: those that come first, and their symbol wherever it stands.
// What is given stays. With lastOnly, only the last dimension of each input grows.
func (a *app) growOpen(m *berth.Model, shapes map[string][]int, have map[string]ndarray.Value, size int, lastOnly bool) (open []string) {
	batch := map[string]bool{}
	for _, in := range m.Inputs() {
		if len(in.Type.Shape) > 1 {
			if s, ok := in.Type.Shape[0].SymbolName(); ok {
				batch[s] = true
			}
		}
	}
	for _, in := range m.Inputs() {
		shape := shapes[in.Name]
		if have[in.Name] != nil || a.shapes[in.Name] != nil || in.Type.Rank() != len(shape) {
			continue
		}
		t := in.Type.Bind(a.dims)
		for i, d := range t.Shape {
			if _, ok := d.Const(); ok {
				continue
			}
			if !slices.Contains(open, in.Name) {
				open = append(open, in.Name)
			}
			s, _ := d.SymbolName()
			if (i > 0 || len(shape) == 1) && !batch[s] && (!lastOnly || i == len(shape)-1) {
				shape[i] = size
			}
		}
	}
	return open
}

// shapesText prints shapes as --shape takes them, those of the named inputs.
func shapesText(shapes map[string][]int, names []string, between string) string {
	var parts []string
	for _, name := range names {
		parts = append(parts, name+"="+strings.ReplaceAll(strings.Trim(fmt.Sprint(shapes[name]), "[]"), " ", "x"))
	}
	return strings.Join(parts, between)
}

// allShapesText prints all shapes in the order of the names.
func allShapesText(shapes map[string][]int) string {
	return shapesText(shapes, slices.Sorted(maps.Keys(shapes)), " ")
}
