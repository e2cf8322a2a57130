package planner

import (
	"math/bits"
	"slices"
)

// A crowd answers for partial orders what conflict lists would take too much memory for: branches that may run at once
// interfere with all of each other, so that a graph of a few thousand nodes can have a hundred million conflicts.
//
//	row of b   a b c d e f     one bit per item: 1 where b interferes
//	           1 . 1 0 0 1
//
// A row is what is neither after b nor before it.
type crowd struct {
	rows []bitset
	pile []int32 // placed items by offset, for boards
}

// crowd returns the rows of the problem, nil where there are none: only for partial orders.
func (m *model) crowd() *crowd {
	o, ok := m.order.(*Partial)
	if !ok {
		return nil
	}
	if m.rows == nil {
		m.rows = o.interference()
		for i := range m.items {
			if m.p.Buffers[i].Size > 0 {
				continue
			}
			clear(m.rows[i])
			for j := range m.rows {
				m.rows[j].clear(i)
			}
		}
	}
	return &crowd{rows: m.rows}
}

// unlisted is crowd where conflict lists would be too long, else nil.
func (m *model) unlisted() *crowd {
	if m.timed || m.adj != nil {
		return nil
	}
	c := m.crowd()
	if c == nil {
		return nil
	}
	if m.dense == 0 {
		m.dense = 1
		pairs := 0
		for i := range c.rows {
			if pairs += c.count(i); pairs/2 >= scanLimit {
				m.dense = 2
				break
			}
		}
	}
	if m.dense == 2 {
		return c
	}
	return nil
}

// count is the number of items in conflict with item i.
func (c *crowd) count(i int) int {
	n := 0
	for _, w := range c.rows[i] {
		n += bits.OnesCount64(w)
	}
	return n
}

// each visits the items in conflict with item i, ascending.
func (c *crowd) each(i int, fn func(j int)) { c.rows[i].each(fn) }

// put notes that item i has been placed; at are the offsets of all items.
func (c *crowd) put(i int, at []int64) {
	k, _ := slices.BinarySearchFunc(c.pile, at[i], func(j int32, off int64) int {
		if at[j] <= off {
			return -1
		}
		return 1
	})
	c.pile = slices.Insert(c.pile, k, int32(i))
}

// interference is, by buffer, the set of those that it interferes with.
func (o *Partial) interference() []bitset {
	n := len(o.lives)
	out := make([]bitset, n)
	for i := range out {
		row := make(bitset, (n+63)/64)
		for w := range row {
			row[w] = ^o.behind[i][w]
		}
		if n&63 != 0 {
			row[n>>6] &= 1<<(n&63) - 1
		}
		row.clear(i)
		out[i] = row
	}
	for i := range out {
		o.behind[i].each(func(j int) { out[j].clear(i) })
	}
	return out
}

// each visits the members, ascending.
func (b bitset) each(fn func(x int)) {
	for k, w := range b {
		for ; w != 0; w &= w - 1 {
			fn(k<<6 + bits.TrailingZeros64(w))
		}
	}
}

// clear takes x out of the set.
func (b bitset) clear(x int) { b[x>>6] &^= 1 << (x & 63) }
