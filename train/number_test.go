package train_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/train"
)

// TestNumbers: every number that options, optimizers, schedules and losses take is refused outside of its range, by its name, before
// anything is compiled, and taken at the ends of it.
func TestNumbers(t *testing.T) {
	const huge = 1e39 // beyond float32
	nan, inf := math.NaN(), math.Inf(1)
	finite := []float64{nan, inf, -inf, -1, -1e-9, huge}
	kept := []float64{nan, inf, -inf, -1, 1, 2, huge}
	optimizer := func(of train.Optimizer) train.Options { return train.Options{Optimizer: of} }
	rate := func(of train.Schedule) train.Options { return train.Options{Rate: of} }
	for _, c := range []struct {
		option string
		wrong  []float64
		right  []float64
		of     func(v float64) train.Options
	}{
		{"SGD decay", finite, []float64{0, 1}, func(v float64) train.Options { return optimizer(train.SGD(v)) }},
		{"Momentum momentum", kept, []float64{0, 0.999}, func(v float64) train.Options { return optimizer(train.Momentum(v, 0)) }},
		{"Momentum decay", finite, []float64{0, 2}, func(v float64) train.Options { return optimizer(train.Momentum(0.9, v)) }},
		{"Nesterov momentum", kept, []float64{0, 0.999}, func(v float64) train.Options { return optimizer(train.Nesterov(v, 0)) }},
		{"Nesterov decay", finite, []float64{0, 2}, func(v float64) train.Options { return optimizer(train.Nesterov(0.9, v)) }},
		{"Adam beta1", kept, []float64{0, 0.999}, func(v float64) train.Options { return optimizer(train.Adam(v, 0.999, 1e-8, 0)) }},
		{"Adam beta2", kept, []float64{0, 0.999}, func(v float64) train.Options { return optimizer(train.Adam(0.9, v, 1e-8, 0)) }},
		{"Adam epsilon", finite, []float64{0, 1}, func(v float64) train.Options { return optimizer(train.Adam(0.9, 0.999, v, 0)) }},
		{"Adam decay", finite, []float64{0, 1}, func(v float64) train.Options { return optimizer(train.Adam(0.9, 0.999, 1e-8, v)) }},
		{"AdamW beta1", kept, []float64{0, 0.999}, func(v float64) train.Options { return optimizer(train.AdamW(v, 0.999, 1e-8, 0)) }},
		{"AdamW beta2", kept, []float64{0, 0.999}, func(v float64) train.Options { return optimizer(train.AdamW(0.9, v, 1e-8, 0)) }},
		{"AdamW epsilon", finite, []float64{0, 1}, func(v float64) train.Options { return optimizer(train.AdamW(0.9, 0.999, v, 0)) }},
		{"AdamW decay", finite, []float64{0, 1}, func(v float64) train.Options { return optimizer(train.AdamW(0.9, 0.999, 1e-8, v)) }},
		{"Adagrad epsilon", finite, []float64{0, 1}, func(v float64) train.Options { return optimizer(train.Adagrad(v, 0)) }},
		{"Adagrad decay", finite, []float64{0, 1}, func(v float64) train.Options { return optimizer(train.Adagrad(1e-10, v)) }},
		{"Constant rate", finite[:5], []float64{0, 1}, func(v float64) train.Options { return rate(train.Constant(v)) }},
		{"Decay rate", finite[:5], []float64{0, 1}, func(v float64) train.Options { return rate(train.Decay(v, 0.5, 2)) }},
		{"Decay factor", finite[:5], []float64{0, 2}, func(v float64) train.Options { return rate(train.Decay(0.1, v, 2)) }},
		{"Decay every", []float64{0, -1, math.MinInt32}, []float64{1, 1e9}, func(v float64) train.Options { return rate(train.Decay(0.1, 0.5, int(v))) }},
		{"Cosine rate", finite[:5], []float64{0, 1}, func(v float64) train.Options { return rate(train.Cosine(v, 0, 2)) }},
		{"Cosine least", finite[:5], []float64{0, 1}, func(v float64) train.Options { return rate(train.Cosine(0.1, v, 2)) }},
		{"Cosine steps", []float64{0, -1}, []float64{1, 1e9}, func(v float64) train.Options { return rate(train.Cosine(0.1, 0, int(v))) }},
		{"Warmup steps", []float64{-1}, []float64{0, 1, 1e9}, func(v float64) train.Options { return rate(train.Warmup(int(v), train.Constant(0.1))) }},
		{"Constant rate", finite[:5], nil, func(v float64) train.Options { return rate(train.Warmup(3, train.Constant(v))) }},
		{"Options.Rate", []float64{huge, 1e300}, nil, func(v float64) train.Options { return rate(train.Constant(v)) }},
		{"Options.Rate", []float64{nan, inf, -1, huge}, []float64{0, 1}, func(v float64) train.Options { return rate(func(int) float64 { return v }) }},
		{"Options.ClipNorm", finite, []float64{0, 1}, func(v float64) train.Options { return train.Options{ClipNorm: v} }},
		{"Options.Accumulate", []float64{-1, math.MinInt32}, []float64{0, 1, 1e9}, func(v float64) train.Options { return train.Options{Accumulate: int(v)} }},
		{"Options.Budget", []float64{-1, -1e18}, []float64{0, 1e18}, func(v float64) train.Options { return train.Options{Budget: int64(v)} }},
		{"Huber delta", append(finite, 0), []float64{1e-3, 1}, func(v float64) train.Options { return train.Options{Loss: train.Huber(v)} }},
	} {
		made := func(v float64) error {
			o := c.of(v)
			if o.Loss == nil {
				o.Loss = train.MeanSquaredError
			}
			_, err := train.New(t.Context(), parsed(t, perceptron, perceptronWeights()), o)
			return err
		}
		for _, v := range c.wrong {
			t.Run(fmt.Sprintf("%s %g", c.option, v), func(t *testing.T) {
				var refused *berth.OptionError
				require.ErrorAs(t, made(v), &refused)
				assert.Equal(t, c.option, refused.Option)
				assert.NotEmpty(t, refused.Want)
				assert.Contains(t, refused.Got, fmt.Sprint(v))
			})
		}
		for _, v := range c.right {
			assert.NoError(t, made(v), "%s %g", c.option, v)
		}
	}
}

