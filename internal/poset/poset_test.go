package poset

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOrder(t *testing.T) {
	d, err := New(6, [][2]int{{0, 1}, {1, 2}, {0, 3}, {2, 4}, {3, 4}, {0, 4}, {0, 4}})
	require.NoError(t, err)
	hops := [][]int{
		{0, 1, 2, 1, 3, 0},
		{0, 0, 1, 0, 2, 0},
		{0, 0, 0, 0, 1, 0},
		{0, 0, 0, 0, 1, 0},
		{0, 0, 0, 0, 0, 0},
		{0, 0, 0, 0, 0, 0},
	}
	for a := range hops {
		for b, want := range hops[a] {
			assert.Equal(t, want, d.Hops(a, b), "%d → %d", a, b)
			assert.Equal(t, want > 0, d.Before(a, b), "%d → %d", a, b)
		}
	}
	cases := []struct{ set, heads, tails []int }{
		{[]int{3, 2, 1}, []int{1, 3}, []int{2, 3}},
		{[]int{4, 0, 2}, []int{0}, []int{4}},
		{[]int{5, 5}, []int{5}, []int{5}},
		{[]int{1, 5, 3}, []int{1, 3, 5}, []int{1, 3, 5}},
		{nil, nil, nil},
	}
	for _, c := range cases {
		assert.Equal(t, c.heads, d.Heads(c.set), "%v", c.set)
		assert.Equal(t, c.tails, d.Tails(c.set), "%v", c.set)
	}
}

func TestOrderErrors(t *testing.T) {
	_, err := New(2, [][2]int{{0, 1}, {1, 0}})
	assert.ErrorContains(t, err, "1 → 0 that does not lead to a later node")
	_, err = New(2, [][2]int{{0, 2}})
	assert.ErrorContains(t, err, "0 → 2")
	_, err = New(Max+1, nil)
	assert.ErrorContains(t, err, "at most")
}

// TestOrderAgainstPaths compares with longest paths by dynamic programming over
// all pairs.
func TestOrderAgainstPaths(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for range 60 {
		n := 1 + r.IntN(90)
		var edges [][2]int
		far := make([][]int, n)
		for a := range far {
			far[a] = make([]int, n)
		}
		for b := range n {
			for a := range b {
				if r.IntN(n) < 2 {
					edges = append(edges, [2]int{a, b})
					far[a][b] = max(far[a][b], 1)
					for o := range a {
						if far[o][a] > 0 {
							far[o][b] = max(far[o][b], far[o][a]+1)
						}
					}
				}
			}
		}
		d, err := New(n, edges)
		require.NoError(t, err)
		for a := range n {
			for b := range n {
				require.Equal(t, far[a][b], d.Hops(a, b))
			}
		}
	}
}

func TestOrderFollows(t *testing.T) {
	d, err := New(5, [][2]int{{0, 1}, {0, 2}, {1, 3}, {2, 3}, {3, 4}})
	require.NoError(t, err)
	for _, c := range []struct {
		heads, tails []int
		shared       []int
		want         bool
	}{
		{[]int{3}, []int{1, 2}, nil, true},
		{[]int{3}, []int{1, 3}, nil, false},
		{[]int{3}, []int{1, 3}, []int{0, 3}, true},
		{[]int{1, 4}, []int{0, 2}, nil, false},
		{[]int{2}, []int{1}, []int{1}, false},
	} {
		assert.Equal(t, c.want, d.Follows(c.heads, c.tails, c.shared...), "%v", c)
	}
}
