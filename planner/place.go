package planner

import (
	"cmp"
	"slices"
)

// Placing one item among items that are placed already: the step all greedy planners share.
//
//	bytes
//	  |#######|      A new item must not begin inside the forbidden run of any conflicting item j,
//	  |   gap |      ( at[j] - size(item) , at[j] + size(j) ), both ends allowed.
//	  |#######|      Sorted by their beginnings, the runs leave gaps; first fit takes the lowest gap,
//	  |  gap  |      best fit the one with the least left over (the space above the last run counts as the loosest).
//	  |#######|

const unplaced = -1

// forbidden is one run of begin offsets that a placed conflicting item rules out: lo < offset < hi.
type forbidden struct{ lo, hi int64 }

// board is a partial placement.
type board struct {
	m     *model
	at    []int64 // offset per item, or unplaced
	runs  []forbidden
	shelf *shelf // in place of conflict lists where those would be too long
	crowd *crowd // the same for partial orders
}

// scanLimit: above so many pairs of overlapping hulls, conflict lists cost more memory than they save time.
const scanLimit = 1 << 20

// newBoard is an empty board.
func newBoard(m *model) *board {
	b := &board{m: m, at: make([]int64, len(m.items))}
	b.clear()
	return b
}

// clear takes everything off.
func (b *board) clear() {
	if b.shelf = nil; b.m.crowded() {
		b.shelf = newShelf(b.m)
	}
	b.crowd = b.m.unlisted()
	for i := range b.at {
		b.at[i] = unplaced
	}
}

// fill places the items of order by a rule for each, unless they are placed already. It returns nil when the plan reaches the
// limit. When stop says so, what is left is piled up above everything else.
func (b *board) fill(limit int64, order []int, rule func(i int) int64) []int64 {
	cut := b.shelf == nil && b.crowd == nil && b.m.conflicts() == nil
	for n, i := range order {
		if cut = cut || (n%64 == 0 && b.m.stop()); cut {
			b.pile(order[n:])
			break
		}
		if b.at[i] == unplaced {
			at := rule(i)
			if at+b.m.items[i].size >= limit {
				return nil
			}
			b.put(i, at)
		}
	}
	return b.at
}

// pile lays items end to end above everything placed.
func (b *board) pile(items []int) {
	top := b.m.height(b.at)
	for _, i := range items {
		if b.at[i] == unplaced {
			b.at[i] = alignUp(top, b.m.items[i].align)
			top = b.at[i] + b.m.items[i].size
		}
	}
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
	if b.shelf != nil {
		b.shelf.put(i, off)
	}
	if b.crowd != nil {
		b.crowd.put(i, b.at)
	}
}

// lowest is the first fit of item i.
func (b *board) lowest(i int) int64 {
	if b.shelf != nil {
		return b.shelf.fit(i, false)
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
	if b.shelf != nil {
		return b.shelf.fit(i, true)
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
	size := b.m.items[i].size
	if b.crowd != nil {
		row := b.crowd.rows[i]
		for _, j := range b.crowd.pile {
			if row.has(int(j)) {
				b.runs = append(b.runs, forbidden{b.at[j] - size, b.at[j] + b.m.items[j].size})
			}
		}
		return
	}
	for _, j := range b.m.adj[i] {
		if at := b.at[j]; at != unplaced {
			b.runs = append(b.runs, forbidden{at - size, at + b.m.items[j].size})
		}
	}
	slices.SortFunc(b.runs, func(x, y forbidden) int { return cmp.Compare(x.lo, y.lo) })
}
