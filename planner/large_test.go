package planner_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/plannertest"
	"github.com/berth-onnx/berth/planner"
)

// shape draws a problem of one of the structures of plannertest.
func shape(t testing.TB, name string, n int, seed uint64) *planner.Problem {
	t.Helper()
	for _, s := range plannertest.Shapes() {
		if s.Name == name {
			return s.Draw(n, seed)
		}
	}
	require.Fail(t, "no shape is named "+name)
	return nil
}

// partial draws a problem of n buffers over a random graph.
func partial(n int) *planner.Problem {
	r := rand.New(rand.NewPCG(9, uint64(n)))
	p := &planner.Problem{Buffers: make([]planner.Buffer, n)}
	lives := make([]planner.Life, n)
	var edges [][2]int
	for i := range lives {
		p.Buffers[i] = planner.Buffer{Size: int64(1+r.IntN(1000)) * 64, Align: 64}
		lives[i] = planner.Life{Heads: []int{i}, Tails: []int{i}}
		if i > 0 {
			from := max(0, i-1-r.IntN(8))
			edges = append(edges, [2]int{from, i})
			lives[from].Tails = []int{i}
		}
	}
	order, err := planner.NewPartial(n, edges, lives)
	if err != nil {
		panic(err) // edges go upwards
	}
	p.Order = order
	return p
}

// TestShapes plans 2,000 buffers of every structure: the plan is valid and not far from the bound.
func TestShapes(t *testing.T) {
	planShapes(t, 2000, 1, map[string]float64{"scattered": 0.03, "gaps": 0.08})
}

// planShapes plans n buffers of every structure. The gap to the bound is at most as listed, or 0.02.
func planShapes(t *testing.T, n int, seed uint64, most map[string]float64) {
	for _, s := range plannertest.Shapes() {
		t.Run(s.Name, func(t *testing.T) {
			p := s.Draw(n, seed)
			begin := time.Now()
			plan := planWith(t, "auto", p)
			t.Logf("%d buffers: %.3f%% above the bound by %s in %v", len(p.Buffers), 100*plan.Gap(), plan.Stats.Winner, time.Since(begin))
			limit, ok := most[s.Name]
			if !ok {
				limit = 0.02
			}
			assert.LessOrEqual(t, plan.Gap(), limit)
		})
	}
}

// TestLarge plans 62,000 buffers of every structure.
func TestLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	planShapes(t, 62000, 2, map[string]float64{"scattered": 0.05, "gaps": 0.10, "tiles": 0.05})
}

// inTime plans under a context that ends after a while and returns how much later the plan comes.
func inTime(t *testing.T, name string, p *planner.Problem, after time.Duration) time.Duration {
	t.Helper()
	pl, err := planner.Get(name)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), after)
	defer cancel()
	begin := time.Now()
	s, err := pl.Plan(ctx, p)
	late := time.Since(begin) - after
	require.NoError(t, err, name)
	require.NoError(t, planner.Validate(p, s), name)
	assert.GreaterOrEqual(t, s.LowerBound, int64(1), name)
	return late
}

// lateness is allowed between the end of a context and the plan: far more than any machine needs, since this is no measurement,
// and far less than planning to the end would take on a busy one.
const lateness = 20 * time.Second

// TestEnded asks every planner for plans under a context that has ended already, and under one that ends while they prepare or
// search: there is a plan, soon.
func TestEnded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	problems := map[string]*planner.Problem{
		"scattered": shape(t, "scattered", 62000, 3),
		"gaps":      shape(t, "gaps", 600, 3),
		"partial":   partial(3000),
	}
	for _, name := range planner.Names() {
		for shape, p := range problems {
			for _, after := range []time.Duration{0, 80 * time.Millisecond} {
				late := inTime(t, name, p, after)
				assert.Less(t, late, lateness, "%s %s after %v", name, shape, after)
				if late > lateness/200 {
					t.Logf("%s %s: %v after the end at %v", name, shape, late.Round(time.Millisecond), after)
				}
			}
		}
	}
}

// TestDeterministicLarge plans large problems again with other numbers of processors.
func TestDeterministicLarge(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, s := range plannertest.Shapes() {
		p := s.Draw(5000, 4)
		runtime.GOMAXPROCS(1)
		first := planWith(t, "auto", p)
		runtime.GOMAXPROCS(4)
		assert.Equal(t, first, planWith(t, "auto", p), s.Name)
	}
}
