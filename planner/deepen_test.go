package planner_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/plannertest"
	"github.com/berth-onnx/berth/planner"
)

// TestNoLimit: without a limit of work the exact search ends with a proof where a limited one does not, and never with
// a larger arena.
func TestNoLimit(t *testing.T) {
	more := 0
	for seed := range uint64(300) {
		p := plannertest.Random(rand.New(rand.NewPCG(seed, 11)), plannertest.Options{MaxBuffers: 16, MaxSize: 40})
		limited, err := planner.Exact{Budget: 1}.Plan(t.Context(), p)
		require.NoError(t, err)
		if limited.Proven() {
			continue
		}
		free, err := planner.Exact{Budget: planner.NoLimit}.Plan(t.Context(), p)
		require.NoError(t, err)
		assert.True(t, free.Proven(), "seed %d", seed)
		assert.LessOrEqual(t, free.ArenaBytes, limited.ArenaBytes, "seed %d", seed)
		more++
	}
	assert.Positive(t, more)
}
