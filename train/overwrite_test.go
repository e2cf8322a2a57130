package train_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/train"
)

// aligned is the size of a place of some bytes.
func aligned(n int64) int64 { return (n + 63) &^ 63 }

// TestWeightsInPlace: every weight, moment and sum of derivatives has one place, outside of the arena, which steps overwrite: what is
// overwritten is not copied.
func TestWeightsInPlace(t *testing.T) {
	for model, m := range pytorchModels {
		for name, o := range optimizers {
			for _, every := range []int{1, 3} {
				if model != "mlp" && name != "adam" || (model != "mlp" && model != "cnn") && every > 1 {
					continue // each model once, each optimizer once
				}
				t.Run(model+" "+name, func(t *testing.T) {
					options := train.Options{Loss: m.loss, Optimizer: o, Rate: train.Constant(0.01), Accumulate: every, Compile: []berth.Option{berth.WithThreads(1)}}
					tr, err := train.New(t.Context(), parsed(t, m.text, m.weights), options)
					require.NoError(t, err)
					places := tr.Places()
					for state, bytes := range tr.States() {
						assert.Equal(t, aligned(bytes), places[state], "the place of %q", state)
					}
					for range 3 {
						_, err = tr.Step(t.Context(), m.in...)
						require.NoError(t, err)
					}
				})
			}
		}
	}
}
