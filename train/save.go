package train

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Weight is a copy of a weight as it is now, or of a statistic of a batch normalization.
func (t *Trainer) Weight(name string) (*ndarray.Array, error) {
	if t == nil || t.session == nil {
		return nil, errors.New("the trainer was not made by New")
	}
	if !slices.ContainsFunc(t.states, func(s state) bool { return s.name == name }) {
		return nil, fmt.Errorf("no weight is called %q that steps change", name)
	}
	return t.session.Cache(name)
}

// Model is the model with the weights as they are now, dropouts and batch normalizations in the form of inference. It shares what was not learned with the model given to [New].
func (t *Trainer) Model() (_ *berth.Model, err error) {
	defer rescue.Into(&err)
	if t == nil || t.session == nil {
		return nil, errors.New("the trainer was not made by New")
	}
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
	g.Walk(func(g *ssa.Graph) {
		for _, v := range g.Values() {
			if v != nil && v.Const != nil && now[v.Name] != nil && v.Const.Equal(t.constants[v.Name]) {
				v.Const = now[v.Name]
			}
		}
	})
	inferenceForm(g)
	var names []string
	for _, port := range t.model.Outputs() {
		names = append(names, port.Name)
	}
	return berth.FromModule(&ssa.Module{Graph: g, OutputNames: names}), nil
}

// Checkpoint is all that a trainer needs to go on: weights, moments and statistics by name, and the number of steps.
type Checkpoint struct {
	Steps  int
	States map[string]*ndarray.Array
}

// Checkpoint copies the state of training.
func (t *Trainer) Checkpoint() (_ *Checkpoint, err error) {
	if t == nil || t.session == nil {
		return nil, errors.New("the trainer was not made by New")
	}
	c := &Checkpoint{Steps: t.step, States: map[string]*ndarray.Array{}}
	for _, s := range t.states {
		if c.States[s.name], err = t.session.Cache(s.name); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Restore goes back to a checkpoint of a trainer with the same model and options. Nothing changes if it does not fit.
func (t *Trainer) Restore(c *Checkpoint) error {
	if t == nil || t.session == nil || c == nil {
		return errors.New("restoring needs a trainer made by New and a checkpoint")
	}
	for _, s := range t.states {
		a := c.States[s.name]
		shape, _ := s.typ.Static()
		if a == nil || a.DType != s.typ.DType || !slices.Equal(a.Shape, shape) {
			return fmt.Errorf("the checkpoint has no %q of type %s", s.name, s.typ)
		}
	}
	for _, s := range t.states {
		if err := t.session.SetCache(s.name, c.States[s.name]); err != nil {
			return err
		}
	}
	t.step = c.Steps
	return nil
}
