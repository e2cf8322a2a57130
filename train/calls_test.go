package train_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/train"
)

// TestCallsAtOnce: of calls at the same time all but one are refused, and those that are not leave a trainer that has done whole steps.
func TestCallsAtOnce(t *testing.T) {
	tr, err := train.New(t.Context(), parsed(t, perceptron, perceptronWeights()), train.Options{Loss: train.MeanSquaredError})
	require.NoError(t, err)
	x, want := waves(1, 5, 4, 3), waves(0.5, 6, 4, 2)
	saved, err := tr.Checkpoint()
	require.NoError(t, err)
	calls := map[string]func() error{
		"Step": func() error { _, err := tr.Step(t.Context(), x, want); return err },
		"Fit":  func() error { return tr.Fit(t.Context(), repeated(2, nil, x, want), nil) },
		"Restore": func() error {
			return tr.Restore(saved)
		},
		"Checkpoint": func() error { _, err := tr.Checkpoint(); return err },
		"Model":      func() error { _, err := tr.Model(); return err },
		"Weight":     func() error { _, err := tr.Weight("w1"); tr.Steps(); return err },
	}
	var all sync.WaitGroup
	for name, call := range calls {
		all.Go(func() {
			for range 50 {
				if err := call(); err != nil {
					assert.ErrorIs(t, err, berth.ErrSessionInUse, name)
				}
			}
		})
	}
	all.Wait()
	var within train.Options
	stepping := false // New asks for the first rate
	within.Loss, within.Rate = train.MeanSquaredError, func(int) float64 {
		for name, call := range calls {
			if stepping {
				assert.ErrorIs(t, call(), berth.ErrSessionInUse, name)
			}
		}
		return 0.1
	}
	tr, err = train.New(t.Context(), parsed(t, perceptron, perceptronWeights()), within)
	require.NoError(t, err)
	stepping = true
	_, err = tr.Step(t.Context(), x, want)
	require.NoError(t, err)
	assert.Equal(t, 1, tr.Steps())
}

// TestRestoreRefuses: a checkpoint that is wrong in any state changes none.
func TestRestoreRefuses(t *testing.T) {
	tr, err := train.New(t.Context(), parsed(t, perceptron, perceptronWeights()), train.Options{Loss: train.MeanSquaredError, Optimizer: optimizers["adam"]})
	require.NoError(t, err)
	_, err = tr.Step(t.Context(), waves(1, 5, 4, 3), waves(0.5, 6, 4, 2))
	require.NoError(t, err)
	before, err := tr.Checkpoint()
	require.NoError(t, err)
	for name := range before.States {
		for what, damage := range map[string]func(a *ndarray.Array, c *train.Checkpoint){
			"no data":        func(a *ndarray.Array, _ *train.Checkpoint) { a.Data = nil },
			"too much data":  func(a *ndarray.Array, _ *train.Checkpoint) { a.Data = append(a.Data, 0) },
			"another shape":  func(a *ndarray.Array, _ *train.Checkpoint) { a.Shape = append(a.Shape, 1) },
			"another type":   func(a *ndarray.Array, _ *train.Checkpoint) { a.DType = ndarray.Int32 },
			"none":           func(_ *ndarray.Array, c *train.Checkpoint) { c.States[name] = nil },
			"negative steps": func(_ *ndarray.Array, c *train.Checkpoint) { c.Steps = -1 },
		} {
			c := &train.Checkpoint{Steps: 7, States: map[string]*ndarray.Array{}}
			for n, a := range before.States {
				c.States[n] = ndarray.Must(a.DType, a.Shape...)
			}
			damage(c.States[name], c)
			require.Error(t, tr.Restore(c), "%s of %s", what, name)
			after, err := tr.Checkpoint()
			require.NoError(t, err)
			require.Equal(t, before, after, "%s of %s", what, name)
		}
	}
	assert.Error(t, tr.Restore(nil))
}

// TestFitEnds: what the caller's functions do wrong is an error of theirs, and a context that has ended is no success.
func TestFitEnds(t *testing.T) {
	x, want := waves(1, 5, 4, 3), waves(0.5, 6, 4, 2)
	batch, broken := []ndarray.Value{x, want}, errors.New("broken")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	for _, c := range []struct {
		name  string
		ctx   context.Context
		data  func(yield func([]ndarray.Value, error) bool)
		each  func(int, float64) error
		of    string
		is    error
		steps int
	}{
		{"a panic of each", t.Context(), repeated(3, nil, batch...), func(int, float64) error { panic(broken) }, "the function given to Fit", broken, 1},
		{"a panic of the data", t.Context(), func(func([]ndarray.Value, error) bool) { panic(broken) }, nil, "the data given to Fit", broken, 0},
		{"data that goes on", t.Context(), func(yield func([]ndarray.Value, error) bool) {
			for {
				yield(batch, nil)
			}
		}, func(int, float64) error { return broken }, "the data given to Fit", broken, 1},
		{"data that goes on behind an error of its own", t.Context(), func(yield func([]ndarray.Value, error) bool) {
			for {
				yield(nil, broken)
			}
		}, nil, "the data given to Fit", broken, 0},
		{"no data", ended, repeated(0, nil), nil, "", broken, 0},
		{"a context that has ended", ended, repeated(3, nil, batch...), nil, "", context.Canceled, 0},
		{"no data at all", t.Context(), repeated(0, nil), nil, "", nil, 0},
	} {
		tr, err := train.New(t.Context(), parsed(t, perceptron, perceptronWeights()), train.Options{Loss: train.MeanSquaredError})
		require.NoError(t, err, c.name)
		err = tr.Fit(c.ctx, c.data, c.each)
		assert.ErrorIs(t, err, c.is, c.name)
		var of *berth.PanicError
		if errors.As(err, &of) {
			assert.Equal(t, c.of, of.Of, c.name)
		} else {
			assert.Empty(t, c.of, c.name)
		}
		assert.Equal(t, c.steps, tr.Steps(), c.name)
	}
	tr, err := train.New(t.Context(), parsed(t, perceptron, perceptronWeights()), train.Options{Loss: train.MeanSquaredError})
	require.NoError(t, err)
	var kept func([]ndarray.Value, error) bool
	require.NoError(t, tr.Fit(t.Context(), func(yield func([]ndarray.Value, error) bool) { kept = yield }, nil))
	assert.Panics(t, func() { kept(batch, nil) }, "behind the end")
}

