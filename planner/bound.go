package planner

import "container/heap"

// Lower bounds. Buffers that are pairwise live together lie side by side, so the arena holds their sum.
//
//	bytes        .                          the witness is the time point where the
//	  9 |      ##                           stack of live bytes is highest
//	  6 |   ######
//	  3 | ############
//	    +------^-------> time
//
// With a common alignment g every buffer but the topmost occupies a multiple of g; the bound counts padded sizes less the
// largest padding. For a partial order the stack becomes an antichain (antichain.go). A single buffer, and the end of
// a fixed one, are bounds too.

// bound is the best cheap lower bound with its witness.
func (m *model) bound() (int64, Proof) {
	best, proof := m.singleBound()
	var high int64
	var at Proof
	if m.timed {
		high, at = m.maxLive()
	} else {
		high, at = m.maxAntichain()
	}
	if high > best {
		return high, at
	}
	return best, proof
}

// singleBound is the end of the highest fixed buffer or the size of the largest one.
func (m *model) singleBound() (int64, Proof) {
	var best int64
	proof := Proof{Kind: ProofNone, Point: -1}
	for i := range m.p.Buffers {
		b := &m.p.Buffers[i]
		h := b.Size
		if it := &m.items[m.itemOf[i]]; it.fixed >= 0 {
			h += it.fixed
		}
		if h > best {
			best = h
			proof = Proof{Kind: ProofWitness, Point: -1, Members: []int{i}}
		}
	}
	return best, proof
}

// commonAlign is the greatest common divisor of the alignments of all buffers of some size.
func (m *model) commonAlign() int64 {
	var g int64
	for i := range m.p.Buffers {
		if m.p.Buffers[i].Size > 0 {
			g = gcd(m.p.align(i), g)
		}
	}
	return max(g, 1)
}

// maxLive is the highest stack of live bytes over all points.
func (m *model) maxLive() (int64, Proof) {
	heights := m.stacks()
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
		if b := &m.p.Buffers[i]; b.Size > 0 && b.liveAt(proof.Point) {
			proof.Members = append(proof.Members, i)
		}
	}
	return best, proof
}

// liveAt reports whether t is in the buffer's life and in no hole of it.
func (b *Buffer) liveAt(t int) bool {
	if t < b.Lo || t >= b.Hi {
		return false
	}
	for _, h := range b.Holes {
		if t >= h.Lo && t < h.Hi {
			return false
		}
	}
	return true
}

// stacks gives the bytes that the live pieces need at each dense point.
func (m *model) stacks() []int64 {
	n := max(len(m.times)-1, 0)
	heights := make([]int64, n+1)
	g := m.commonAlign()
	padded := false
	for i := range m.items {
		for _, p := range m.items[i].pieces {
			s := alignUp(p.size, g)
			padded = padded || s != p.size
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
		for _, p := range m.items[i].pieces {
			if pad := alignUp(p.size, g) - p.size; pad > 0 {
				starts[p.lo] = append(starts[p.lo], padding{pad, p.hi})
			}
		}
	}
	var live paddings
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

type paddings []padding

func (h paddings) Len() int           { return len(h) }
func (h paddings) Less(i, j int) bool { return h[i].bytes > h[j].bytes }
func (h paddings) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *paddings) Push(x any)        { *h = append(*h, x.(padding)) }
func (h *paddings) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
