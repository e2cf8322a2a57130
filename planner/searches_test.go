package planner

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSearchesAgree asks both exact searches whether plans of some capacity exist, for plain problems, where both can
// answer: they share no pruning, so a wrong refutation of either shows.
func TestSearchesAgree(t *testing.T) {
	deadline := time.Now().Add(2 * time.Second)
	settled := 0
	never := func() bool { return false }
	for seed := uint64(0); time.Now().Before(deadline); seed++ {
		r := rand.New(rand.NewPCG(seed, 6))
		span, most := 2+r.IntN(14), 1+r.IntN(1+r.IntN(40))
		p := &Problem{Buffers: make([]Buffer, 2+r.IntN(13)), Align: []int64{1, 1, 4}[r.IntN(3)]}
		for i := range p.Buffers {
			lo := r.IntN(span)
			p.Buffers[i] = Buffer{Size: int64(1 + r.IntN(most)), Lo: lo, Hi: lo + 1 + r.IntN(span-lo)}
		}
		m, err := prepare(t.Context(), p)
		require.NoError(t, err)
		low, _ := m.bound()
		pad := m.skylineAlign()
		require.Positive(t, pad)
		rects, sections := m.cutSections(m.byLo())
		for k := range rects {
			size := rects[k].size
			rects[k].size = alignUp(size, pad)
			rects[k].pad = rects[k].size - size
		}
		sky, can := newSkysearch(rects, sections), newCanonical(m)
		for capacity := low - 1; capacity <= low+6; capacity++ {
			a, b := sky.run(capacity, 20000, never), can.run(capacity, 20000, never)
			if a != cutOff && b != cutOff {
				require.Equal(t, b, a, "seed %d capacity %d", seed, capacity)
				settled++
			}
		}
	}
	require.Greater(t, settled, 100)
}
