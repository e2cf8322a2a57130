package schedule

import (
	"context"
	"math/bits"
	"slices"
)

// bound is memory that every order of the model needs: the most that must be
// alive when some node runs. A region must be alive while n runs if something
// that writes it comes before n (or is n) in every order, and something that
// touches it comes after n (or is n).
//
//	a ─▶ b ─▶ n ─▶ c       while n runs: a's result if c reads it too, b's, n's;
//	└─────────────▲        nothing of what is neither before nor after n
//
// From that the most is taken off that n could save by writing over operands.
//
// What is written before a node is what its predecessors write and what is written
// before those, so sets of regions are passed down the graph and up again; the nodes
// stand in an order in which that takes one pass each.
//
// What it says is of no use once the context has ended.
func (m *model) bound(ctx context.Context) int64 {
	if len(m.nodes) == 0 {
		return m.base
	}
	words := (len(m.regions) + 63) / 64
	if len(m.nodes)*words > maxBoundWords {
		return m.largest()
	}
	written, touched := m.writtenBefore(ctx, words), m.touchedAfter(ctx, words)
	best, later := m.base, make([]uint64, words)
	for n := range m.nodes {
		if ctx.Err() != nil {
			return m.base
		}
		m.later(later, touched, n)
		sum := m.base + m.nodes[n].extra
		for w, set := range written[n] {
			for set &= touched[n][w]; set != 0; set &= set - 1 {
				sum += m.regions[w*64+bits.TrailingZeros64(set)].bytes
			}
		}
		best = max(best, sum-m.couldSave(n, later))
	}
	return best
}

// maxBoundWords bounds the memory of the sets of regions by node, in words: each
// of the two takes 64 MiB at most. It is reached by models of 23,000 nodes and regions.
const maxBoundWords = 1 << 23

// writtenBefore is, by node, the regions that it or something before it writes.
func (m *model) writtenBefore(ctx context.Context, words int) [][]uint64 {
	sets := m.setsOf(ctx, words, func(x *region) bool { return x.early })
	for i := 0; i < len(m.nodes) && ctx.Err() == nil; i++ {
		for _, r := range m.nodes[i].writes {
			setBit(sets[i], int(r))
		}
		for _, p := range m.nodes[i].preds {
			join(sets[i], sets[p])
		}
	}
	return sets
}

// touchedAfter is, by node, the regions that it or something after it touches.
func (m *model) touchedAfter(ctx context.Context, words int) [][]uint64 {
	sets := m.setsOf(ctx, words, func(x *region) bool { return x.kept })
	for i := len(m.nodes) - 1; i >= 0 && ctx.Err() == nil; i-- {
		for _, r := range m.nodes[i].touches {
			setBit(sets[i], int(r))
		}
		for _, s := range m.nodes[i].succs {
			join(sets[i], sets[s])
		}
	}
	return sets
}

// later puts into set the regions that something after n touches.
func (m *model) later(set []uint64, touched [][]uint64, n int) {
	clear(set)
	for _, s := range m.nodes[n].succs {
		join(set, touched[s])
	}
	for _, f := range m.nodes[n].folds {
		m.keep(set, f.in)
	}
}

// keep adds those of some regions that are alive after the last node.
func (m *model) keep(set []uint64, regions []int32) {
	for _, r := range regions {
		if m.regions[r].kept {
			setBit(set, int(r))
		}
	}
}

// setsOf makes a set of regions for every node, with the same regions in all.
func (m *model) setsOf(ctx context.Context, words int, in func(*region) bool) [][]uint64 {
	first := make([]uint64, words)
	for r := range m.regions {
		if in(&m.regions[r]) {
			setBit(first, r)
		}
	}
	all := make([]uint64, 0, len(m.nodes)*words)
	sets := make([][]uint64, len(m.nodes))
	for i := 0; i < len(sets) && ctx.Err() == nil; i++ {
		all = append(all, first...)
		sets[i] = all[i*words : (i+1)*words : (i+1)*words]
	}
	return sets
}

func join(a, b []uint64) {
	for w := range a {
		a[w] |= b[w]
	}
}

// couldSave is the most that n could take less by writing over operands that are
// not touched later.
func (m *model) couldSave(n int, later []uint64) int64 {
	x := &m.nodes[n]
	var sum int64
	for _, f := range x.folds {
		var out, in int64
		for _, r := range f.out {
			out += m.regions[r].bytes
		}
		for _, r := range f.in {
			if !hasBit(later, int(r)) {
				in += m.regions[r].bytes
			}
		}
		sum += min(out, in)
	}
	return sum
}

// largest is a bound that takes no sets: the bytes that the largest node needs with
// what is alive throughout, as if nothing were known to come before or after it.
func (m *model) largest() int64 {
	best, always := m.base, m.base
	for _, r := range m.regions {
		if r.early && r.kept {
			always += r.bytes
		}
	}
	later := make([]uint64, (len(m.regions)+63)/64)
	m.keep(later, identity(len(m.regions)))
	for n := range m.nodes {
		x := &m.nodes[n]
		sum := always + x.extra
		for _, r := range x.touches {
			if g := &m.regions[r]; !(g.early && g.kept) && (g.early || slices.Contains(x.writes, r)) {
				sum += g.bytes
			}
		}
		for _, r := range x.writes {
			if g := &m.regions[r]; g.kept && !g.early && !slices.Contains(x.touches, r) {
				sum += g.bytes
			}
		}
		best = max(best, sum-m.couldSave(n, later))
	}
	return best
}
