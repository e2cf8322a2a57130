package planner

import (
	"cmp"
	"slices"
)

// Placing one item among items that are placed already: the step all greedy planners share.
//
//	bytes
//	  |#######|      A new item must not begin inside the forbidden run of any conflicting item j,
//	  |   gap |      ( at[j] - under(item, j) , at[j] + over(j, item) ), both ends allowed.
//	  |#######|      Sorted by their beginnings, the runs leave gaps; first fit takes the lowest gap,
//	  |  gap  |      best fit the one with the least left over (the space above the last run counts as the loosest).
//	  |#######|

const unplaced = -1

// forbidden is one run of begin offsets that a placed conflicting item rules out: lo < offset < hi.
type forbidden struct{ lo, hi int64 }

// board is a partial placement.
type board struct {
	m    *model
	at   []int64 // offset per item, or unplaced
	runs []forbidden
	// placed items by ascending offset; only kept while conflicts are found by scanning
	scan  bool
	lives []life
	bytes []forbidden // first byte and end
	ids   []int32     // items, where hulls may overlap without a conflict
}

// life is the hull of a placed item; lives are kept apart from the bytes because the scan mostly looks at them alone.
type life struct{ lo, hi int32 }

// scanLimit: above so many pairs of overlapping hulls, conflict lists cost more memory than they save time.
const scanLimit = 6 << 20

// newBoard starts with the fixed items in place.
func newBoard(m *model) *board {
	b := &board{m: m, at: make([]int64, len(m.items))}
	b.scan = m.adj == nil && m.timed && m.countMeetings(scanLimit) >= scanLimit
	if !b.scan {
		m.conflicts()
	}
	for i := range b.at {
		b.at[i] = unplaced
		if f := m.items[i].fixed; f >= 0 {
			b.put(i, f)
		}
	}
	return b
}

// countMeetings counts pairs of items with overlapping hulls, up to limit.
func (m *model) countMeetings(limit int) int {
	los := make([]int32, 0, len(m.items))
	for _, i := range m.byLo() {
		los = append(los, m.items[i].lo)
	}
	n := 0
	for k, i := range m.byLo() {
		end, _ := slices.BinarySearch(los, m.items[i].hi)
		if n += end - k - 1; n >= limit {
			return limit
		}
	}
	return n
}

// put places item i at offset off.
func (b *board) put(i int, off int64) {
	b.at[i] = off
	it := &b.m.items[i]
	if !b.scan || it.lo == it.hi {
		return
	}
	k, _ := slices.BinarySearchFunc(b.bytes, off, func(s forbidden, off int64) int { return cmp.Compare(s.lo, off) })
	b.lives = slices.Insert(b.lives, k, life{it.lo, it.hi})
	b.bytes = slices.Insert(b.bytes, k, forbidden{off, off + it.size})
	if !b.m.plain {
		b.ids = slices.Insert(b.ids, k, int32(i))
	}
}

// lowest is the first fit of item i.
func (b *board) lowest(i int) int64 {
	if b.scan {
		return b.scanFit(i, false)
	}
	b.gather(i)
	at := int64(0)
	a := b.m.items[i].align
	for _, r := range b.runs {
		if at <= r.lo {
			break
		}
		at = max(at, alignUp(r.hi, a))
	}
	return at
}

// tightest is the best fit of item i: the gap with the least room left, the lowest of equals, else on top.
func (b *board) tightest(i int) int64 {
	if b.scan {
		return b.scanFit(i, true)
	}
	b.gather(i)
	at, best, slack := int64(0), int64(unplaced), int64(0)
	a := b.m.items[i].align
	for _, r := range b.runs {
		if left := r.lo - at; left >= 0 && (best == unplaced || left < slack) {
			best, slack = at, left
		}
		at = max(at, alignUp(r.hi, a))
	}
	if best != unplaced {
		return best
	}
	return at
}

// gather lists what the placed neighbours of i forbid, by beginning.
func (b *board) gather(i int) {
	b.runs = b.runs[:0]
	for _, e := range b.m.adj[i] {
		if at := b.at[e.to]; at != unplaced {
			b.runs = append(b.runs, forbidden{at - e.under, at + e.over})
		}
	}
	slices.SortFunc(b.runs, func(x, y forbidden) int { return cmp.Compare(x.lo, y.lo) })
}

// scanFit is lowest or tightest by running over all placed items in offset order. Heights of items that are more than one piece
// are taken at their largest.
func (b *board) scanFit(i int, tight bool) int64 {
	it := &b.m.items[i]
	at, best, slack := int64(0), int64(unplaced), int64(0)
	lo, hi := it.lo, it.hi
	for k, l := range b.lives {
		if l.hi <= lo || hi <= l.lo {
			continue
		}
		if b.ids != nil && b.m.below(i, int(b.ids[k])) == 0 {
			continue
		}
		s := b.bytes[k]
		if left := s.lo - it.size - at; left >= 0 && (best == unplaced || left < slack) {
			if best, slack = at, left; !tight || left == 0 {
				return best
			}
		}
		if s.hi > at {
			at = alignUp(s.hi, it.align)
		}
	}
	if best != unplaced {
		return best
	}
	return at
}
