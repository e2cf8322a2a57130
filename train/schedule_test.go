package train_test

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/train"
)

// TestSchedules lists rates of some steps.
func TestSchedules(t *testing.T) {
	for _, c := range []struct {
		name     string
		schedule train.Schedule
		want     map[int]float64
	}{
		{"constant", train.Constant(0.5), map[int]float64{1: 0.5, 99: 0.5}},
		{"decay", train.Decay(1, 0.5, 10), map[int]float64{1: 1, 10: 1, 11: 0.5, 21: 0.25}},
		{"cosine", train.Cosine(1, 0.2, 10), map[int]float64{1: 1, 6: 0.6, 11: 0.2, 50: 0.2}},
		{"warmup", train.Warmup(4, train.Constant(2)), map[int]float64{1: 0.5, 2: 1, 4: 2, 5: 2}},
	} {
		for step, want := range c.want {
			assert.InDelta(t, want, c.schedule(step), 1e-12, "%s, step %d", c.name, step)
		}
	}
}

// repeated gives the same inputs a number of times.
func repeated(times int, err error, in ...ndarray.Value) iter.Seq2[[]ndarray.Value, error] {
	return func(yield func([]ndarray.Value, error) bool) {
		for range times {
			if !yield(in, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// TestFit takes a step for each element of the data, and ends with an error of the data, of what is told, or with a loss that is
// no number.
func TestFit(t *testing.T) {
	tr, err := train.New(t.Context(), parsed(t, perceptron, perceptronWeights()), train.Options{Loss: train.MeanSquaredError, Rate: train.Constant(0.2)})
	require.NoError(t, err)
	x, want := waves(1, 5, 4, 3), waves(0.5, 6, 4, 2)
	var losses []float64
	tell := func(step int, loss float64) error {
		losses = append(losses, loss)
		assert.Equal(t, len(losses), step)
		return nil
	}
	require.NoError(t, tr.Fit(t.Context(), repeated(5, nil, x, want), tell))
	require.Len(t, losses, 5)
	assert.Less(t, losses[4], losses[0])
	saved, err := tr.Checkpoint()
	require.NoError(t, err)
	broken := errors.New("broken")
	assert.ErrorIs(t, tr.Fit(t.Context(), repeated(1, broken, x, want), nil), broken)
	assert.ErrorIs(t, tr.Fit(t.Context(), repeated(3, nil, x, want), func(int, float64) error { return broken }), broken)
	for _, wrong := range []float64{math.NaN(), math.Inf(1)} {
		steps := tr.Steps() + 1
		told := false
		err := tr.Fit(t.Context(), repeated(2, nil, x, filled(wrong, 4, 2)), func(int, float64) error { told = true; return nil })
		assert.EqualError(t, err, fmt.Sprintf("the loss of step %d is %g: lower the rate, set ClipNorm (--clip), or look for what is no number in the data", steps, wrong))
		assert.False(t, told)
		assert.Equal(t, steps, tr.Steps())
		require.NoError(t, tr.Restore(saved))
	}
	assert.ErrorContains(t, tr.Fit(t.Context(), repeated(1, nil, x), nil), "2 inputs")
}
