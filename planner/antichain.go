package planner

import (
	"cmp"
	"slices"

	"github.com/berth-onnx/berth/internal/poset"
)

// The lower bound of a partial order: the antichain (set of pairwise unordered buffers) of the largest total size.
// All its members may be live at once, so every plan holds them side by side.
//
//	a --> b          chains {a b} {c d}; antichains {a c} {a d} {b c} {b d}
//	c --> d          sizes a=5 b=1 c=1 d=5: the heaviest is {a d}, 10 bytes
//
// By Dilworth's theorem with weights, its size is the total weight less the most that can be passed on along the
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
	if m.any != nil && len(ids) <= antichainLimit {
		members = m.heaviestAntichain(ids, g)
	}
	if members == nil {
		members = m.greedyAntichain(ids, g)
	}
	slices.Sort(members)
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

// greedyAntichain is the best of three: what is live at the fullest point of one schedule, and what interferes with all that is
// kept so far, taking the largest first, or those first whose neighbours are largest in sum.
func (m *model) greedyAntichain(ids []int, g int64) []int {
	var best []int
	if m.any != nil {
		best = m.liveInSchedule(ids)
	}
	sizes := make([]int64, len(m.items))
	for i := range sizes {
		sizes[i] = m.items[i].size
	}
	for _, weight := range [][]int64{sizes, m.contention()} {
		var kept []int
		for _, i := range m.sortedIDs(func(a, b int) int { return cmp.Compare(weight[b], weight[a]) }) {
			ordered := func(j int) bool { return !m.order.Interfere(i, j) }
			if !m.stop() && m.items[i].size > 0 && m.items[i].align%g == 0 && !slices.ContainsFunc(kept, ordered) {
				kept = append(kept, i)
			}
		}
		if m.stackOf(kept, g) > m.stackOf(best, g) {
			best = kept
		}
	}
	return best
}

// liveInSchedule is what is live at the fullest point of the schedule by node numbers: it is pairwise unordered.
func (m *model) liveInSchedule(ids []int) []int {
	t := &Problem{Buffers: make([]Buffer, len(ids))}
	for k, i := range ids {
		t.Buffers[k] = Buffer{Size: m.items[i].size, Lo: m.any.first[i], Hi: slices.Max(m.any.lives[i].Tails) + 1}
	}
	_, proof := newModel(t, m.stop).maxLive(1)
	for k, x := range proof.Members {
		proof.Members[k] = ids[x]
	}
	return proof.Members
}

// heaviestAntichain runs the flow over the buffers ids, which stand in order of birth; nil when stop ends it before.
func (m *model) heaviestAntichain(ids []int, g int64) []int {
	n := len(ids)
	source, sink := 2*n, 2*n+1
	f := newFlow(2*n + 2)
	behind := make([]poset.Set, n) // what is after each buffer
	for x := n - 1; x >= 0; x-- {
		if m.stop() {
			return nil
		}
		behind[x] = poset.NewSet(n)
		for y := x + 1; y < n; y++ {
			if !behind[x].Has(y) && !m.any.Interfere(ids[x], ids[y]) {
				f.connect(x, n+y, maxBytes)
				behind[x].Add(y)
				behind[x].Join(behind[y])
			}
		}
		w := alignUp(m.items[ids[x]].size, g)
		f.connect(source, x, w)
		f.connect(n+x, sink, w)
		f.connect(n+x, x, maxBytes)
	}
	if !f.run(source, sink, m.stop) {
		return nil
	}
	var members []int
	for x, i := range ids {
		if f.level[x] >= 0 && f.level[n+x] < 0 {
			members = append(members, i)
		}
	}
	return members
}

// flow is a network for Dinic's algorithm: shortest augmenting paths, found level by level.
type flow struct {
	arcs  [][]arc // by node
	level []int   // after run: -1 beyond the minimum cut
	next  []int   // by node: the first arc that may still lead to the sink
}

type arc struct {
	to, back int // back: its reverse among the arcs of to
	left     int64
}

func newFlow(n int) *flow {
	return &flow{arcs: make([][]arc, n), level: make([]int, n), next: make([]int, n)}
}

func (f *flow) connect(u, v int, capacity int64) {
	f.arcs[u] = append(f.arcs[u], arc{v, len(f.arcs[v]), capacity})
	f.arcs[v] = append(f.arcs[v], arc{u, len(f.arcs[u]) - 1, 0})
}

// run pushes a maximum flow; false when stop ends it before.
func (f *flow) run(source, sink int, stop func() bool) bool {
	for f.layer(source, sink) {
		clear(f.next)
		for f.push(source, sink, maxBytes) > 0 {
			if stop() {
				return false
			}
		}
	}
	return true
}

// layer numbers the nodes by distance from the source over arcs with capacity left; false when the sink is cut off.
func (f *flow) layer(source, sink int) bool {
	for i := range f.level {
		f.level[i] = -1
	}
	f.level[source] = 0
	queue := []int{source}
	for k := 0; k < len(queue); k++ {
		for _, a := range f.arcs[queue[k]] {
			if a.left > 0 && f.level[a.to] < 0 {
				f.level[a.to] = f.level[queue[k]] + 1
				queue = append(queue, a.to)
			}
		}
	}
	return f.level[sink] >= 0
}

// push sends up to amount from u to the sink along one layered path. Its depth is the length of the path.
func (f *flow) push(u, sink int, amount int64) int64 {
	if u == sink {
		return amount
	}
	for ; f.next[u] < len(f.arcs[u]); f.next[u]++ {
		a := &f.arcs[u][f.next[u]]
		if a.left == 0 || f.level[a.to] != f.level[u]+1 {
			continue
		}
		if sent := f.push(a.to, sink, min(amount, a.left)); sent > 0 {
			a.left -= sent
			f.arcs[a.to][a.back].left += sent
			return sent
		}
	}
	return 0
}
