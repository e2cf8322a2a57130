package schedule

import (
	"context"
	"math"
	"slices"
)

// A node that every other node comes before or after is a cut: all orders run the
// same nodes before it, so the memory at it is the same, and what lies between two
// cuts can be ordered without looking at the rest.
//
//	        ┌─▶ b ─▶ c ─┐         ┌─▶ f ─┐
//	──▶ a ──┤           ├──▶ e ───┤      ├──▶ h ──▶       cells: a | b c d e | f g h
//	        └─▶ d ──────┘         └─▶ g ─┘                what skips a cell (a long
//	                                                      shortcut) is constant in it
//
// Nodes without operands of their own (they read parameters and constants only)
// would come before nothing; they are tied to their first reader first.

// cell is a run of nodes between cuts.
type cell struct {
	nodes []int32 // node numbers of the level, in its normal order
	from  int     // place of the first one in that order
	live  int64   // alive before it
	peak  int64   // what the cell needs in its normal order
}

// division is the cells of a model, and what is needed to make a model of one of them.
type division struct {
	m     *model
	cells []cell
	first []int32 // by region: the place of its first writer in the normal order; the number of nodes for none
	last  []int32 // by region: the place of the last node that touches it, -1 for none

	region, node []int32 // by number in m: the number in the part that is made, plus one
}

// postpone ties every node that only takes memory (no predecessors, touches only
// what it alone writes and others read, needs nothing beside) to its readers: it
// runs right before the first of them. That loses nothing. In any order move such a node n to just
// before its first reader r: between, n's bytes are not taken yet; at its new
// place it needs live + bytes(n), and r needs at least as much right after,
// because what r may save by writing over operands is at most what r writes.
//
// It postpones no more of them once the context has ended.
func (m *model) postpone(ctx context.Context) {
	writers := make([]int, len(m.regions))
	for i := range m.nodes {
		for _, r := range m.nodes[i].writes {
			writers[r]++
		}
	}
	for i := range m.nodes {
		if i%lookEvery == 0 && ctx.Err() != nil {
			return
		}
		n := &m.nodes[i]
		if len(n.preds) > 0 || len(n.succs) == 0 || n.extra > 0 || len(n.touches) != len(n.writes) {
			continue
		}
		stays := true // until the first reader and longer
		for _, r := range n.writes {
			x := m.regions[r]
			stays = stays && writers[r] == 1 && (x.touchers > 1 || x.kept)
		}
		if !stays {
			continue
		}
		for _, s := range n.succs {
			m.nodes[s].brings = append(m.nodes[s].brings, int32(i))
		}
	}
}

// divide brings the nodes into their normal order (the graph's, postponed nodes
// before their first reader) and divides it at the cuts. What it says is of no use once the context has ended.
func (m *model) divide(ctx context.Context) *division {
	core, normal := m.normal(ctx)
	cuts := m.cuts(ctx, core)
	d := &division{m: m, cells: make([]cell, 0, len(cuts)), first: make([]int32, len(m.regions)), last: make([]int32, len(m.regions)),
		region: make([]int32, len(m.regions)), node: make([]int32, len(m.nodes))}
	for r := range m.regions {
		d.first[r], d.last[r] = int32(len(normal)), -1
	}
	s := newSim(ctx, m)
	at := 0
	for _, end := range cuts {
		c := cell{from: at, live: s.live, peak: s.live}
		for last := int32(-1); last != end; at++ {
			if at%lookEvery == 0 && ctx.Err() != nil {
				return d
			}
			last = normal[at]
			d.note(at, last)
			c.peak = max(c.peak, s.need(last))
			s.run(last)
		}
		c.nodes = normal[c.from:at]
		d.cells = append(d.cells, c)
	}
	return d
}

// lookEvery is how many nodes a loop passes between two looks at the context.
const lookEvery = 1024

// note enters a node's place in the normal order with the regions that it writes and touches.
func (d *division) note(at int, n int32) {
	x := &d.m.nodes[n]
	for _, r := range x.writes {
		d.first[r] = min(d.first[r], int32(at))
	}
	for _, r := range x.touches {
		d.last[r] = int32(at)
	}
}

