package planner

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Cliques generalize sections to every kind of problem: sets of items that pairwise interfere, each with the height that
// it has there. Side by side they need the sum of their heights, whatever the plan; the search over general problems bounds by them.
//
//	intervals: the maximal sets alive together, one per section, holes and groups included
//	partial:   a greedy clique around every item, heaviest members first, less those that repeat another
type clique struct {
	members []share
	total   int64
}

// share is an item's part in a clique.
type share struct {
	item   int32
	height int64
}

// cliqueLimit bounds the members over all cliques; past it the lightest cliques are dropped.
const cliqueLimit = 4 << 20

// cliques lists cliques that cover every conflict neighbourhood, heaviest first.
func (m *model) cliques() []clique {
	var list []clique
	if m.timed {
		list = m.sectionCliques()
	} else {
		list = m.greedyCliques()
	}
	slices.SortStableFunc(list, func(a, b clique) int { return cmp.Compare(b.total, a.total) })
	sum := 0
	for k := range list {
		if sum += len(list[k].members); sum > cliqueLimit {
			return list[:k]
		}
	}
	return list
}

// sectionCliques sweeps over time and takes the live set whenever a death follows a birth.
func (m *model) sectionCliques() []clique {
	starts := make([][]share, len(m.times)+1)
	ends := make([]bool, len(m.times)+1)
	for i := range m.items {
		for _, p := range m.items[i].pieces {
			starts[p.lo] = append(starts[p.lo], share{int32(i), p.size})
			ends[p.hi] = true
		}
	}
	until := func(s share, t int) bool { // is the piece that gave this share alive at t?
		return slices.ContainsFunc(m.items[s.item].pieces, func(p piece) bool {
			return int(p.lo) <= t && t < int(p.hi) && p.size == s.height
		})
	}
	var live []share
	var list []clique
	grown := false
	for t := range starts {
		if ends[t] {
			if grown {
				list = append(list, newClique(live))
				grown = false
			}
			live = slices.DeleteFunc(live, func(s share) bool { return !until(s, t) })
		}
		if len(starts[t]) > 0 {
			for _, s := range starts[t] {
				if !slices.Contains(live, s) {
					live = append(live, s)
				}
			}
			grown = true
		}
	}
	return list
}

func newClique(live []share) clique {
	c := clique{members: slices.Clone(live)}
	for _, s := range live {
		c.total += s.height
	}
	return c
}

// greedyCliques grows a clique around every item.
func (m *model) greedyCliques() []clique {
	adj := m.conflicts()
	var list []clique
	seen := map[string]bool{}
	mark := make([]int, len(m.items)) // how many members conflict with the item
	for i := range m.items {
		if len(adj[i]) == 0 {
			continue
		}
		around := slices.Clone(adj[i])
		slices.SortStableFunc(around, func(a, b edge) int { return cmp.Compare(b.over, a.over) })
		members := []int{i}
		clear(mark)
		for _, e := range adj[i] {
			mark[e.to] = 1
		}
		for _, e := range around {
			if mark[e.to] == len(members) {
				members = append(members, int(e.to))
				for _, f := range adj[e.to] {
					mark[f.to]++
				}
			}
		}
		slices.Sort(members)
		var key []byte
		for _, j := range members {
			key = binary.AppendUvarint(key, uint64(j))
		}
		if seen[string(key)] {
			continue
		}
		seen[string(key)] = true
		list = append(list, newClique(m.shares(members)))
	}
	return list
}

// shares gives every member of a clique the least height that it has against another member. The least is
// what is sure: of the pieces of a grouped item only one need take part.
func (m *model) shares(members []int) []share {
	out := make([]share, len(members))
	for k, i := range members {
		h := m.items[i].size
		for _, e := range m.adj[i] {
			if _, in := slices.BinarySearch(members, int(e.to)); in {
				h = min(h, e.under, m.items[i].size)
			}
		}
		out[k] = share{int32(i), h}
	}
	return out
}
