package planner

import "sort"

// The lower bound of a partial order: the antichain (set of pairwise unordered buffers) of the largest total size.
// All its members may be live at once, so every plan holds them side by side.
//
//	a --> b          chains {a b} {c d}; antichains {a c} {a d} {b c} {b d}
//	c --> d          sizes a=5 b=1 c=1 d=5: the heaviest is {a d}, 10 bytes
//
// By Dilworth's theorem with weights, its size is the total weight less the most that can be "handed on" along the
// order: a maximum flow from left copies (bytes a buffer leaves behind) to right copies (bytes a later one takes over).
//
//	source --w--> L(a) --inf--> R(b) --w--> sink        for each a before b
//	              R(b) --inf--> L(b)                     hand through, so only neighbouring pairs need an edge
//
// The members fall out of the minimum cut: L reachable from the source, R not.
// Source: Dilworth 1950; Möhring, Algorithmic Aspects of Comparability Graphs (1985); flow by Dinic's algorithm.

// antichainLimit is the number of buffers up to which the exact flow is run. Above it the heaviest of three antichains found
// greedily is the bound: still a bound, since its members are pairwise unordered, but not always the best.
const antichainLimit = 2500

// maxAntichain is a heavy set of pairwise interfering buffers aligned to multiples of g: the heaviest for a Partial order of
// moderate size.
func (m *model) maxAntichain(g int64) (int64, Proof) {
	var ids []int
	for _, i := range m.p.birthOrder() {
		if m.p.Buffers[i].Size > 0 && m.p.align(i)%g == 0 {
			ids = append(ids, i)
		}
	}
	var members []int
	if o, ok := m.order.(*Partial); !ok {
		members = m.greedyClique(ids)
	} else if len(ids) <= antichainLimit {
		members = m.heaviestAntichain(o, ids, g)
	} else {
		members = m.liveInSchedule(o, ids)
		for _, byNeighbours := range []bool{false, true} {
			if other := m.greedyAntichain(ids, byNeighbours); m.stackOf(other, g) > m.stackOf(members, g) {
				members = other
			}
		}
	}
	sort.Ints(members)
	return m.stackOf(members, g), Proof{Kind: ProofWitness, Point: -1, Members: members}
}

// stackOf is what buffers that are live together need: their sizes padded to multiples of g, less the largest padding.
func (m *model) stackOf(members []int, g int64) int64 {
	var sum, pad int64
	for _, i := range members {
		size := m.p.Buffers[i].Size
		sum += alignUp(size, g)
		pad = max(pad, alignUp(size, g)-size)
	}
	return sum - pad
}

// greedyAntichain keeps each buffer that interferes with all kept so far, largest first, or those first whose
// neighbours are largest in sum.
func (m *model) greedyAntichain(ids []int, byNeighbours bool) []int {
	c := m.crowd()
	if c == nil {
		return nil
	}
	weight := make([]int64, len(m.p.Buffers))
	for _, i := range ids {
		if weight[i] = m.p.Buffers[i].Size; byNeighbours {
			c.each(i, func(j int) { weight[i] += m.p.Buffers[j].Size })
		}
	}
	ids = append([]int(nil), ids...)
	sort.SliceStable(ids, func(a, b int) bool { return weight[ids[a]] > weight[ids[b]] })
	common := make(bitset, (len(weight)+63)/64)
	for w := range common {
		common[w] = ^uint64(0)
	}
	var kept []int
	for _, i := range ids {
		if common.has(i) {
			kept = append(kept, i)
			for w, x := range c.rows[i] {
				common[w] &= x
			}
		}
	}
	return kept
}

// heaviestAntichain runs the flow over the buffers ids, which stand in an order that respects the partial one.
func (m *model) heaviestAntichain(o *Partial, ids []int, g int64) []int {
	n := len(ids)
	source, sink := 2*n, 2*n+1
	f := newFlow(2*n + 2)
	behind := make([]bitset, n) // what is after each buffer
	for x := n - 1; x >= 0; x-- {
		if m.stop() {
			return m.liveInSchedule(o, ids)
		}
		covered := make(bitset, (n+63)/64)
		for y := x + 1; y < n; y++ {
			if covered.has(y) || !o.after(ids[x], ids[y]) {
				continue
			}
			f.connect(x, n+y, maxBytes)
			covered.set(y)
			for w, bits := range behind[y] {
				covered[w] |= bits
			}
		}
		behind[x] = covered
		w := alignUp(m.p.Buffers[ids[x]].Size, g)
		f.connect(source, x, w)
		f.connect(n+x, sink, w)
		f.connect(n+x, x, maxBytes)
	}
	if !f.run(source, sink, m.stop) {
		return m.liveInSchedule(o, ids)
	}
	side := f.reachable(source)
	var members []int
	for x, i := range ids {
		if side[x] && !side[n+x] {
			members = append(members, i)
		}
	}
	return members
}

