package planner

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLiveSet: the nearest members are those that going through all ranks finds.
func TestLiveSet(t *testing.T) {
	for _, ranks := range []int{1, 63, 64, 65, 5000, 20000} {
		s, rng := newLiveSet(ranks), rand.New(rand.NewPCG(uint64(ranks), 1))
		members := map[int]bool{}
		for range 2000 {
			if r := rng.IntN(ranks); rng.IntN(3) > 0 || len(members) > 20 {
				s.remove(r)
				delete(members, r)
				for k := range members { // few are left, far from each other
					if len(members) > 20 {
						s.remove(k)
						delete(members, k)
					}
				}
			} else {
				s.add(r)
				members[r] = true
			}
			r, below, from := rng.IntN(ranks), -1, -1
			for k := range members {
				if k < r {
					below = max(below, k)
				} else if from < 0 || k < from {
					from = k
				}
			}
			require.Equal(t, [2]int{below, from}, [2]int{s.below(r), s.from(r)}, "beside %d of %d", r, ranks)
		}
	}
}
