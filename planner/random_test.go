package planner_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/planner/plannertest"
)

// TestRandomProblems plans random problems with every planner for about a second.
func TestRandomProblems(t *testing.T) {
	deadline := time.Now().Add(time.Second)
	for seed := uint64(0); time.Now().Before(deadline); seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		p := plannertest.Random(r, plannertest.Pick(r))
		require.NoError(t, p.Check(), "seed %d", seed)
		for _, name := range planner.Names() {
			pl, err := planner.Get(name)
			require.NoError(t, err)
			s, err := pl.Plan(context.Background(), p)
			require.NoError(t, err, "seed %d %s", seed, name)
			require.NoError(t, planner.Validate(p, s), "seed %d %s", seed, name)
		}
	}
}
