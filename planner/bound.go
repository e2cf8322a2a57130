package planner

import (
	"container/heap"
	"slices"
)

// Lower bounds. Buffers that are pairwise live together lie side by side, so the arena holds their sum.
//
//	bytes        .                          the witness is the time point where the
//	  9 |      ##                           stack of live bytes is highest
//	  6 |   ######
//	  3 | ############
//	    +------^-------> time
//
// Of buffers that are all aligned to g, every one but the topmost occupies a multiple of g: the bound counts padded sizes
// less the largest padding. Where alignments differ, each stands for the buffers aligned to a multiple of it, and the
// highest stack of any counts. For a partial order the stack becomes an antichain (antichain.go). A single buffer
// is a bound too.
//
// Source: the largest clique of an interval graph is the set alive at some point (Golumbic, Algorithmic Graph Theory and
// Perfect Graphs, 1980).

// bound is the best cheap lower bound with its witness.
func (m *model) bound() (int64, Proof) {
	best, proof := m.singleBound()
	for _, g := range m.alignments() {
		var high int64
		var at Proof
		if m.timed {
			high, at = m.maxLive(g)
		} else {
			high, at = m.maxAntichain(g)
		}
		if high > best {
			best, proof = high, at
		}
	}
	return best, proof
}

// singleBound is the size of the largest buffer.
func (m *model) singleBound() (int64, Proof) {
	var best int64
	proof := Proof{Kind: ProofNone, Point: -1}
	for i := range m.p.Buffers {
		if h := m.p.Buffers[i].Size; h > best {
			best = h
			proof = Proof{Kind: ProofWitness, Point: -1, Members: []int{i}}
		}
	}
	return best, proof
}

// alignmentLimit is how many alignments are looked at, beside the common one; larger ones pad more.
const alignmentLimit = 7

// alignments lists those that make a difference: the greatest common divisor of all, then the others from the largest down.
func (m *model) alignments() []int64 {
	g := int64(0)
	var list []int64
	for i := range m.p.Buffers {
		if m.p.Buffers[i].Size > 0 {
			a := m.p.align(i)
			g = gcd(a, g)
			if !slices.Contains(list, a) && len(list) < 4*alignmentLimit {
				list = append(list, a)
			}
		}
	}
	g = max(g, 1)
	list = slices.DeleteFunc(list, func(a int64) bool { return a == g })
	slices.Sort(list)
	slices.Reverse(list)
	return append([]int64{g}, list[:min(len(list), alignmentLimit)]...)
}

// maxLive is the highest stack over all points of live bytes in buffers aligned to multiples of g.
func (m *model) maxLive(g int64) (int64, Proof) {
	heights := m.stacks(g)
	best, point := int64(0), -1
	for t, h := range heights {
		if h > best {
			best, point = h, t
		}
	}
	if point < 0 {
		return 0, Proof{Point: -1}
	}
	proof := Proof{Kind: ProofWitness, Point: m.times[point]}
	for i := range m.p.Buffers {
		if b := &m.p.Buffers[i]; b.Size > 0 && m.p.align(i)%g == 0 && b.liveAt(proof.Point) {
			proof.Members = append(proof.Members, i)
		}
	}
	return best, proof
}

// liveAt reports whether t is in the buffer's live range and in no hole of it.
func (b *Buffer) liveAt(t int) bool {
	return b.Lo <= t && t < b.Hi && !slices.ContainsFunc(b.Holes, func(h Range) bool { return h.Lo <= t && t < h.Hi })
}

// stacks gives the bytes that the live pieces of items aligned to multiples of g need at each dense point.
func (m *model) stacks(g int64) []int64 {
	n := max(len(m.times)-1, 0)
	heights := make([]int64, n+1)
	padded := false
	for i := range m.items {
		if m.items[i].align%g != 0 {
			continue
		}
		s := alignUp(m.items[i].size, g)
		for _, p := range m.items[i].pieces {
			padded = padded || s != m.items[i].size
			heights[p.lo] += s
			heights[p.hi] -= s
		}
	}
	for t := 1; t <= n; t++ {
		heights[t] += heights[t-1]
	}
	if padded {
		m.unpadTop(heights, g)
	}
	return heights[:n]
}

// unpadTop takes the largest padding alive at each point off its stack: the topmost buffer may be that one.
func (m *model) unpadTop(heights []int64, g int64) {
	starts := make([][]padding, len(heights))
	for i := range m.items {
		if m.items[i].align%g != 0 {
			continue
		}
		if pad := alignUp(m.items[i].size, g) - m.items[i].size; pad > 0 {
			for _, p := range m.items[i].pieces {
				starts[p.lo] = append(starts[p.lo], padding{pad, p.hi})
			}
		}
	}
	var live queue[padding]
	for t := range heights {
		for _, p := range starts[t] {
			heap.Push(&live, p)
		}
		for len(live) > 0 && int(live[0].hi) <= t {
			heap.Pop(&live)
		}
		if len(live) > 0 {
			heights[t] -= live[0].bytes
		}
	}
}

// padding is a heap entry: bytes of padding that last until point hi.
type padding struct {
	bytes int64
	hi    int32
}

func (p padding) ahead(q padding) bool { return p.bytes > q.bytes }

// queue is a heap of what has an order of its own.
type queue[T interface{ ahead(T) bool }] []T

func (h queue[T]) Len() int           { return len(h) }
func (h queue[T]) Less(i, j int) bool { return h[i].ahead(h[j]) }
func (h queue[T]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *queue[T]) Push(x any)        { *h = append(*h, x.(T)) }
func (h *queue[T]) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
