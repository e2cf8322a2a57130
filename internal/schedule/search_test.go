package schedule

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// drawModel is a random model of at most 64 nodes with all that a model can have.
func drawModel(r *rand.Rand, nodes int) *model {
	m := &model{nodes: make([]mnode, nodes), base: int64(r.IntN(3))}
	chance := func(percent int) bool { return r.IntN(100) < percent }
	newRegion := func() int32 {
		m.regions = append(m.regions, region{bytes: int64(1 + r.IntN(9)), kept: chance(10)})
		return int32(len(m.regions) - 1)
	}
	if chance(30) {
		m.regions[newRegion()].early = true
	}
	for i := range m.nodes {
		n := &m.nodes[i]
		if chance(10) {
			n.extra = int64(r.IntN(12))
		}
		for p := range i {
			if r.IntN(i) < 2 && chance(80) {
				n.preds = append(n.preds, int32(p))
				if w := m.nodes[p].writes; len(w) > 0 {
					n.touches = appendNew(n.touches, w[r.IntN(len(w))])
				}
			}
		}
		reads := len(n.touches)
		for range r.IntN(3) {
			w := newRegion()
			if len(m.regions) > 1 && chance(15) {
				w = int32(r.IntN(len(m.regions))) // made inside a region that others write too
			}
			n.writes, n.touches = appendNew(n.writes, w), appendNew(n.touches, w)
		}
		for _, w := range n.writes {
			if reads > 0 && chance(40) {
				x := n.touches[r.IntN(reads)]
				n.folds = append(n.folds, fold{[]int32{w}, []int32{x}})
				m.regions[w].bytes = m.regions[x].bytes
			}
		}
	}
	for r := range m.regions {
		m.regions[r].touchers = 0
	}
	m.countTouchers()
	for r := range m.regions {
		if x := &m.regions[r]; x.touchers == 0 {
			x.early = false
		}
	}
	m.link()
	return m
}

// least is the smallest peak of all orders, by the definitions in model.go and a
// table over all sets of executed nodes.
func least(m *model) int64 {
	n := len(m.nodes)
	best := make([]int64, 1<<n)
	for i := range best {
		best[i] = math.MaxInt64
	}
	best[0] = liveAfter(m, 0)
	for set := range best {
		for k := range n {
			if best[set] == math.MaxInt64 || set>>k&1 == 1 || !runnable(m, set, k) {
				continue
			}
			next := set | 1<<k
			best[next] = min(best[next], max(best[set], needAfter(m, set, k)))
		}
	}
	return best[len(best)-1]
}

func runnable(m *model, set, k int) bool {
	for _, p := range m.nodes[k].preds {
		if set>>p&1 == 0 {
			return false
		}
	}
	return true
}

// alive reports whether a region is taken after a set of nodes, those in writing
// counted as having written.
func alive(m *model, set, writing int, r int32) bool {
	x := m.regions[r]
	begun, pending := x.early, x.kept
	for k := range m.nodes {
		for _, w := range m.nodes[k].writes {
			begun = begun || w == r && (set|writing)>>k&1 == 1
		}
		for _, w := range m.nodes[k].touches {
			pending = pending || w == r && set>>k&1 == 0
		}
	}
	return begun && pending
}

func liveAfter(m *model, set int) int64 {
	sum := m.base
	for r := range m.regions {
		if alive(m, set, 0, int32(r)) {
			sum += m.regions[r].bytes
		}
	}
	return sum
}

func needAfter(m *model, set, k int) int64 {
	x := m.nodes[k]
	sum := m.base + x.extra
	for r := range m.regions {
		if alive(m, set, 1<<k, int32(r)) {
			sum += m.regions[r].bytes
		}
	}
	var over, dying int64
	seen := map[int32]bool{}
	for _, f := range x.folds {
		var out, in int64
		for _, r := range f.out {
			if !alive(m, set, 0, r) {
				out += m.regions[r].bytes
			}
		}
		for _, r := range f.in {
			if alive(m, set, 0, r) && !alive(m, set|1<<k, 0, r) {
				in += m.regions[r].bytes
				if !seen[r] {
					seen[r] = true
					dying += m.regions[r].bytes
				}
			}
		}
		over += min(out, in)
	}
	return sum - min(over, dying)
}

// TestSearchFindsTheLeast compares the search, whole and cell by cell, with all
// orders of random models.
func TestSearchFindsTheLeast(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	better := 0
	for k := range 1500 {
		m := drawModel(r, 1+r.IntN(9))
		want := least(m)
		given := identity(len(m.nodes))
		first := newSim(t.Context(), m).peakOf(t.Context(), given)
		require.LessOrEqual(t, m.bound(t.Context()), want, "model %d: the bound is above the best order", k)

		f := search(t.Context(), m, given, m.bound(t.Context()), work)
		require.Equal(t, want, f.peak, "model %d: %+v", k, m)
		require.Equal(t, want, f.bound, "model %d", k)
		require.LessOrEqual(t, peakBySets(t, m, f.order), want, "model %d: the order needs more", k)

		s := &solver{ctx: t.Context(), left: allWork}
		f = s.solve(m)
		require.Equal(t, want, max(f.peak, f.bound), "model %d in cells", k)
		require.Equal(t, want, f.bound, "model %d in cells", k)
		require.Equal(t, want, peakBySets(t, m, f.order), "model %d: the order of the cells needs another amount", k)
		if first > want {
			better++
		}
	}
	assert.Greater(t, better, 150, "models where the given order is not the best")
}

