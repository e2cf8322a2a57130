package planner

import (
	"cmp"
	"container/heap"
	"context"
	"slices"

	"github.com/berth-onnx/berth/internal/rescue"
)

// Pool is the memory optimization transpiler: walk the schedule, and when a buffer is born give it a block that an
// earlier buffer has left; a block is reused whole.
//
//	schedule      a=op1(b,c)   d=op2(a)   e=op3(d,f)
//	pool after       {}          {a}         {d}           e takes the block of a
//
//	block 1 |aaaa ee  |     a block is as large as its first buffer
//	block 0 |  dddd   |
//
// An input at its last use returns to the pool after its last reader has taken its outputs (in-place pairs are folded before planning).
// Of the free blocks the smallest that is large enough is taken, the lowest index of equals; when none is large enough a
// new block is made. Blocks lie end to end in order of making. A buffer with holes holds its block through them.
//
// Source: the memory optimization transpiler of PaddlePaddle (live variable analysis, then "pool -> output, input -> pool").
type Pool struct{}

// Name is "pool".
func (Pool) Name() string { return "pool" }

// poolBlock is one block with all the items that have held it.
type poolBlock struct {
	rank  int   // of the item that it was made for, in the order of sizes
	until int32 // timed orders: free from this point on
	items []int
}

// Plan gives a block of its own to what is not placed yet when ctx ends.
func (pl Pool) Plan(ctx context.Context, p *Problem) (_ *Solution, err error) {
	defer rescue.Into(&err)
	return planBy(ctx, p, pl.Name(), (*model).pool)
}

func (m *model) pool() ([]int64, []Window) {
	order := m.sortedIDs(func(int, int) int { return 0 })
	order = slices.DeleteFunc(order, func(i int) bool { return m.items[i].size == 0 })
	l := newPoolList(m, order)
	for n, i := range order {
		k := -1
		if n%64 != 0 || !m.stop() {
			k = l.freeBlock(i)
		}
		l.give(k, i)
	}
	groups := make([][]int, len(l.blocks))
	for k := range l.blocks {
		groups[k] = l.blocks[k].items
	}
	return m.stack(groups)
}

// poolList holds the blocks. A block has the size of the item that it was made for; ranking the items by size, then birth,
// ranks all blocks that there can be, and the smallest free one that is large enough is the next in a set of ranks.
type poolList struct {
	m      *model
	blocks []poolBlock
	rank   []int            // of items
	sizes  []int64          // by rank
	of     []int            // rank -> block
	made   *rankSet         // ranks of all blocks
	free   *rankSet         // of those that were free at the latest instant looked at; all blocks where there is no time
	busy   queue[busyBlock] // the others
}

// newPoolList takes the items in the order of births.
func newPoolList(m *model, order []int) *poolList {
	l := &poolList{m: m, rank: make([]int, len(m.items)), of: make([]int, len(order)), made: newRankSet(len(order))}
	if l.free = l.made; m.timed {
		l.free = newRankSet(len(order))
	}
	sorted := slices.Clone(order)
	slices.SortStableFunc(sorted, func(a, b int) int { return cmp.Compare(m.items[a].size, m.items[b].size) })
	for r, i := range sorted {
		l.rank[i] = r
		l.sizes = append(l.sizes, m.items[i].size)
	}
	return l
}

// give hands block k to item i; k < 0 makes a new block.
func (l *poolList) give(k, i int) {
	if k < 0 {
		k = len(l.blocks)
		l.blocks = append(l.blocks, poolBlock{rank: l.rank[i]})
		l.of[l.rank[i]] = k
		l.made.add(l.rank[i])
	}
	b := &l.blocks[k]
	b.items = append(b.items, i)
	if it := &l.m.items[i]; it.lo < it.hi || len(b.items) == 1 {
		b.until = it.hi
		if l.m.timed {
			l.free.remove(b.rank)
			heap.Push(&l.busy, busyBlock{b.until, k})
		}
	}
}

// freeBlock is the smallest block that is free for item i and large enough, or -1.
func (l *poolList) freeBlock(i int) int {
	it := &l.m.items[i]
	for len(l.busy) > 0 && l.busy[0].until <= it.lo {
		b := heap.Pop(&l.busy).(busyBlock)
		l.free.add(l.blocks[b.block].rank)
	}
	set := l.free
	if l.m.timed && it.lo == it.hi {
		set = l.made // never alive: every block will do
	}
	r, _ := slices.BinarySearch(l.sizes, it.size)
	if !set.has(r) {
		r = set.after(r)
	}
	for ; r >= 0; r = set.after(r) {
		if k := l.of[r]; l.m.isFree(&l.blocks[k], i) {
			return k
		}
	}
	return -1
}

// busyBlock is a heap entry: a block that is free from a point on.
type busyBlock struct {
	until int32
	block int
}

func (b busyBlock) ahead(c busyBlock) bool { return b.until < c.until }

// isFree reports whether every earlier holder of the block is past its last use when i is born.
func (m *model) isFree(b *poolBlock, i int) bool {
	if m.timed {
		return m.items[i].lo == m.items[i].hi || b.until <= m.items[i].lo
	}
	return !slices.ContainsFunc(b.items, func(j int) bool { return m.meet(i, j) })
}

// stack lays groups of items end to end; all items of a group get the same offset. Items in no group lie at zero.
func (m *model) stack(groups [][]int) ([]int64, []Window) {
	at := make([]int64, len(m.items))
	windows := make([]Window, 0, len(groups))
	top := int64(0)
	for _, g := range groups {
		size, align := int64(0), int64(1)
		for _, i := range g {
			size = max(size, m.items[i].size)
			align = lcm(align, m.items[i].align)
		}
		base := alignUp(top, align)
		for _, i := range g {
			at[i] = base
		}
		windows = append(windows, Window{base, size})
		top = base + size
	}
	return at, windows
}
