package sim

import (
	"fmt"
	"maps"
	"slices"
)

// Work of a graph that no path of edges orders may be done at the same time. So two pieces that touch the same bytes, of the device or of the host, must
// have a path from one to the other if one of them writes; those are excepted that say that their order does not matter. It is enough to look at the last
// writer of each byte and at the readers since then: what came before has a path to these. Random orders (graph.run) would find what lacks an edge with
// luck alone.

// unordered is an error for a graph of which two pieces race.
func (g *graph) unordered() error {
	bounds := map[bool][]uint64{} // by isHost: where spans begin and end
	for _, p := range g.pieces {
		for _, u := range p.uses {
			bounds[u.isHost] = append(bounds[u.isHost], u.lo, u.hi)
		}
	}
	used := map[bool][]lastUse{}
	for isHost, list := range maps.All(bounds) {
		slices.Sort(list)
		bounds[isHost] = slices.Compact(list)
		used[isHost] = make([]lastUse, len(bounds[isHost]))
	}
	for i, p := range g.pieces {
		for _, u := range p.uses {
			from, _ := slices.BinarySearch(bounds[u.isHost], u.lo)
			to, _ := slices.BinarySearch(bounds[u.isHost], u.hi)
			for k := from; k < to; k++ {
				if other, isRace := used[u.isHost][k].add(g, i, u); isRace {
					return fmt.Errorf("pieces %d and %d of a graph touch the bytes at %#x, and neither waits for the other", other, i, bounds[u.isHost][k])
				}
			}
		}
	}
	return nil
}

// lastUse is who has used some bytes last.
type lastUse struct {
	writer user
	since  []user // readers, and writers whose order does not matter among each other
}

// user is a piece that uses bytes; the zero value is none.
type user struct {
	number   int // of the piece, from 1
	commutes bool
}

// add notes a use, and gives a piece that races with it.
func (l *lastUse) add(g *graph, i int, s span) (other int, isRace bool) {
	now := user{i + 1, s.commutes}
	races := func(u user) bool {
		return u.number > 0 && u.number != now.number && !(u.commutes && now.commutes) && !g.isBehind(i, u.number-1)
	}
	if races(l.writer) {
		return l.writer.number - 1, true
	}
	for _, u := range l.since {
		if (s.isWritten || u.commutes) && races(u) {
			return u.number - 1, true
		}
	}
	if s.isWritten && !s.commutes {
		l.writer, l.since = now, nil
	} else {
		l.since = append(l.since, now)
	}
	return 0, false
}

// isBehind reports a path of edges from one piece to a later one.
func (g *graph) isBehind(later, first int) bool {
	seen := map[int]bool{}
	for open := []int{later}; len(open) > 0; {
		p := g.pieces[open[len(open)-1]]
		open = open[:len(open)-1]
		if slices.Contains(p.waits, first) {
			return true
		}
		for _, w := range p.waits {
			if w > first && !seen[w] {
				seen[w] = true
				open = append(open, w)
			}
		}
	}
	return false
}
