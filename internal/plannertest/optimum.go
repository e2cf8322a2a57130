package plannertest

import (
	"slices"

	"github.com/berth-onnx/berth/planner"
)

// bruteLimit is the number of buffers up to which Optimum tries everything.
const bruteLimit = 7

// Conflicts tells for every pair of buffers whether they may not share a byte, from the live ranges alone: the answers of the
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

// meetings looks at every point of every live range.
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
// for whatever is placed before a buffer lies under it in the plan.
func (c *Case) Optimum(limit int64) int64 {
	b := &brute{p: c.Problem, conflict: c.Conflicts(), at: make([]int64, len(c.Problem.Buffers)), best: limit}
	for i := range b.at {
		b.at[i] = -1
	}
	b.search(0)
	return b.best
}

// brute is the state of Optimum.
type brute struct {
	p        *planner.Problem
	conflict [][]bool
	at       []int64 // -1 while not placed
	best     int64
}

// search places what is left, in every order, over a height reached already.
func (b *brute) search(height int64) {
	if height >= b.best {
		return
	}
	last := true
	for i := range b.at {
		if b.at[i] < 0 {
			last = false
			b.at[i] = b.lowest(i)
			b.search(max(height, b.at[i]+b.p.Buffers[i].Size))
			b.at[i] = -1
		}
	}
	if last {
		b.best = height
	}
}

// lowest is the first offset at which buffer i fits.
func (b *brute) lowest(i int) int64 {
	off, x := int64(0), &b.p.Buffers[i]
	for again := true; again; {
		again = false
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
	return off
}
