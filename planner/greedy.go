package planner

import (
	"cmp"
	"context"
	"slices"

	"github.com/berth-onnx/berth/internal/rescue"
)

// GreedySize places the largest buffer first, each into the tightest gap between the placed buffers that it
// interferes with (board.tightest).
//
//	order by size: A B C D           B, then C fill the arena from below; D fits the gap under C
//	 |          CCCC |
//	 |AAAAAAAA  CCCC |
//	 |AAAAAAAA  DD   |
//	 |BBBBBBBBBBBBBBB|
//
// Source: "greedy by size for offset calculation" of Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net
// Inference (2020), as in TensorFlow Lite's arena planner. Ties: earlier birth first, then index.
type GreedySize struct{}

// Name is "greedy-size".
func (GreedySize) Name() string { return "greedy-size" }

// Plan piles up what is not placed yet when ctx ends.
func (g GreedySize) Plan(ctx context.Context, p *Problem) (_ *Solution, err error) {
	defer rescue.Into(&err)
	return planBy(ctx, p, g.Name(), func(m *model) ([]int64, []Window) { return m.greedySize(anyHeight), nil })
}

func (m *model) greedySize(limit int64) []int64 {
	return m.fillTight(limit, m.bySize())
}

// bySize lists the items, largest first, ties by birth. Models have few sizes: each has its part of the list, which fills up in
// order of birth.
func (m *model) bySize() []int {
	count := map[int64]int{}
	for i := range m.items {
		count[m.items[i].size]++
	}
	if len(count) > len(m.items)/8 || m.stop() {
		return m.sortedItems(func(a, b *item) int { return cmp.Compare(b.size, a.size) })
	}
	sizes := make([]uint64, 0, len(count)) // none is negative, and programs have the code that sorts such
	for size := range count {
		sizes = append(sizes, uint64(size))
	}
	slices.Sort(sizes)
	end := len(m.items)
	for _, size := range sizes {
		end -= count[int64(size)]
		count[int64(size)] = end
	}
	out := make([]int, len(m.items))
	for _, i := range m.byBirth() {
		at := count[m.items[i].size]
		out[at], count[m.items[i].size] = i, at+1
	}
	return out
}

// byBirth lists the items in order of birth.
func (m *model) byBirth() []int {
	ids := make([]int, len(m.items))
	for i := range m.items {
		ids[m.items[i].birth] = i
	}
	return ids
}

// GreedyBreadth visits the time points by the bytes alive at them, most first, and places what is alive there and not
// yet placed, largest first, best fit: the points with the most live bytes are placed while every offset is still free.
//
// Source: "greedy by breadth" of the paper above (there, breadth is that of an operator's tensor set). For a partial order
// the breadth of a buffer is the sum of its neighbours' sizes, and buffers are taken by that.
type GreedyBreadth struct{}

// Name is "greedy-breadth".
func (GreedyBreadth) Name() string { return "greedy-breadth" }

// Plan piles up what is not placed yet when ctx ends.
func (g GreedyBreadth) Plan(ctx context.Context, p *Problem) (_ *Solution, err error) {
	defer rescue.Into(&err)
	return planBy(ctx, p, g.Name(), func(m *model) ([]int64, []Window) { return m.greedyBreadth(anyHeight), nil })
}

func (m *model) greedyBreadth(limit int64) []int64 {
	weight := m.contention()
	return m.fillTight(limit, m.sortedIDs(func(a, b int) int {
		return cmp.Or(cmp.Compare(weight[b], weight[a]), cmp.Compare(m.items[b].size, m.items[a].size))
	}))
}

// contention is, per item, the highest stack of live bytes that it takes part in; for a partial order
// the sum of its own and its neighbours' sizes.
func (m *model) contention() []int64 {
	weight := make([]int64, len(m.items))
	if !m.timed {
		around := m.neighbours()
		for i := range m.items {
			weight[i] = m.items[i].size
			around(i, func(j int) { weight[i] += m.items[j].size })
		}
		return weight
	}
	top := newPeaks(m.stacks(m.alignments()[0]))
	for i := range m.items {
		for _, p := range m.items[i].pieces {
			weight[i] = max(weight[i], top.max(int(p.lo), int(p.hi)))
		}
	}
	return weight
}

// anyHeight is a limit that no plan reaches.
const anyHeight = wall

// fillTight places the items in the given order, each best fit. It gives up, with nil, when the plan reaches the limit.
func (m *model) fillTight(limit int64, order []int) []int64 {
	b := newBoard(m)
	return b.fill(limit, order, b.tightest)
}

// sortedItems lists all items by cmp, ties by birth, then index.
func (m *model) sortedItems(less func(a, b *item) int) []int {
	return m.sortedIDs(func(a, b int) int { return less(&m.items[a], &m.items[b]) })
}

// sortedIDs is sortedItems for a comparison of indices.
func (m *model) sortedIDs(less func(a, b int) int) []int {
	ids := m.byBirth() // sorted already where all compare the same
	if m.stop() {
		return ids // they will be piled up anyhow
	}
	slices.SortFunc(ids, func(a, b int) int {
		return cmp.Or(less(a, b), cmp.Compare(m.items[a].birth, m.items[b].birth))
	})
	return ids
}

// peaks answers range-maximum questions over a fixed list: level k holds the maxima of runs of 2^k.
type peaks struct{ level [][]int64 }

func newPeaks(values []int64) *peaks {
	p := &peaks{level: [][]int64{values}}
	for w := 1; 2*w <= len(values); w *= 2 {
		below := p.level[len(p.level)-1]
		row := make([]int64, len(values)-2*w+1)
		for i := range row {
			row[i] = max(below[i], below[i+w])
		}
		p.level = append(p.level, row)
	}
	return p
}

// max of values[lo:hi]; 0 when empty.
func (p *peaks) max(lo, hi int) int64 {
	if lo >= hi {
		return 0
	}
	k := 0
	for 2<<k <= hi-lo {
		k++
	}
	return max(p.level[k][lo], p.level[k][hi-(1<<k)])
}
