package planner

import "sort"

// hullIndex finds the items whose hulls overlap a given one, without a list per item.
//
// The items stand sorted by first point. Those that overlap [lo, hi) and begin inside it are a run of that list; those that
// begin before lo and are still alive there are found in a tree of maximal ends over the list:
//
//	begin sorted:   a  b  c  d  e  f          query x = [lo, hi)
//	end:            9  3  4  8  6  7          prefix with begin <= lo: descend only where max end > lo
//	max end tree:  [   9   ][  8   ][ 7 ]     then the run with lo < begin < hi
type hullIndex struct {
	m    *model
	ids  []int   // by first point
	lo   []int32 // of ids
	ends []int32 // tree of maximal ends, leaves from len(ends)/2 on
	leaf int
}

func newHullIndex(m *model) *hullIndex {
	h := &hullIndex{m: m, ids: m.byLo(), leaf: 1}
	for h.leaf < len(h.ids) {
		h.leaf *= 2
	}
	h.ends = make([]int32, 2*h.leaf)
	h.lo = make([]int32, len(h.ids))
	for k, i := range h.ids {
		h.lo[k] = m.items[i].lo
		h.ends[h.leaf+k] = m.items[i].hi
	}
	for k := h.leaf - 1; k > 0; k-- {
		h.ends[k] = max(h.ends[2*k], h.ends[2*k+1])
	}
	return h
}

// each calls fn for every other item whose hull overlaps that of i.
func (h *hullIndex) each(i int, fn func(j int)) {
	it := &h.m.items[i]
	if it.lo == it.hi {
		return
	}
	from := sort.Search(len(h.lo), func(k int) bool { return h.lo[k] > it.lo })
	h.alive(1, 0, h.leaf, from, it.lo, func(j int) {
		if j != i {
			fn(j)
		}
	})
	for k := from; k < len(h.ids) && h.lo[k] < it.hi; k++ {
		fn(h.ids[k])
	}
}

// alive visits the leaves below node, which covers [l, r), that come before end and live beyond point t.
func (h *hullIndex) alive(node, l, r, end int, t int32, fn func(j int)) {
	if l >= end || h.ends[node] <= t {
		return
	}
	if r-l == 1 {
		fn(h.ids[l])
		return
	}
	mid := (l + r) / 2
	h.alive(2*node, l, mid, end, t, fn)
	h.alive(2*node+1, mid, r, end, t, fn)
}
