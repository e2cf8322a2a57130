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

// cell is a run of nodes between cuts, with a model of its own.
type cell struct {
	nodes []int32 // node numbers of the level, in its normal order
	m     *model
}

// postpone ties every node that only takes memory (no predecessors, touches only
// what it alone writes and others read, needs nothing beside) to its readers: it
// runs right before the first of them. That loses nothing. In any order move such a node n to just
// before its first reader r: between, n's bytes are not taken yet; at its new
// place it needs live + bytes(n), and r needs at least as much right after,
// because what r may save by writing over operands is at most what r writes.
func (m *model) postpone() {
	writers := make([]int, len(m.regions))
	for _, n := range m.nodes {
		for _, r := range n.writes {
			writers[r]++
		}
	}
	for i := range m.nodes {
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

// cells brings the nodes into their normal order (the graph's, postponed nodes
// before their first reader) and divides it at the cuts.
func (m *model) cells(ctx context.Context) []cell {
	core, normal := m.normal()
	runs := m.cuts(core)
	s := newSim(m)
	var out []cell
	at := 0
	for _, last := range runs {
		if ctx.Err() != nil {
			break
		}
		var nodes []int32
		for len(nodes) == 0 || nodes[len(nodes)-1] != last {
			nodes = append(nodes, normal[at])
			at++
		}
		out = append(out, cell{nodes, m.part(s, nodes)})
		for _, n := range nodes {
			s.run(n)
		}
	}
	return out
}

// normal lists the nodes that are not postponed, and all nodes.
func (m *model) normal() (core, all []int32) {
	lazy := make([]bool, len(m.nodes))
	for i := range m.nodes {
		for _, b := range m.nodes[i].brings {
			lazy[b] = true
		}
	}
	placed := make([]bool, len(m.nodes))
	for i := range m.nodes {
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
func (m *model) cuts(core []int32) []int32 {
	n := len(core)
	pos := make([]int, len(m.nodes))
	for i := range pos {
		pos[i] = -1
	}
	for i, c := range core {
		pos[c] = i
	}
	reach := make([]int, n+1) // furthest first successor of nodes before i
	for i, c := range core {
		first := math.MaxInt
		for _, s := range m.nodes[c].succs {
			first = min(first, pos[s])
		}
		reach[i+1] = max(reach[i], first)
	}
	var out []int32
	back := math.MaxInt // nearest last predecessor of nodes after i
	for i := n - 1; i >= 0; i-- {
		if i == n-1 || reach[i] <= i && back >= i {
			out = append(out, core[i])
		}
		last := -1
		for _, p := range m.nodes[core[i]].preds {
			last = max(last, pos[p])
		}
		back = min(back, last)
	}
	slices.Reverse(out)
	return out
}

// part makes the model of some nodes that run next in s, all before what comes
// later. Regions that they do not touch are part of its base.
func (m *model) part(s *sim, nodes []int32) *model {
	p := &model{nodes: make([]mnode, len(nodes)), base: s.live}
	local := map[int32]int32{}
	regionOf := func(r int32) int32 {
		k, ok := local[r]
		if !ok {
			k = int32(len(p.regions))
			local[r] = k
			x := region{bytes: m.regions[r].bytes, early: s.written[r] > 0}
			p.regions = append(p.regions, x)
			if x.early {
				p.base -= x.bytes
			}
		}
		return k
	}
	regionsOf := func(rs []int32) []int32 {
		out := make([]int32, len(rs))
		for i, r := range rs {
			out[i] = regionOf(r)
		}
		return out
	}
	number := map[int32]int32{}
	for i, n := range nodes {
		number[n] = int32(i)
	}
	inside := func(ns []int32) (out []int32) {
		for _, n := range ns {
			if k, ok := number[n]; ok {
				out = append(out, k)
			}
		}
		return out
	}
	for i, n := range nodes {
		x := &m.nodes[n]
		y := mnode{extra: x.extra, preds: inside(x.preds), brings: inside(x.brings),
			touches: regionsOf(x.touches), writes: regionsOf(x.writes)}
		for _, f := range x.folds {
			y.folds = append(y.folds, fold{regionsOf(f.out), regionsOf(f.in)})
		}
		p.nodes[i] = y
	}
	p.countTouchers()
	for r, k := range local { // any order: each writes its own region
		p.regions[k].kept = s.left[r] > p.regions[k].touchers
	}
	p.link()
	return p
}
