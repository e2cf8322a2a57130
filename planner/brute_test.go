package planner_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/plannertest"
	"github.com/berth-onnx/berth/planner"
)

// optimum tries every offset of every buffer, with nothing but the rules of the problem.
func optimum(p *planner.Problem, limit int64) int64 {
	order := p.Order
	if order == nil {
		order = planner.Intervals{Buffers: p.Buffers}
	}
	at := make([]int64, len(p.Buffers))
	best := limit
	fits := func(i int) bool {
		b := &p.Buffers[i]
		for j := range i {
			c := &p.Buffers[j]
			if b.Size > 0 && c.Size > 0 && at[i] < at[j]+c.Size && at[j] < at[i]+b.Size && order.Interfere(i, j) {
				return false
			}
		}
		return true
	}
	var try func(i int, height int64)
	try = func(i int, height int64) {
		if i == len(at) {
			best = min(best, height)
			return
		}
		b := &p.Buffers[i]
		for at[i] = 0; at[i]+b.Size < best; at[i]++ {
			if at[i]%max(b.Align, 1) == 0 && at[i]%max(p.Align, 1) == 0 && fits(i) {
				try(i+1, max(height, at[i]+b.Size))
			}
		}
	}
	try(0, 0)
	return best
}

// TestOptimum holds the search of plannertest, which tries every order of buffers, against the one above, which tries every offset.
func TestOptimum(t *testing.T) {
	deadline := time.Now().Add(time.Second)
	for seed := uint64(0); time.Now().Before(deadline); seed++ {
		r := rand.New(rand.NewPCG(seed, 2))
		o := plannertest.Pick(r)
		o.MaxBuffers, o.MaxSize, o.Partial = 1+r.IntN(6), 1+r.IntN(6), false
		p := plannertest.Random(r, o)
		s := planWith(t, "exact", p)
		if s.ArenaBytes > 30 {
			continue // too many offsets to try
		}
		want := optimum(p, s.ArenaBytes+1)
		require.Equal(t, want, (&plannertest.Case{Problem: p}).Optimum(s.ArenaBytes+1), "seed %d", seed)
		require.Equal(t, want, s.ArenaBytes, "seed %d", seed)
		require.LessOrEqual(t, s.LowerBound, want, "seed %d", seed)
	}
}
