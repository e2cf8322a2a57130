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
// A row is what is neither after b nor before it; the latter is the transposed matrix of the former.
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
func (c *crowd) each(i int, fn func(j int)) {
	for k, w := range c.rows[i] {
		for ; w != 0; w &= w - 1 {
			fn(k<<6 + bits.TrailingZeros64(w))
		}
	}
}

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
	before := transposed(o.behind)
	for i := range out {
		row := make(bitset, (n+63)/64)
		for w := range row {
			row[w] = ^(o.behind[i][w] | before[i][w])
		}
		if n&63 != 0 {
			row[n>>6] &= 1<<(n&63) - 1
		}
		row.clear(i)
		out[i] = row
	}
	return out
}

// transposed turns rows into columns, 64 by 64 bits at a time.
func transposed(rows []bitset) []bitset {
	n := len(rows)
	out := make([]bitset, n)
	for i := range out {
		out[i] = make(bitset, (n+63)/64)
	}
	var block [64]uint64
	for y := 0; y < n; y += 64 {
		for w := range (n + 63) / 64 {
			for k := range block {
				block[k] = 0
				if y+k < n {
					block[k] = rows[y+k][w]
				}
			}
			turn(&block)
			for k := range block {
				if x := w<<6 + k; x < n {
					out[x][y>>6] = block[k]
				}
			}
		}
	}
	return out
}

// turn transposes a block: quarters are swapped across the diagonal, then quarters of quarters.
func turn(a *[64]uint64) {
	mask := uint64(1)<<32 - 1
	for j := 32; j != 0; j >>= 1 {
		for k := 0; k < 64; k = (k + j + 1) &^ j {
			t := (a[k]>>j ^ a[k+j]) & mask
			a[k] ^= t << j
			a[k+j] ^= t
		}
		mask ^= mask << (j >> 1)
	}
}

// clear takes x out of the set.
func (b bitset) clear(x int) { b[x>>6] &^= 1 << (x & 63) }