// liveInSchedule takes one schedule of the graph and returns what is alive at its most crowded node: buffers alive
// together in one valid schedule are unordered.
func (m *model) liveInSchedule(o *Partial, ids []int) []int {
	n := len(o.nodes.Topo)
	load := make([]int64, n+1)
	span := func(i int) (lo, hi int) {
		lo = n
		for _, h := range o.lives[i].Heads {
			lo = min(lo, int(o.nodes.Pos[h]))
		}
		for _, t := range o.lives[i].Tails {
			hi = max(hi, int(o.nodes.Pos[t])+1)
		}
		return lo, hi
	}
	for _, i := range ids {
		lo, hi := span(i)
		load[lo] += m.p.Buffers[i].Size
		load[hi] -= m.p.Buffers[i].Size
	}
	best, at := int64(0), 0
	sum := int64(0)
	for t, d := range load {
		if sum += d; sum > best {
			best, at = sum, t
		}
	}
	var members []int
	for _, i := range ids {
		if lo, hi := span(i); lo <= at && at < hi {
			members = append(members, i)
		}
	}
	return members
}

// greedyClique serves orders of unknown kind: largest first, keep what interferes with everything kept.
func (m *model) greedyClique(ids []int) []int {
	ids = append([]int(nil), ids...)
	sort.SliceStable(ids, func(a, b int) bool { return m.p.Buffers[ids[a]].Size > m.p.Buffers[ids[b]].Size })
	var kept []int
next:
	for _, i := range ids {
		if m.stop() {
			break
		}
		for _, j := range kept {
			if !m.order.Interfere(i, j) {
				continue next
			}
		}
		kept = append(kept, i)
	}
	return kept
}

// flow is a network for Dinic's algorithm: shortest augmenting paths, found level by level.
type flow struct {
	first []int32 // per node: its newest arc, or -1
	arcs  []arc   // arc k and its reverse k^1
	level []int32
	next  []int32
}

type arc struct {
	to, link int32
	room     int64
}

func newFlow(n int) *flow {
	f := &flow{first: make([]int32, n), level: make([]int32, n), next: make([]int32, n)}
	for i := range f.first {
		f.first[i] = -1
	}
	return f
}

func (f *flow) connect(u, v int, room int64) {
	f.arcs = append(f.arcs, arc{int32(v), f.first[u], room}, arc{int32(u), f.first[v], 0})
	f.first[u], f.first[v] = int32(len(f.arcs)-2), int32(len(f.arcs)-1)
}

// run pushes a maximum flow; false when stop ends it before.
func (f *flow) run(source, sink int, stop func() bool) bool {
	for f.layer(source, sink) {
		copy(f.next, f.first)
		for f.push(int32(source), int32(sink), maxBytes) > 0 {
			if stop() {
				return false
			}
		}
	}
	return true
}

// layer numbers the nodes by distance from the source over arcs with room; false when the sink is cut off.
func (f *flow) layer(source, sink int) bool {
	for i := range f.level {
		f.level[i] = -1
	}
	f.level[source] = 0
	queue := []int32{int32(source)}
	for len(queue) > 0 {
		u := queue[0]
		queue = queue[1:]
		for k := f.first[u]; k >= 0; k = f.arcs[k].link {
			if v := f.arcs[k].to; f.arcs[k].room > 0 && f.level[v] < 0 {
				f.level[v] = f.level[u] + 1
				queue = append(queue, v)
			}
		}
	}
	return f.level[sink] >= 0
}

// push sends up to amount from u to the sink along one layered path. Its depth is the length of the path.
func (f *flow) push(u, sink int32, amount int64) int64 {
	if u == sink {
		return amount
	}
	for ; f.next[u] >= 0; f.next[u] = f.arcs[f.next[u]].link {
		a := &f.arcs[f.next[u]]
		if a.room == 0 || f.level[a.to] != f.level[u]+1 {
			continue
		}
		if sent := f.push(a.to, sink, min(amount, a.room)); sent > 0 {
			a.room -= sent
			f.arcs[f.next[u]^1].room += sent
			return sent
		}
	}
	return 0
}

// reachable marks what the source still reaches once the flow is maximal: its side of the minimum cut.
func (f *flow) reachable(source int) []bool {
	f.layer(source, source)
	side := make([]bool, len(f.level))
	for i, l := range f.level {
		side[i] = l >= 0
	}
	return side
}