// normal lists the nodes that are not postponed, and all nodes, or those up to some once the context has ended.
func (m *model) normal(ctx context.Context) (core, all []int32) {
	lazy := make([]bool, len(m.nodes))
	for i := range m.nodes {
		for _, b := range m.nodes[i].brings {
			lazy[b] = true
		}
	}
	placed := make([]bool, len(m.nodes))
	for i := range m.nodes {
		if i%lookEvery == 0 && ctx.Err() != nil {
			return core, all
		}
		if lazy[i] {
			continue
		}
		for _, b := range m.nodes[i].brings {
			if !placed[b] {
				placed[b] = true
				all = append(all, b)
			}
		}
		core = append(core, int32(i))
		all = append(all, int32(i))
	}
	return core, all
}

// cuts returns the last node of every cell. In a topological order, the node at
// position i is a cut if everything before reaches it and it reaches everything
// after. By induction that is so if every node before has a successor at i or
// before, and every node after a predecessor at i or after.
func (m *model) cuts(ctx context.Context, core []int32) []int32 {
	n := len(core)
	pos := make([]int32, len(m.nodes))
	for i := range pos {
		pos[i] = -1
	}
	for i, c := range core {
		pos[c] = int32(i)
	}
	reach := make([]int32, n+1) // furthest first successor of nodes before i
	for i, c := range core {
		if i%lookEvery == 0 && ctx.Err() != nil {
			return nil
		}
		first := int32(math.MaxInt32)
		for _, s := range m.nodes[c].succs {
			first = min(first, pos[s])
		}
		reach[i+1] = max(reach[i], first)
	}
	var out []int32
	back := int32(math.MaxInt32) // nearest last predecessor of nodes after i
	for i := n - 1; i >= 0; i-- {
		if i%lookEvery == 0 && ctx.Err() != nil {
			return nil
		}
		if i == n-1 || reach[i] <= int32(i) && back >= int32(i) {
			out = append(out, core[i])
		}
		last := int32(-1)
		for _, p := range m.nodes[core[i]].preds {
			last = max(last, pos[p])
		}
		back = min(back, last)
	}
	slices.Reverse(out)
	return out
}

// part makes the model of the nodes of a cell. Regions that they do not touch are part of its base. It is of no use once the context
// has ended.
func (d *division) part(ctx context.Context, c *cell) *model {
	m, end := d.m, c.from+len(c.nodes)
	p := &model{nodes: make([]mnode, len(c.nodes)), base: c.live}
	var numbers []int32 // in m, of the regions of p
	regionsOf := func(rs []int32) []int32 {
		out := make([]int32, len(rs))
		for i, r := range rs {
			if d.region[r] == 0 {
				x := region{bytes: m.regions[r].bytes, early: m.regions[r].early || int(d.first[r]) < c.from,
					kept: m.regions[r].kept || int(d.last[r]) >= end}
				if x.early {
					p.base -= x.bytes
				}
				p.regions, numbers = append(p.regions, x), append(numbers, r)
				d.region[r] = int32(len(p.regions))
			}
			out[i] = d.region[r] - 1
		}
		return out
	}
	for i, n := range c.nodes {
		d.node[n] = int32(i) + 1
	}
	inside := func(ns []int32) (out []int32) {
		for _, n := range ns {
			if k := d.node[n]; k > 0 {
				out = append(out, k-1)
			}
		}
		return out
	}
	for i, n := range c.nodes {
		if i%lookEvery == 0 && ctx.Err() != nil {
			return p
		}
		x := &m.nodes[n]
		y := mnode{extra: x.extra, preds: inside(x.preds), brings: inside(x.brings),
			touches: regionsOf(x.touches), writes: regionsOf(x.writes)}
		for _, f := range x.folds {
			y.folds = append(y.folds, fold{regionsOf(f.out), regionsOf(f.in)})
		}
		p.nodes[i] = y
	}
	for _, n := range c.nodes {
		d.node[n] = 0
	}
	for _, r := range numbers {
		d.region[r] = 0
	}
	p.countTouchers()
	p.link()
	return p
}
