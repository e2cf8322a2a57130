//go:build unix

package train_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/train"
)

// TestHalfTheActivations: the larger models learn the same in an arena that is less by half of the activations.
func TestHalfTheActivations(t *testing.T) {
	for name, m := range benchModels {
		if name == "mlp" {
			continue // its weights are what it holds
		}
		t.Run(name, func(t *testing.T) {
			o := train.Options{Loss: m.loss, Optimizer: train.Momentum(0.9, 0), Rate: train.Constant(1e-4), Compile: []berth.Option{berth.WithThreads(1)}}
			free, err := train.New(t.Context(), parsed(t, m.text, m.weights), o)
			require.NoError(t, err)
			o.Budget = free.Plan().ArenaBytes - free.Activations()/2
			tight, err := train.New(t.Context(), parsed(t, m.text, m.weights), o)
			require.NoError(t, err)
			t.Logf("%s: %d of %d bytes, budget %d", tight.Kept(), tight.Plan().ArenaBytes, free.Plan().ArenaBytes, o.Budget)
			assert.Equal(t, name != "gru", free.Activations() > 0) // whose peak is in the backward pass and has none
			assert.LessOrEqual(t, tight.Plan().ArenaBytes, o.Budget)
			tight.Poison()
			learnAlike(t, free, tight, 5, m.in...)
		})
	}
}