// TestNoSchedule: a warmup of nothing is refused by name.
func TestNoSchedule(t *testing.T) {
	_, err := train.New(t.Context(), parsed(t, perceptron, perceptronWeights()), train.Options{Loss: train.MeanSquaredError, Rate: train.Warmup(2, nil)})
	var refused *berth.OptionError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, berth.OptionError{Option: "Warmup then", Got: "nil", Want: "a schedule"}, *refused)
}

// TestRates: a rate that becomes none on the way ends its step and changes nothing, and so does one that the weights' type has not.
func TestRates(t *testing.T) {
	x, want := waves(1, 5, 4, 3), waves(0.5, 6, 4, 2)
	for _, rate := range []float64{math.NaN(), math.Inf(1), -1e-3, 1e39} {
		tr, err := train.New(t.Context(), parsed(t, perceptron, perceptronWeights()), train.Options{Loss: train.MeanSquaredError, Rate: func(step int) float64 {
			if step == 2 {
				return rate
			}
			return 0.1
		}})
		require.NoError(t, err)
		_, err = tr.Step(t.Context(), x, want)
		require.NoError(t, err)
		before, err := tr.Weight("w1")
		require.NoError(t, err)
		_, err = tr.Step(t.Context(), x, want)
		var refused *berth.OptionError
		require.ErrorAs(t, err, &refused, "%g", rate)
		assert.Equal(t, "Options.Rate", refused.Option)
		after, err := tr.Weight("w1")
		require.NoError(t, err)
		assert.Equal(t, before, after)
		assert.Equal(t, 1, tr.Steps())
	}
}
