package planner

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sort"
)

// Cliques generalize sections to every kind of problem: sets of items that pairwise interfere. Every plan needs the sum of their
// heights; the search over general problems bounds by them.
//
//	intervals: the maximal sets alive together, one per section, holes included
//	partial:   greedy cliques around the items with the heaviest neighbourhoods, heaviest members first, less those that repeat another
//
// Heights are padded to the alignment that the members have in common, which all but the topmost of them need; where
// alignments differ, the members aligned to more than that make a clique of their own.
//
// Source: the sections of MiniMalloc (sections.go), for problems that have no single time axis.

// clique is one such set.
type clique struct {
	members []share
	total   int64
	align   int64 // every member's offset is a multiple of it
	pad     int64 // most padding of a member: so much may stick out of the arena
}

// share is an item's part in a clique.
type share struct {
	of     int32 // the item; in lists by item, the clique
	height int64
}

// Limits of the cliques kept, heaviest first: members over all of them, and for partial orders, where cliques overlap
// much, their number.
const (
	cliqueLimit = 4 << 20
	greedyLimit = 64
	growLimit   = 16 << 20 // neighbours looked at while growing them
)

// cliques lists cliques that cover every conflict neighbourhood, heaviest first.
func (m *model) cliques() []clique {
	var list []clique
	limit := len(m.times) + greedyLimit
	if m.timed {
		list = m.sectionCliques()
	} else {
		list, limit = m.greedyCliques(), greedyLimit
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].total > list[j].total })
	var out []clique
	aligns := m.alignments()
	sum := 0
	for k := range list {
		if sum += len(list[k].members); sum > cliqueLimit || k >= limit {
			break
		}
		for x, g := range aligns {
			if c := m.padded(&list[k], g); x == 0 || (c.pad > 0 && len(c.members) > 1) {
				out = append(out, c)
			}
		}
	}
	return out
}

// sectionCliques sweeps over time and takes the live set whenever a death follows a birth.
func (m *model) sectionCliques() []clique {
	starts := make([][]int32, len(m.times)+1)
	ends := make([]bool, len(m.times)+1)
	for i := range m.items {
		for _, p := range m.items[i].pieces {
			starts[p.lo] = append(starts[p.lo], int32(i))
			ends[p.hi] = true
		}
	}
	alive := func(i int32, t int) bool {
		return slices.ContainsFunc(m.items[i].pieces, func(p piece) bool { return int(p.lo) <= t && t < int(p.hi) })
	}
	var live []int32
	var list []clique
	grown := false
	for t := range starts {
		if ends[t] {
			if grown {
				list = append(list, m.newClique(live))
				grown = false
			}
			live = slices.DeleteFunc(live, func(i int32) bool { return !alive(i, t) })
		}
		if len(starts[t]) > 0 {
			live = append(live, starts[t]...)
			grown = true
		}
	}
	return list
}

func (m *model) newClique(items []int32) clique {
	c := clique{members: make([]share, len(items))}
	for k, i := range items {
		c.members[k] = share{i, m.items[i].size}
		c.total += m.items[i].size
	}
	return c
}

// padded is the part of clique c whose items are aligned to multiples of g, with heights padded to it.
func (m *model) padded(c *clique, g int64) clique {
	q := clique{align: g}
	for _, s := range c.members {
		if m.items[s.of].align%g == 0 {
			h := alignUp(s.height, g)
			q.members = append(q.members, share{s.of, h})
			q.total += h
			q.pad = max(q.pad, h-s.height)
		}
	}
	return q
}

// greedyCliques grows a clique around each of the items with the heaviest neighbourhoods.
func (m *model) greedyCliques() []clique {
	adj := m.conflicts()
	var list []clique
	seen := map[string]bool{}
	mark := make([]int, len(m.items)) // how many members conflict with the item
	looked := 0
	weight := m.contention()
	seeds := m.sortedIDs(func(a, b int) int { return cmp.Compare(weight[b], weight[a]) })
	for _, i := range seeds[:min(len(seeds), 4*greedyLimit)] {
		if len(adj[i]) == 0 || looked > growLimit {
			continue
		}
		around := slices.Clone(adj[i])
		slices.SortStableFunc(around, func(a, b int32) int { return cmp.Compare(m.items[b].size, m.items[a].size) })
		members := []int32{int32(i)}
		clear(mark)
		for _, j := range adj[i] {
			mark[j] = 1
		}
		for _, j := range around {
			if mark[j] == len(members) {
				members = append(members, j)
				looked += len(adj[j])
				for _, k := range adj[j] {
					mark[k]++
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
		list = append(list, m.newClique(members))
	}
	return list
}
