package planner

import (
	"cmp"
	"slices"
	"sort"

	"github.com/berth-onnx/berth/internal/poset"
)

// Placing one item among items that are placed already: the step all greedy planners share.
//
//	bytes
//	  |#######|      The placed items that conflict with the new one are runs of bytes that it can not have.
//	  |   gap |      By ascending offset, the runs leave gaps; first fit takes the lowest one that is large enough,
//	  |#######|      best fit the one with the least left over (the space above the last run counts as the loosest).
//	  |  gap  |
//	  |#######|

const unplaced = -1

// forbidden is a run of bytes [lo, hi) that conflicting items hold.
type forbidden struct{ lo, hi int64 }

// board is a partial placement.
type board struct {
	m      *model
	at     []int64 // offset per item, or unplaced
	runs   byBeginning
	strips *stripIndex // in place of conflict lists where those would be too long
	rows   []poset.Set // the same for partial orders, with
	order  []int32     // the placed items by offset
}

// newBoard is an empty board.
func newBoard(m *model) *board {
	b := &board{m: m, at: make([]int64, len(m.items))}
	b.clear()
	return b
}

// clear takes everything off.
func (b *board) clear() {
	b.strips, b.rows, b.order = nil, nil, b.order[:0]
	if b.m.isDense() && b.m.timed {
		b.strips = newStripIndex(b.m)
	} else if b.m.isDense() {
		b.rows = b.m.any.rows
	}
	for i := range b.at {
		b.at[i] = unplaced
	}
}

// fill places the items of order by a rule for each, unless they are placed already. It returns nil when the plan reaches the
// limit. When stop says so, what is left is piled up above everything else.
func (b *board) fill(limit int64, order []int, rule func(i int) int64) []int64 {
	cut := b.strips == nil && b.rows == nil && b.m.conflicts() == nil
	for n, i := range order {
		if cut = cut || (n%8 == 0 || len(order) > manyItems) && b.m.stop(); cut {
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

// manyItems is from how many on a place for one may take so long that stop is asked for each.
const manyItems = 1 << 12

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

// put places item i at offset off.
func (b *board) put(i int, off int64) {
	b.at[i] = off
	if b.strips != nil {
		b.strips.put(i, off)
	}
	if b.rows != nil && b.m.items[i].size > 0 {
		k, _ := slices.BinarySearchFunc(b.order, off, func(j int32, off int64) int { return cmp.Or(cmp.Compare(b.at[j], off), -1) })
		b.order = slices.Insert(b.order, k, int32(i))
	}
}

// lowest is the first fit of item i.
func (b *board) lowest(i int) int64 { return b.fit(i, false) }

// tightest is the best fit of item i: the gap with the least room left, the lowest of equals, else on top.
func (b *board) tightest(i int) int64 { return b.fit(i, true) }

func (b *board) fit(i int, tight bool) int64 {
	if b.strips != nil {
		return b.strips.fit(i, tight)
	}
	b.gather(i)
	f := fitter{item: &b.m.items[i], tight: tight, best: unplaced}
	for _, r := range b.runs {
		if f.take(r) {
			return f.best
		}
	}
	return f.offset()
}

// gather lists what the placed neighbours of i forbid, by beginning.
func (b *board) gather(i int) {
	b.runs = b.runs[:0]
	if b.rows != nil {
		for _, j := range b.order {
			if b.m.items[i].size > 0 && b.rows[i].Has(int(j)) {
				b.runs = append(b.runs, forbidden{b.at[j], b.at[j] + b.m.items[j].size})
			}
		}
		return
	}
	for _, j := range b.m.adj[i] {
		if at := b.at[j]; at != unplaced {
			b.runs = append(b.runs, forbidden{at, at + b.m.items[j].size})
		}
	}
	sortRuns(&b.runs)
}

// sortRuns sorts runs by beginning. Most are a few.
func sortRuns(runs *byBeginning) {
	if len(*runs) > 12 {
		sort.Sort(runs) // programs have its code already
		return
	}
	for i := range *runs {
		for ; i > 0 && runs.Less(i, i-1); i-- {
			runs.Swap(i, i-1)
		}
	}
}

// byBeginning is a list of runs that can be sorted.
type byBeginning []forbidden

func (r *byBeginning) Len() int           { return len(*r) }
func (r *byBeginning) Less(i, j int) bool { return (*r)[i].lo < (*r)[j].lo }
func (r *byBeginning) Swap(i, j int)      { (*r)[i], (*r)[j] = (*r)[j], (*r)[i] }
