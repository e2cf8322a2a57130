package planner

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRanksAreThoseOfSorting compares what is ranked by counting with what sorting finds, over few and many sizes, offsets and points.
func TestRanksAreThoseOfSorting(t *testing.T) {
	for _, kinds := range []int{1, 3, 40, 100_000} { // sizes, and how far apart points lie
		t.Run(fmt.Sprint(kinds), func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, uint64(kinds)))
			p, offsets := &Problem{}, []int64(nil)
			for range 400 {
				lo := kinds * r.IntN(200)
				p.Buffers = append(p.Buffers, Buffer{Size: int64(r.IntN(kinds)), Lo: lo - 50, Hi: lo + 1 + kinds*r.IntN(9)})
				offsets = append(offsets, int64(64*r.IntN(kinds)))
			}
			m := newModel(p, func() bool { return false })
			require.Equal(t, m.sortedItems(func(a, b *item) int { return cmp.Compare(b.size, a.size) }), m.bySize())

			byRank, rank := rankByOffset(offsets)
			require.True(t, slices.IsSortedFunc(byRank, func(a, b int) int { return cmp.Or(cmp.Compare(offsets[a], offsets[b]), a-b) }))
			for i, b := range p.Buffers {
				require.Equal(t, i, byRank[rank[i]])
				if b.Size > 0 {
					require.Equal(t, []int{b.Lo, b.Hi}, []int{m.times[m.items[i].lo], m.times[m.items[i].hi]})
				}
			}
			require.True(t, slices.IsSorted(m.times) && len(slices.Compact(slices.Clone(m.times))) == len(m.times))
		})
	}
}
