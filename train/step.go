package train

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
)

// Steps of training: one, or one for each element of the data.

// Step computes the loss of inputs, in the order of [Trainer.Inputs], with the weights that it finds, and changes the
// weights where they lie. It allocates nothing. Labels of classes that are none are a [*LabelError], before anything changes. A step whose context ends before the first weight changes leaves all as they were;
// from then on it goes on to its end. Should it fail there, further steps, and reading the weights, are refused with a [berth.TornError]
// until [Trainer.Restore].
func (t *Trainer) Step(ctx context.Context, inputs ...ndarray.Value) (loss float64, err error) {
	defer rescue.Into(&err)
	if err := t.enter(); err != nil {
		return 0, err
	}
	defer t.leave()
	if len(inputs) != len(t.inputs) {
		return 0, fmt.Errorf("a step takes %d inputs, got %d", len(t.inputs), len(inputs))
	}
	if err := t.checkLabels(inputs); err != nil {
		return 0, err
	}
	copy(t.args, inputs)
	every := max(t.options.Accumulate, 1)
	step := int(t.step.Load())
	change := step/every + 1
	scalars := t.scalars
	if t.draws {
		scalars[0].SetInt(0, int64(step))
		scalars = scalars[1:]
	}
	rate, err := t.options.rateOf(change)
	if err != nil {
		return 0, err
	}
	if scalars[0].SetFloat(0, rate); math.IsInf(scalars[0].Float(0), 0) {
		return 0, number{option: rateOption, value: rate}.fits(scalars[0].DType)
	}
	for i := range t.options.Optimizer.scalars {
		scalars[1+i].SetFloat(0, t.options.Optimizer.scalar(i, change))
	}
	if every > 1 {
		scalars[len(scalars)-1].SetFloat(0, float64(step%every/(every-1)))
	}
	for i, a := range t.scalars {
		t.args[len(inputs)+i] = a
	}
	out, err := t.session.Run(ctx, t.args)
	if err != nil {
		return 0, err
	}
	t.step.Add(1)
	return out[0].(*ndarray.Array).Float(0), nil
}

// Fit takes a step for each element of the data, which are inputs in the order of [Trainer.Inputs], and tells of the loss of
// each. It ends with the data, with an error of the data, of a step or of each, when the loss is no number, or with the context.
func (t *Trainer) Fit(ctx context.Context, data iter.Seq2[[]ndarray.Value, error], each func(step int, loss float64) error) (err error) {
	defer rescue.Into(&err)
	switch {
	case data == nil:
		return errors.New("no data is given")
	case ctx == nil:
		return errors.New("training needs a context")
	case ctx.Err() != nil:
		return rescue.WithCause(ctx, ctx.Err())
	}
	ended := false
	defer func() { ended = true }()
	wrong := reading(data, func(inputs []ndarray.Value, wrong error) bool {
		if ended {
			panic(errors.New("it goes on after it was told to end"))
		}
		if err = wrong; err == nil {
			err = t.fit(ctx, inputs, each)
		}
		ended = err != nil
		return !ended
	})
	switch {
	case wrong != nil:
		return errors.Join(err, wrong)
	case err == nil:
		err = rescue.WithCause(ctx, ctx.Err())
	}
	return err
}

// reading goes through data; a panic of it is its error.
func reading(data iter.Seq2[[]ndarray.Value, error], yield func([]ndarray.Value, error) bool) (err error) {
	defer rescue.Into(&err)
	rescue.Call("the data given to Fit", func() { data(yield) })
	return nil
}

// fit takes a step and tells of its loss.
func (t *Trainer) fit(ctx context.Context, inputs []ndarray.Value, each func(step int, loss float64) error) (err error) {
	defer rescue.Into(&err)
	loss, err := t.Step(ctx, inputs...)
	if err != nil {
		return err
	}
	step := t.Steps()
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return fmt.Errorf("the loss of step %d is %g: lower the rate, set ClipNorm (--clip), or look for what is no number in the data", step, loss)
	}
	if each != nil {
		rescue.Call("the function given to Fit", func() { err = each(step, loss) })
	}
	return err
}

// Steps is how many steps were taken.
func (t *Trainer) Steps() int {
	if t == nil {
		return 0
	}
	return int(t.step.Load())
}

// rateOf is the rate of a change, and what is wrong with it or its schedule.
func (o *Options) rateOf(change int) (rate float64, err error) {
	rate, err = called(o.Rate, change)
	if err != nil {
		var wrong *berth.OptionError // of a schedule of this package
		if errors.As(err, &wrong) {
			return 0, wrong
		}
		return 0, err
	}
	if n := notNegative(rateOption, rate); n.check() != nil {
		return 0, &berth.OptionError{Option: rateOption, Got: fmt.Sprintf("%g in change %d", rate, change), Want: n.want}
	}
	return rate, nil
}

// called is what a schedule returns; a panic of it is an error.
func called(s Schedule, change int) (rate float64, err error) {
	defer rescue.Into(&err)
	rescue.Call(rateOption, func() { rate = s(change) })
	return rate, nil
}
