package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/gradient"
	"github.com/berth-onnx/berth/internal/borrow"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Weight is a copy of a weight as it is now, or of a statistic of a batch normalization.
func (t *Trainer) Weight(name string) (*ndarray.Array, error) {
	if err := t.enter(); err != nil {
		return nil, err
	}
	defer t.leave()
	if !slices.ContainsFunc(t.states, func(s state) bool { return s.name == name }) {
		return nil, fmt.Errorf("no weight is called %q that steps change", name)
	}
	return t.session.Cache(name)
}

// finiteElements is how many elements are looked at between two looks at a context.
const finiteElements = 1 << 20

// CheckFinite reports the first element of a learned weight that is NaN or infinite, as too high a rate of learning makes them. It copies
// nothing. The context, which may be nil, ends it.
func (t *Trainer) CheckFinite(ctx context.Context) (err error) {
	defer rescue.Into(&err)
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave()
	for _, name := range t.learned {
		if err := borrow.State(t.session, name, func(a *ndarray.Array) error { return t.checkFinite(ctx, name, a) }); err != nil {
			return err
		}
	}
	return nil
}

// checkFinite is CheckFinite of one weight.
func (t *Trainer) checkFinite(ctx context.Context, name string, a *ndarray.Array) error {
	for from := 0; from < a.Len(); from += finiteElements {
		if ctx != nil && ctx.Err() != nil {
			return rescue.WithCause(ctx, ctx.Err())
		}
		if i := notFinite(a, from, min(from+finiteElements, a.Len())); i >= 0 {
			return fmt.Errorf("weight %q has the element %g after step %d", name, a.Float(i), t.Steps())
		}
	}
	return nil
}

// notFinite is the first element from one on and before another that is no finite number, -1 without one.
func notFinite(a *ndarray.Array, from, past int) int {
	if a.DType == ndarray.Float32 {
		for i, v := range ndarray.Slice[float32](a)[from:past] {
			if v-v != 0 {
				return from + i
			}
		}
		return -1
	}
	for i := from; i < past; i++ {
		if v := a.Float(i); v-v != 0 {
			return i
		}
	}
	return -1
}

// Model is the model with the weights as they are now, dropouts and batch normalizations in the form of inference. It shares what was not learned with the model given to [New].
func (t *Trainer) Model() (_ *berth.Model, err error) {
	defer rescue.Into(&err)
	if err := t.enter(); err != nil {
		return nil, err
	}
	defer t.leave()
	now := map[string]*ssa.Constant{}
	for _, s := range t.states {
		if s.first == nil {
			continue
		}
		a, err := t.session.Cache(s.name)
		if err != nil {
			return nil, err
		}
		now[s.name] = ssa.NewConstant(a)
	}
	g := t.model.Graph()
	weights, err := gradient.Weights(context.Background(), g)
	if err != nil {
		return nil, err
	}
	for _, w := range weights {
		for _, v := range w.Values {
			v.Const = cmp.Or(now[w.Name], v.Const)
		}
	}
	inferenceForm(g)
	var names []string
	for _, port := range t.model.Outputs() {
		names = append(names, port.Name)
	}
	return berth.FromModule(&ssa.Module{Graph: g, OutputNames: names}), nil
}

// Checkpoint is all that a trainer needs to go on: weights, moments and statistics by name, and the number of steps.
// encoding/gob writes and reads it.
type Checkpoint struct {
	Steps  int
	States map[string]*ndarray.Array
}

// Checkpoint copies the state of training.
func (t *Trainer) Checkpoint() (_ *Checkpoint, err error) {
	defer rescue.Into(&err)
	if err := t.enter(); err != nil {
		return nil, err
	}
	defer t.leave()
	c := &Checkpoint{Steps: t.Steps(), States: map[string]*ndarray.Array{}}
	for _, s := range t.states {
		if c.States[s.name], err = t.session.Cache(s.name); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Restore goes back to a checkpoint of a trainer with the same model and options. Nothing changes if it does not fit.
func (t *Trainer) Restore(c *Checkpoint) (err error) {
	defer rescue.Into(&err)
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave()
	if c == nil || c.Steps < 0 {
		return errors.New("there is no checkpoint, or its number of steps is negative")
	}
	known := map[string]bool{}
	for _, s := range t.states {
		a := c.States[s.name]
		shape, _ := s.typ.Static()
		if a == nil || a.DType != s.typ.DType || !slices.Equal(a.Shape, shape) {
			return fmt.Errorf("the checkpoint has no %q of type %s", s.name, s.typ)
		}
		if err := a.Check(); err != nil {
			return fmt.Errorf("the checkpoint's %q: %w", s.name, err)
		}
		known[s.name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(c.States)) { // what it has learned would be lost
		if !known[name] {
			return fmt.Errorf("the checkpoint has %q, which this trainer does not keep: it is of a trainer with other options, or of another model", name)
		}
	}
	for _, s := range t.states {
		if err := t.session.SetCache(s.name, c.States[s.name]); err != nil {
			return err
		}
	}
	t.step.Store(int64(c.Steps))
	return nil
}