// boundBySets is the bound by definition: of every node, what is written by it or by a
// node that comes before it in every order, and touched by it or after it. far is false
// if nothing is taken to come before or after it.
func boundBySets(m *model, far bool) int64 {
	reach := make([][]bool, len(m.nodes))
	for i := len(m.nodes) - 1; i >= 0; i-- {
		reach[i] = make([]bool, len(m.nodes))
		reach[i][i] = true
		for _, s := range m.nodes[i].succs {
			for k, is := range reach[s] {
				reach[i][k] = reach[i][k] || is && far
			}
		}
	}
	best := m.base
	for n := range m.nodes {
		sum := m.base + m.nodes[n].extra
		later := make([]uint64, (len(m.regions)+63)/64)
		for r, x := range m.regions {
			written, touched := x.early, x.kept
			if x.kept {
				setBit(later, r)
			}
			for i := range m.nodes {
				written = written || reach[i][n] && slices.Contains(m.nodes[i].writes, int32(r))
				if reach[n][i] && slices.Contains(m.nodes[i].touches, int32(r)) {
					touched = true
					if i != n {
						setBit(later, r)
					}
				}
			}
			if written && touched {
				sum += x.bytes
			}
		}
		best = max(best, sum-m.couldSave(n, later))
	}
	return best
}

// TestBounds compares the bounds with what they are by definition.
func TestBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	differ := 0
	for k := range 500 {
		m := drawModel(r, 1+r.IntN(20))
		require.Equal(t, boundBySets(m, true), m.bound(t.Context()), "model %d", k)
		require.Equal(t, boundBySets(m, false), m.largest(), "model %d", k)
		require.LessOrEqual(t, m.largest(), m.bound(t.Context()), "model %d", k)
		if m.largest() < m.bound(t.Context()) {
			differ++
		}
	}
	assert.Positive(t, differ)
}

// peakBySets is the peak of an order by definition; it checks that it is legal.
func peakBySets(t *testing.T, m *model, order []int32) int64 {
	require.Len(t, order, len(m.nodes))
	set, peak := 0, liveAfter(m, 0)
	for _, k := range order {
		require.True(t, set>>k&1 == 0 && runnable(m, set, int(k)))
		peak = max(peak, needAfter(m, set, int(k)))
		set |= 1 << k
	}
	return peak
}

// TestSearchWithoutTime: what is found in no time at all is still an order, and
// the bound still holds.
func TestSearchWithoutTime(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 200 {
		m := drawModel(r, 9)
		want := least(m)
		for _, f := range []found{search(ended, m, identity(9), m.bound(t.Context()), work), search(t.Context(), m, identity(9), m.bound(t.Context()), 1)} {
			require.LessOrEqual(t, f.bound, want)
			require.LessOrEqual(t, want, f.peak)
			require.LessOrEqual(t, peakBySets(t, m, f.order), f.peak)
		}
	}
}

// TestCells: the models of cells need what the cells need in the normal order of the whole, and every order of a cell
// needs what its bound says.
func TestCells(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	several := 0
	for k := range 500 {
		m := drawModel(r, 1+r.IntN(30))
		m.postpone(t.Context())
		d, nodes := m.divide(t.Context()), 0
		for i := range d.cells {
			c := &d.cells[i]
			p := d.part(t.Context(), c)
			require.Equal(t, c.peak, newSim(t.Context(), p).peakOf(t.Context(), identity(len(c.nodes))), "model %d, cell %d", k, i)
			require.LessOrEqual(t, p.bound(t.Context()), c.peak, "model %d, cell %d", k, i)
			nodes += len(c.nodes)
		}
		require.Len(t, m.nodes, nodes, "model %d", k)
		if len(d.cells) > 1 {
			several++
		}
	}
	require.Greater(t, several, 50, "models of several cells")
}

// TestWalk: the walk finds the order of the beam of width one, in far fewer steps.
func TestWalk(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for k := range 300 {
		m := drawModel(r, 1+r.IntN(60))
		m.postpone(t.Context())
		a, b := newSim(t.Context(), m), newSim(t.Context(), m)
		want, wantPeak := beam(t.Context(), a, 1, m.bound(t.Context()), math.MaxInt32)
		order, peak := walk(t.Context(), b, m.bound(t.Context()), math.MaxInt32)
		require.Equal(t, want, order, "model %d", k)
		require.Equal(t, wantPeak, peak, "model %d", k)
		require.LessOrEqual(t, b.steps, a.steps, "model %d", k)
	}
}

func TestRollback(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		m := drawModel(r, 12)
		m.postpone(t.Context())
		s, fresh := newSim(t.Context(), m), newSim(t.Context(), m)
		for len(s.trail) < len(m.nodes) {
			var ready []int32
			s.eachReady(func(n int32) bool { ready = append(ready, n); return true })
			if len(ready) == 0 {
				break
			}
			n := ready[r.IntN(len(ready))]
			at := len(s.trail)
			s.exec(n)
			s.rollback(at)
			s.exec(n)
			fresh.reset(s.done)
			require.Equal(t, fresh.live, s.live)
			require.Equal(t, fresh.left, s.left)
			require.Equal(t, fresh.written, s.written)
			require.Equal(t, fresh.ready, s.ready)
		}
		require.Len(t, s.trail, len(m.nodes))
	}
}

// appendNew appends a number that a list does not have.
func appendNew(list []int32, x int32) []int32 {
	if slices.Contains(list, x) {
		return list
	}
	return append(list, x)
}
