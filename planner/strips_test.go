package planner

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStripIndex places the same items by conflict lists and by shelves: every fit is the same for plain intervals.
// Time is long enough for several levels of strips.
func TestStripIndex(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 8))
		p := &Problem{Buffers: make([]Buffer, 6000), Align: []int64{1, 1, 8, 64}[seed]}
		for i := range p.Buffers {
			lo := r.IntN(6000)
			p.Buffers[i] = Buffer{Size: int64(1 + r.IntN(300)), Lo: lo, Hi: lo + 1 + r.IntN(1+r.IntN(2000)/(1+r.IntN(100)))}
			if r.IntN(50) == 0 {
				p.Buffers[i].Align = 3
			}
		}
		m, err := prepare(t.Context(), p)
		require.NoError(t, err)
		lists, shelves := newBoard(m), newBoard(m)
		m.conflicts()
		lists.strips, shelves.strips = nil, newStripIndex(m)
		require.Greater(t, len(shelves.strips.level), 2)
		for i := range m.items {
			require.Equal(t, lists.lowest(i), shelves.lowest(i), "seed %d item %d", seed, i)
			at := lists.tightest(i)
			require.Equal(t, at, shelves.tightest(i), "seed %d item %d", seed, i)
			lists.put(i, at)
			shelves.put(i, at)
		}
		assert.Positive(t, shelves.strips.made)
	}
}

// TestRuns joins random runs and compares with a set of bytes.
func TestRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 8))
	for range 200 {
		var list runs
		var taken [64]bool
		for range 20 {
			lo := r.Int64N(60)
			x := forbidden{lo, lo + 1 + r.Int64N(4)}
			list.add(x)
			for b := x.lo; b < x.hi; b++ {
				taken[b] = true
			}
		}
		var again [64]bool
		end := int64(-1)
		for _, x := range list {
			require.Greater(t, x.lo, end, "runs neither overlap nor touch")
			end = x.hi
			for b := x.lo; b < x.hi; b++ {
				again[b] = true
			}
		}
		assert.Equal(t, taken, again)
	}
}
