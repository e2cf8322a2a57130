package planner

import (
	"cmp"
	"context"
	"math/bits"

	"github.com/berth-onnx/berth/internal/rescue"
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
// its unknown/act/hot/rec walk found (that walk is the order bfs of package schedule).
type DSatur struct{}

// Name is "dsatur".
func (DSatur) Name() string { return "dsatur" }

// Plan gives a colour of its own to what is not painted yet when ctx ends.
func (d DSatur) Plan(ctx context.Context, p *Problem) (_ *Solution, err error) {
	defer rescue.Into(&err)
	return planBy(ctx, p, d.Name(), (*model).dsatur)
}

func (m *model) dsatur() ([]int64, []Window) {
	n := len(m.items)
	c := &colouring{m: m, colour: make([]int32, n), seen: make([]bitset, n), sat: make([]int32, n), around: m.neighbours()}
	c.order = m.sortedIDs(func(a, b int) int { return cmp.Or(cmp.Compare(m.items[b].size, m.items[a].size), cmp.Compare(a, b)) })
	c.rank = make([]int32, len(c.order))
	c.level = []*rankSet{newRankSet(len(c.order))}
	for r, i := range c.order {
		c.rank[i], c.colour[i] = int32(r), -1
		if m.items[i].size > 0 {
			c.level[0].add(r)
		}
	}
	for top := 0; top >= 0; {
		r := c.level[top].first()
		if r < 0 {
			top--
			continue
		}
		i := c.order[r]
		c.level[top].remove(r)
		if m.stop() {
			c.groups = append(c.groups, []int{i})
			continue
		}
		c.paint(i, c.seen[i].firstClear())
		top = len(c.level) - 1
	}
	return m.stack(c.groups)
}

// colouring is the state of one run. The unpainted items stand in one set per saturation, each in order of size.
type colouring struct {
	m      *model
	order  []int   // items by size, then index
	rank   []int32 // of each item in order
	colour []int32
	seen   []bitset // colours around each item
	sat    []int32
	level  []*rankSet // ranks of the unpainted items by saturation
	groups [][]int
	around func(i int, fn func(j int))
}

// paint gives item i a colour and tells its neighbours.
func (c *colouring) paint(i, colour int) {
	c.colour[i] = int32(colour)
	if colour == len(c.groups) {
		c.groups = append(c.groups, nil)
	}
	c.groups[colour] = append(c.groups[colour], i)
	c.around(i, func(j int) {
		if c.colour[j] < 0 && c.seen[j].set(colour) {
			c.promote(j)
		}
	})
}

// promote moves item j to the next saturation.
func (c *colouring) promote(j int) {
	r, s := int(c.rank[j]), int(c.sat[j])
	c.level[s].remove(r)
	if s+1 == len(c.level) {
		c.level = append(c.level, newRankSet(len(c.order)))
	}
	c.level[s+1].add(r)
	c.sat[j]++
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
