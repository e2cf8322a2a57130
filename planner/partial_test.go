package planner

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tangled is a problem over a random graph: n buffers, each born at a node and read at some later ones; every third
// has two heads.
func tangled(t *testing.T, seed uint64, n int, edges float64) *Problem {
	rng := rand.New(rand.NewPCG(seed, 5))
	var arcs [][2]int
	for v := 1; v < n; v++ {
		for u := max(0, v-12); u < v; u++ {
			if rng.Float64() < edges {
				arcs = append(arcs, [2]int{u, v})
			}
		}
	}
	next := make([][]int, n)
	for _, a := range arcs {
		next[a[0]] = append(next[a[0]], a[1])
	}
	p := &Problem{Align: 8}
	var lives []Life
	for v := range n {
		l := Life{Heads: []int{v}, Tails: []int{v}}
		if len(next[v]) > 0 {
			l.Tails = next[v][:1+rng.IntN(len(next[v]))]
		}
		if v%3 == 2 {
			l.Heads = []int{v, (v + 1) % n}
		}
		lives = append(lives, l)
		p.Buffers = append(p.Buffers, Buffer{Size: int64(rng.IntN(12)) * 8})
	}
	o, err := NewPartial(n, arcs, lives)
	require.NoError(t, err)
	p.Order = o
	return p
}

// slow answers as a Partial does, one pair at a time, by looking for paths.
type slow struct {
	lives []Life
	reach [][]bool
}

func slowly(p *Problem) slow {
	o := p.Order.(*Partial)
	s := slow{o.lives, make([][]bool, len(o.nodes.Succ))}
	for u := len(s.reach) - 1; u >= 0; u-- {
		s.reach[u] = make([]bool, len(s.reach))
		for _, v := range o.nodes.Succ[u] {
			s.reach[u][v] = true
			for w, x := range s.reach[v] {
				s.reach[u][w] = s.reach[u][w] || x
			}
		}
	}
	return s
}

func (s slow) after(a, b int) bool {
	for _, t := range s.lives[a].Tails {
		for _, h := range s.lives[b].Heads {
			if !s.reach[t][h] {
				return false
			}
		}
	}
	return true
}

func TestRowsAnswerAsPairsDo(t *testing.T) {
	for seed := range uint64(20) {
		p := tangled(t, seed, 1+int(seed)*17, 0.15)
		m, err := prepare(t.Context(), p)
		require.NoError(t, err)
		m.dense = 1 + int(seed)%2 // lists, rows
		s, around := slowly(p), m.neighbours()
		for a := range p.Buffers {
			found := map[int]bool{}
			around(a, func(j int) { found[j] = true })
			for b := range p.Buffers {
				if a == b {
					require.False(t, found[b])
					continue
				}
				meet := !s.after(a, b) && !s.after(b, a)
				require.Equal(t, meet, p.Order.Interfere(a, b), "seed %d: %d, %d", seed, a, b)
				require.Equal(t, meet && p.Buffers[a].Size > 0 && p.Buffers[b].Size > 0, found[b], "seed %d: %d, %d", seed, a, b)
			}
		}
	}
}

// TestDenseBoardsPlaceAlike places with rows and with conflict lists.
func TestDenseBoardsPlaceAlike(t *testing.T) {
	for seed := range uint64(10) {
		p := tangled(t, seed, 300, 0.05)
		lists, err := prepare(t.Context(), p)
		require.NoError(t, err)
		lists.conflicts()
		rows, err := prepare(t.Context(), p)
		require.NoError(t, err)
		rows.dense = 2
		x, y := newBoard(lists), newBoard(rows)
		require.NotNil(t, y.rows)
		for _, i := range rows.sortedItems(func(a, b *item) int { return int(b.size - a.size) }) {
			x.put(i, x.tightest(i))
			y.put(i, y.tightest(i))
			require.Equal(t, x.at[i], y.at[i], "seed %d, item %d", seed, i)
			require.Equal(t, x.lowest(i), y.lowest(i))
		}
	}
}

// TestLargePartialBoundsHold plans problems above the limits of conflict lists and of the exact antichain: plans and
// bounds must be sound, and the greedy bound not above the exact one.
func TestLargePartialBoundsHold(t *testing.T) {
	p := tangled(t, 1, 4000, 0.02)
	m, err := prepare(t.Context(), p)
	require.NoError(t, err)
	require.True(t, m.isDense(), "the problem is too small for this test")
	s, err := Auto{}.Plan(t.Context(), p)
	require.NoError(t, err)
	require.NoError(t, Validate(p, s))

	small := tangled(t, 2, 500, 0.05)
	m, err = prepare(t.Context(), small)
	require.NoError(t, err)
	best, _ := m.maxAntichain(8)
	ids := small.birthOrder()
	for _, members := range [][]int{m.greedyAntichain(ids, 8), m.liveInSchedule(ids)} {
		for k, a := range members {
			for _, b := range members[:k] {
				require.True(t, small.Order.Interfere(a, b))
			}
		}
		assert.LessOrEqual(t, m.stackOf(members, 8), best)
	}
	assert.Greater(t, m.stackOf(m.greedyAntichain(ids, 8), 8), best/2)
}
