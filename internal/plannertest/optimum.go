package plannertest

import (
	"slices"

	"github.com/berth-onnx/berth/planner"
)

// bruteLimit is the number of buffers up to which Optimum tries everything.
const bruteLimit = 7

// Conflicts tells for every pair of buffers whether they may not share a byte, from the lives alone: the answers of the
// planner's own orders are not used.
func (c *Case) Conflicts() [][]bool {
	var out [][]bool
	if c.Graph != nil {
		out = c.Graph.conflicts()
	} else {
		out = meetings(c.Problem.Buffers)
	}
	for a := range out {
		for b := range out {
			if c.Problem.Buffers[a].Size == 0 || c.Problem.Buffers[b].Size == 0 {
				out[a][b] = false
			}
		}
	}
	return out
}

// meetings looks at every point of every life.
func meetings(buffers []planner.Buffer) [][]bool {
	alive := func(b *planner.Buffer, t int) bool {
		return b.Lo <= t && t < b.Hi && !slices.ContainsFunc(b.Holes, func(h planner.Range) bool { return h.Lo <= t && t < h.Hi })
	}
	out := make([][]bool, len(buffers))
	for a := range out {
		out[a] = make([]bool, len(buffers))
	}
	for a := range out {
		for b := range a {
			x, y := &buffers[a], &buffers[b]
			for t := max(x.Lo, y.Lo); t < min(x.Hi, y.Hi); t++ {
				if alive(x, t) && alive(y, t) {
					out[a][b], out[b][a] = true, true
					break
				}
			}
		}
	}
	return out
}

// Optimum is the least height of a plan that is below limit, or limit when there is none. Buffers are placed in every order, each at
// the lowest place that is free: taken in the order of its offsets, no plan is lower than what this makes of that order,
// for whatever is placed before a buffer lies under it in the plan. Buffers of a group are placed together.
func (c *Case) Optimum(limit int64) int64 {
	b := &brute{p: c.Problem, conflict: c.Conflicts(), at: make([]int64, len(c.Problem.Buffers)), best: limit}
	groups := map[int]int{}
	for i := range b.at {
		x := &b.p.Buffers[i]
		b.at[i] = -1
		if k, ok := groups[x.Group]; ok && x.Group > 0 {
			b.items[k] = append(b.items[k], i)
			continue
		}
		groups[x.Group] = len(b.items)
		b.items = append(b.items, []int{i})
	}
	b.done = make([]bool, len(b.items))
	height := int64(0)
	for k, item := range b.items {
		for _, i := range item {
			if x := &b.p.Buffers[i]; x.Fixed {
				height = max(height, b.put(k, x.Offset))
			}
		}
	}
	b.search(height)
	return b.best
}

// brute is the state of Optimum.
type brute struct {
	p        *planner.Problem
	conflict [][]bool
	items    [][]int // buffers that share an offset
	done     []bool
	at       []int64
	best     int64
}

// put places item k and returns the end of its highest buffer.
func (b *brute) put(k int, off int64) (end int64) {
	b.done[k] = true
	for _, i := range b.items[k] {
		b.at[i] = off
		end = max(end, off+b.p.Buffers[i].Size)
	}
	return end
}

// search places what is left, in every order, over a height reached already.
func (b *brute) search(height int64) {
	if height >= b.best {
		return
	}
	last := true
	for k := range b.items {
		if !b.done[k] {
			last = false
			b.search(max(height, b.put(k, b.lowest(k))))
			b.done[k] = false
			for _, i := range b.items[k] {
				b.at[i] = -1
			}
		}
	}
	if last {
		b.best = height
	}
}

// lowest is the first offset at which item k fits.
func (b *brute) lowest(k int) int64 {
	off := int64(0)
	for again := true; again; {
		again = false
		for _, i := range b.items[k] {
			x := &b.p.Buffers[i]
			for _, a := range []int64{x.Align, b.p.Align} {
				if a > 1 && off%a != 0 {
					off += a - off%a
					again = true
				}
			}
			for j, at := range b.at {
				if end := at + b.p.Buffers[j].Size; at >= 0 && b.conflict[i][j] && off < end && at < off+x.Size {
					off = end
					again = true
				}
			}
		}
	}
	return off
}