// TestNewEnds: a context that has ended, or ends on the way, is what New says.
func TestNewEnds(t *testing.T) {
	cause := errors.New("the caller left")
	for _, c := range []struct {
		name   string
		ahead  bool // the context has ended before, else it does while the loss is written
		learn  []string
		budget int64
	}{{"at once", true, nil, 0}, {"some learned", true, []string{"w1"}, 0}, {"on the way", false, nil, 0}, {"within memory", false, nil, 1 << 20}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if c.ahead {
			cancel(cause)
		}
		loss := func(b *train.Builder, y *ssa.Value) *ssa.Value {
			cancel(cause)
			return train.MeanSquaredError(b, y)
		}
		_, err := train.New(ctx, parsed(t, perceptron, perceptronWeights()), train.Options{Loss: loss, Learn: c.learn, Budget: c.budget})
		assert.ErrorIs(t, err, context.Canceled, c.name)
		assert.ErrorIs(t, err, cause, c.name)
	}
}

// TestTornWeights: a step that fails among the changes of weights leaves nothing that can be read as weights, until the trainer is restored.
func TestTornWeights(t *testing.T) {
	nodes, last := 0, 0
	hook := &berth.Hook{Before: func(context.Context, berth.Event) {
		if nodes++; nodes == last {
			panic("the caller's own")
		}
	}}
	tr, err := train.New(t.Context(), parsed(t, perceptron, perceptronWeights()), train.Options{Loss: train.MeanSquaredError, Compile: []berth.Option{berth.WithHook(hook)}})
	require.NoError(t, err)
	x, want := waves(1, 5, 4, 3), waves(0.5, 6, 4, 2)
	saved, err := tr.Checkpoint()
	require.NoError(t, err)
	_, err = tr.Step(t.Context(), x, want)
	require.NoError(t, err)
	nodes, last = 0, nodes
	_, err = tr.Step(t.Context(), x, want)
	require.ErrorContains(t, err, "the caller's own")
	for name, call := range map[string]func() error{
		"Step":        func() error { _, err := tr.Step(t.Context(), x, want); return err },
		"Checkpoint":  func() error { _, err := tr.Checkpoint(); return err },
		"Model":       func() error { _, err := tr.Model(); return err },
		"Weight":      func() error { _, err := tr.Weight("w1"); return err },
		"CheckFinite": func() error { return tr.CheckFinite(t.Context()) },
	} {
		var torn *berth.TornError
		assert.ErrorAs(t, call(), &torn, name)
	}
	require.NoError(t, tr.Restore(saved))
	_, err = tr.Step(t.Context(), x, want)
	require.NoError(t, err)
}

// TestCheckFinite: what is no finite number is found in every weight, without copies.
func TestCheckFinite(t *testing.T) {
	tr, err := train.New(t.Context(), parsed(t, perceptron, perceptronWeights()), train.Options{Loss: train.MeanSquaredError, Optimizer: train.Momentum(0.9, 0)})
	require.NoError(t, err)
	require.NoError(t, tr.CheckFinite(t.Context()))
	require.NoError(t, tr.CheckFinite(nil))
	for _, name := range tr.Learned() {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			c, err := tr.Checkpoint()
			require.NoError(t, err)
			w := ndarray.Slice[float32](c.States[name])
			was := w[len(w)-1]
			w[len(w)-1] = float32(v)
			require.NoError(t, tr.Restore(c))
			assert.EqualError(t, tr.CheckFinite(t.Context()), fmt.Sprintf("weight %q has the element %g after step 0", name, v))
			w[len(w)-1] = was
			require.NoError(t, tr.Restore(c))
		}
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the caller's own")
	cancel(cause)
	require.ErrorIs(t, tr.CheckFinite(ended), context.Canceled)
	require.ErrorIs(t, tr.CheckFinite(ended), cause)
	require.Error(t, new(train.Trainer).CheckFinite(t.Context()))
	large := parsed(t, `in %x: float32[1,512] in %w: float32[512,512] %y = MatMul(%x, %w) out %y`, map[string]*ndarray.Array{"w": waves(0.1, 1, 512, 512)})
	tr, err = train.New(t.Context(), large, train.Options{Loss: train.MeanSquaredError})
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.NoError(t, tr.CheckFinite(t.Context()))
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(512*512), "a copy has four times as much")
}
