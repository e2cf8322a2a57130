package layout

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCut compares minimum cuts with the least of all assignments.
func TestCut(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		f := newNetwork()
		n := 2 + rng.IntN(7)
		for len(f.first) < n {
			f.vertex()
		}
		type edge struct{ u, v, c int }
		var edges []edge
		for range rng.IntN(3 * n) {
			e := edge{rng.IntN(n), rng.IntN(n), rng.IntN(9)}
			if e.u != e.v {
				edges = append(edges, e)
				f.edge(e.u, e.v, float64(e.c))
			}
		}
		costOf := func(blocked func(v int) bool) (cost int64) {
			for _, e := range edges {
				if blocked(e.u) && !blocked(e.v) {
					cost += int64(e.c)
				}
			}
			return cost
		}
		least := int64(1 << 40)
		for set := range 1 << n {
			if set&1 == 1 && set&2 == 0 {
				least = min(least, costOf(func(v int) bool { return set>>v&1 == 1 }))
			}
		}
		cost, blocked, err := f.cut(t.Context())
		require.NoError(t, err)
		require.Equal(t, least, cost, "seed %d", seed)
		require.Equal(t, least, costOf(func(v int) bool { return blocked[v] }), "seed %d", seed)
	}
}
