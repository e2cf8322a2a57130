package planner_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/plannertest"
	"github.com/berth-onnx/berth/planner"
)

// TestRandomProblems verifies random problems of every kind for about a second; the command internal/tools/planstress verifies
// as many as one likes.
func TestRandomProblems(t *testing.T) {
	deadline := time.Now().Add(time.Second)
	for index := uint64(0); time.Now().Before(deadline); index++ {
		c, err := plannertest.Draw(7, index, "")
		require.NoError(t, err)
		require.NoError(t, plannertest.Verify(context.Background(), &c).Err(), "problem %d", index)
	}
}

// FuzzPlanners lets the fuzzer choose the seed and the features.
func FuzzPlanners(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, uint8(1+seed*5), uint8(1+seed*3), uint8(1+seed*seed), uint8(seed*37))
	}
	f.Fuzz(func(t *testing.T, seed uint64, buffers, points, size, features uint8) {
		o := plannertest.Options{
			MaxBuffers: 1 + int(buffers)%50, MaxTime: 1 + int(points)%60, MaxSize: 1 + int(size),
			Zero: features&1 != 0, Align: features&2 != 0, Holes: features&4 != 0,
			Partial: features&8 != 0,
		}
		p := plannertest.Random(rand.New(rand.NewPCG(seed, 3)), o)
		require.NoError(t, plannertest.VerifyProblem(context.Background(), p))
	})
}

// TestDeterministic plans the same problems twice, the second time with other work going on.
func TestDeterministic(t *testing.T) {
	problems := []*planner.Problem{shape(t, "scattered", 300, 1)}
	for seed := range uint64(20) {
		problems = append(problems, plannertest.Random(rand.New(rand.NewPCG(seed, 5)), plannertest.All))
	}
	for _, name := range planner.Names() {
		for k, p := range problems {
			first := planWith(t, name, p)
			go planWith(t, "best-fit", problems[0])
			assert.Equal(t, first, planWith(t, name, p), "%s %d", name, k)
		}
	}
}
