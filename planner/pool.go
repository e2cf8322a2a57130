package planner

import (
	"context"
	"slices"
)

// Pool is the memory optimization transpiler: walk the schedule, and when a buffer is born give it a block that an
// earlier buffer has left; a block is handed on whole.
//
//	schedule      a=op1(b,c)   d=op2(a)   e=op3(d,f)
//	pool after       {}          {a}         {d}           e takes the block of a
//
//	block 1 |aaaa ee  |     a block is as large as its first buffer
//	block 0 |  dddd   |
//
// A dying input returns to the pool after its last reader has taken its outputs (in-place pairs are folded before planning).
// Of the free blocks the smallest that is large enough is taken, the lowest index of equals; when none is large enough a
// new block is made. Blocks lie end to end in order of making. A buffer with holes holds its block through them.
//
// Source: the memory optimization transpiler of PaddlePaddle (live variable analysis, then "pool -> output, input -> pool").
type Pool struct{}

// Name is "pool".
func (Pool) Name() string { return "pool" }

// poolBlock is one block with all the items that have held it.
type poolBlock struct {
	size  int64
	until int32 // timed orders: free from this point on
	items []int
}

// Plan follows the birth order to its end whatever ctx says.
func (pl Pool) Plan(_ context.Context, p *Problem) (*Solution, error) {
	m, err := prepare(p)
	if err != nil {
		return nil, err
	}
	at, windows := m.pool()
	s := finish(pl.Name(), m, at)
	s.Windows = windows
	return s, nil
}

func (m *model) pool() ([]int64, []Window) {
	order := m.sortedIDs(func(int, int) int { return 0 })
	var blocks []poolBlock
	for _, i := range order {
		if m.items[i].fixed >= 0 || m.items[i].size == 0 {
			continue
		}
		k := m.freeBlock(blocks, i)
		if k < 0 {
			k = len(blocks)
			blocks = append(blocks, poolBlock{size: m.items[i].size})
		}
		b := &blocks[k]
		b.items = append(b.items, i)
		b.until = max(b.until, m.items[i].hi)
	}
	groups := make([][]int, len(blocks))
	for k := range blocks {
		groups[k] = blocks[k].items
	}
	return m.stack(groups)
}

// freeBlock is the smallest block that is free for item i and large enough, or -1.
func (m *model) freeBlock(blocks []poolBlock, i int) int {
	it := &m.items[i]
	best := -1
	for k := range blocks {
		b := &blocks[k]
		if b.size < it.size || (best >= 0 && b.size >= blocks[best].size) || !m.isFree(b, i) {
			continue
		}
		best = k
	}
	return best
}

// isFree reports whether every earlier holder of the block is dead when i is born.
func (m *model) isFree(b *poolBlock, i int) bool {
	if m.timed {
		return m.items[i].lo == m.items[i].hi || b.until <= m.items[i].lo
	}
	return !slices.ContainsFunc(b.items, func(j int) bool { return m.below(i, j) > 0 })
}

// stack lays groups of items end to end above the fixed ones; all items of a group get the same offset.
// Items in no group lie at their fixed offset or at zero.
func (m *model) stack(groups [][]int) ([]int64, []Window) {
	at := make([]int64, len(m.items))
	for i := range at {
		at[i] = max(m.items[i].fixed, 0)
	}
	windows := make([]Window, 0, len(groups))
	top := m.floor()
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
