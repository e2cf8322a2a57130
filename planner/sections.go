package planner

import "slices"

// Sections cut the time axis into the fewest parts that still tell which items interfere: a new section begins at a birth that
// follows a death. Two plain items meet exactly when their runs of sections do, and every maximal set
// of items alive together is one section.
//
//	time     0    1    2    3    4    5          a [0,3) b [0,1) c [2,5) d [3,4)
//	a        |==============|                     births at 0, deaths at 1, birth at 2: new section,
//	b        |====|                               death and birth at 3: new section
//	c                  |==============|
//	d                       |====|
//	section  |    0    |  1 |    2    |
//
// Source: MiniMalloc (Moffitt, ASPLOS 2023).

// rect is an item over sections.
type rect struct {
	lo, hi int32 // sections [lo, hi)
	size   int64 // padded to the alignment
	pad    int64 // part of size that may stick out of the arena
}

// cutSections renumbers the live ranges of the given items, which are plain and alive.
func (m *model) cutSections(ids []int) (rects []rect, sections int32) {
	n := len(m.times)
	birth, death := make([]bool, n), make([]bool, n)
	for _, i := range ids {
		birth[m.items[i].lo] = true
		death[m.items[i].hi] = true
	}
	section := make([]int32, n) // of each dense point
	open := false               // births may join the current section
	for t := range section {
		if death[t] {
			open = false
		}
		if birth[t] && !open {
			sections++
			open = true
		}
		section[t] = sections - 1
	}
	rects = make([]rect, len(ids))
	for k, i := range ids {
		it := &m.items[i]
		rects[k] = rect{section[it.lo], section[it.hi-1] + 1, it.size, 0}
	}
	return rects, sections
}

// splitSections groups rects that are connected through shared sections: the groups can be packed on their own.
// Each group lists indices of rects, ascending.
func splitSections(rects []rect, sections int32) [][]int {
	reach := make([]int32, sections) // furthest end of the rects that begin in a section
	for _, r := range rects {
		reach[r.lo] = max(reach[r.lo], r.hi)
	}
	part := make([]int, sections)
	parts, end := 0, int32(0)
	for s := range part {
		if int32(s) >= end {
			parts++
		}
		part[s] = parts - 1
		end = max(end, reach[s])
	}
	groups := make([][]int, parts)
	for k, r := range rects {
		groups[part[r.lo]] = append(groups[part[r.lo]], k)
	}
	return slices.DeleteFunc(groups, func(g []int) bool { return len(g) == 0 })
}
