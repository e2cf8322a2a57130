package planner

import (
	"container/heap"
	"context"
	"math/bits"
)

// DSatur is the symbolic compiler's mapping of storage to equal-sized banks: colour the interference graph, then make
// every colour as large as its largest buffer.
//
//	a--b       saturation of a node = number of different colours around it. Take the node with the highest
//	|  |       saturation (ties: larger size, then index), give it the lowest colour not around it.
//	c--d       a:0  b:1  c:1  d:0
//
//	colour 1 |bb cccc|
//	colour 0 |aaaa dd|
//
// Source: Brélaz, New Methods to Color the Vertices of a Graph (1979), as the symbolic compiler uses it on the order that
// its unknown/act/hot/rec walk found (that walk is a schedule, and belongs to the room of schedules).
type DSatur struct{}

// Name is "dsatur".
func (DSatur) Name() string { return "dsatur" }

// Plan colours to the end whatever ctx says.
func (d DSatur) Plan(_ context.Context, p *Problem) (*Solution, error) {
	m, err := prepare(p)
	if err != nil {
		return nil, err
	}
	at, windows := m.dsatur()
	s := finish(d.Name(), m, at)
	s.Windows = windows
	return s, nil
}

func (m *model) dsatur() ([]int64, []Window) {
	c := &colouring{m: m, colour: make([]int32, len(m.items)), seen: make([]bitset, len(m.items)), sat: make([]int32, len(m.items))}
	c.around = m.neighbours()
	for i := range m.items {
		c.colour[i] = -1
		if m.items[i].fixed < 0 && m.items[i].size > 0 {
			c.push(i)
		}
	}
	for len(c.queue) > 0 {
		top := heap.Pop(&c.queue).(saturation)
		i := int(top.item)
		if c.colour[i] >= 0 || top.sat != c.sat[i] {
			continue
		}
		c.paint(i, c.seen[i].firstClear())
	}
	return m.stack(c.groups)
}

// colouring is the state of one run. Entries of the queue whose saturation is out of date are skipped when met.
type colouring struct {
	m      *model
	colour []int32
	seen   []bitset // colours around each item
	sat    []int32
	queue  saturations
	groups [][]int
	around func(i int, fn func(j int))
}

func (c *colouring) push(i int) {
	heap.Push(&c.queue, saturation{c.sat[i], int32(i), c.m.items[i].size})
}

// paint gives item i a colour and tells its neighbours.
func (c *colouring) paint(i, colour int) {
	c.colour[i] = int32(colour)
	if colour == len(c.groups) {
		c.groups = append(c.groups, nil)
	}
	c.groups[colour] = append(c.groups[colour], i)
	tell := func(j int) {
		if c.colour[j] < 0 && c.seen[j].set(colour) {
			c.sat[j]++
			if c.m.items[j].fixed < 0 {
				c.push(j)
			}
		}
	}
	c.around(i, tell)
}

// saturation is a queue entry.
type saturation struct {
	sat, item int32
	size      int64
}

type saturations []saturation

func (h saturations) Len() int { return len(h) }
func (h saturations) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.sat != b.sat {
		return a.sat > b.sat
	}
	if a.size != b.size {
		return a.size > b.size
	}
	return a.item < b.item
}
func (h saturations) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *saturations) Push(x any)   { *h = append(*h, x.(saturation)) }
func (h *saturations) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// bitset is a growing set of small numbers.
type bitset []uint64

// set adds x and reports whether it is new.
func (b *bitset) set(x int) bool {
	for len(*b) <= x>>6 {
		*b = append(*b, 0)
	}
	w := &(*b)[x>>6]
	if *w>>(x&63)&1 == 1 {
		return false
	}
	*w |= 1 << (x & 63)
	return true
}

// firstClear is the smallest number not in the set.
func (b bitset) firstClear() int {
	for k, w := range b {
		if w != ^uint64(0) {
			return k<<6 + bits.TrailingZeros64(^w)
		}
	}
	return len(b) << 6
}
