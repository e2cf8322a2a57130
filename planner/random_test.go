package planner_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/planner/plannertest"
)

// TestRandomProblems judges random problems of every kind for about a second; the command internal/tools/planstress judges
// as many as one likes.
func TestRandomProblems(t *testing.T) {
	deadline := time.Now().Add(time.Second)
	for index := uint64(0); time.Now().Before(deadline); index++ {
		c, err := plannertest.Draw(7, index, "")
		require.NoError(t, err)
		require.NoError(t, plannertest.Judge(context.Background(), &c).Err(), "problem %d", index)
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
			Fixed: features&8 != 0, Groups: features&16 != 0, Partial: features&32 != 0,
		}
		p := plannertest.Random(rand.New(rand.NewPCG(seed, 3)), o)
		require.NoError(t, plannertest.JudgeProblem(context.Background(), p))
	})
}

// large draws an interval problem of n buffers: long lives seldom, short ones often, few sizes.
func large(n int, seed uint64) *planner.Problem {
	r := rand.New(rand.NewPCG(seed, 4))
	p := &planner.Problem{Buffers: make([]planner.Buffer, n)}
	for i := range p.Buffers {
		lo := r.IntN(n)
		width := 1 + r.IntN(1+n>>(1+r.IntN(12)))
		p.Buffers[i] = planner.Buffer{Size: int64(1+r.IntN(1<<r.IntN(12))) * 64, Align: 64, Lo: lo, Hi: lo + width}
	}
	return p
}

// TestDeterministic plans the same problems twice, the second time with other work going on.
func TestDeterministic(t *testing.T) {
	problems := []*planner.Problem{large(300, 1)}
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

// TestCancelled asks for plans with a context that has ended: there must be one.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p := large(400, 2)
	for _, name := range planner.Names() {
		pl, err := planner.Get(name)
		require.NoError(t, err)
		s, err := pl.Plan(ctx, p)
		require.NoError(t, err, name)
		assert.NoError(t, planner.Validate(p, s), name)
	}
}

// TestDeadline gives the slow planners a tenth of a second on a hard problem.
func TestDeadline(t *testing.T) {
	p := large(20000, 3)
	for _, name := range []string{"auto", "exact", "hill-climb", "nnc", "nnc-best"} {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		pl, err := planner.Get(name)
		require.NoError(t, err)
		begin := time.Now()
		s, err := pl.Plan(ctx, p)
		require.NoError(t, err)
		require.NoError(t, planner.Validate(p, s))
		assert.Less(t, time.Since(begin), 20*time.Second, name)
		t.Logf("%s: %.2f%% in %v", name, 100*s.Gap(), time.Since(begin))
	}
}

// TestLarge plans 62,000 buffers, with and without holes and groups.
func TestLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	p := large(62000, 4)
	q := large(62000, 5)
	for i := range q.Buffers {
		if b := &q.Buffers[i]; i%10 == 0 && b.Hi > b.Lo+3 {
			b.Holes = []planner.Range{{Lo: b.Lo + 1, Hi: b.Lo + 2}}
		}
		if b := &q.Buffers[i]; i%100 == 1 && b.Lo > q.Buffers[i-1].Hi {
			b.Group, q.Buffers[i-1].Group = i, i
		}
	}
	for k, p := range []*planner.Problem{p, q} {
		begin := time.Now()
		s := planWith(t, "auto", p)
		t.Logf("%d: %.2f%% above the bound by %s in %v", k, 100*s.Gap(), s.Stats.Winner, time.Since(begin))
	}
}
