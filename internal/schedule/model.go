package schedule

import (
	"context"
	"math/bits"
	"slices"
)

// model is one graph level (the main graph or a body) reduced to what the choice
// of an order needs: nodes, and regions of memory with the nodes that write and
// touch them.
//
//	node     c   r   d            region   live in the order c r d
//	  x ─▶ conv relu conv ─▶ y      c       ■■■■■■■■        conv writes, relu touches last
//	                                r           ■■■■■■■■    relu writes it over c: one of them counts
//	                                y               ■■■■■   kept: a result
//
// A set S of executed nodes that is closed under predecessors (a downset) fixes
// everything: a region is alive after S if one of its writers is in S and one of
// its touchers is not, or if it is kept. So the memory between steps is
//
//	live(S) = base + Σ bytes(r) · ([a writer of r in S] − [all touchers of r in S])
//
// and the memory while n runs after S is
//
//	need(S, n) = live(S) + regions that n is the first to write + extra(n) − saved(S, n)
//
// where saved counts the results of n that go over operands which die at n.
// live is submodular: the first indicator is a coverage function of S, the second
// is supermodular and enters with a minus. That is what makes moves safe, see
// sim.safeMoves.
type model struct {
	nodes   []mnode // in the order of the graph
	regions []region
	base    int64 // alive from before the first to after the last node
}

// mnode is a node of a model. Node and region numbers are positions in the model.
type mnode struct {
	preds, succs []int32 // distinct
	writes       []int32 // regions it writes
	touches      []int32 // regions it reads or writes
	extra        int64   // bytes it needs beside operands and results while it runs
	folds        []fold
	// brings are nodes without operands of their own that run right before the
	// first node that reads them; see model.postpone.
	brings []int32
}

// fold says that the result regions out may be written over the operand regions
// in, as far as these die at the node.
type fold struct{ out, in []int32 }

// region is memory that is taken and given back as a whole.
type region struct {
	bytes    int64
	touchers int32
	early    bool // alive before the first node
	kept     bool // alive after the last node
}

// link fills succs from preds.
func (m *model) link() {
	readers, all := make([]int32, len(m.nodes)), 0
	for n := range m.nodes {
		all += len(m.nodes[n].preds)
		for _, p := range m.nodes[n].preds {
			readers[p]++
		}
	}
	memory := make([]int32, all)
	for n, k := range readers {
		m.nodes[n].succs, memory = memory[:0:k], memory[k:]
	}
	for n := range m.nodes {
		for _, p := range m.nodes[n].preds {
			m.nodes[p].succs = append(m.nodes[p].succs, int32(n))
		}
	}
}

// countTouchers fills region.touchers.
func (m *model) countTouchers() {
	for n := range m.nodes {
		for _, r := range m.nodes[n].touches {
			m.regions[r].touchers++
		}
	}
}

// sim executes the nodes of a model one by one, forwards and back.
type sim struct {
	m       *model
	live    int64
	left    []int32  // touchers to come; one more if the region is kept
	written []int32  // writers done; one more if the region is early
	missing []int32  // predecessors to come, brought ones not counted
	done    []uint64 // set of nodes
	ready   []uint64 // set of nodes that can run, brought ones excluded
	trail   []int32  // executed nodes in order
	steps   int64    // executions in all, undone ones included: the measure of work

	start *sim // what reset returns to, made when it is first asked for
	lazy  []bool
}

// newSim simulates a model; once the context has ended it is of no use.
func newSim(ctx context.Context, m *model) *sim {
	words := (len(m.nodes) + 63) / 64
	s := &sim{m: m, live: m.base, left: make([]int32, len(m.regions)), written: make([]int32, len(m.regions)),
		missing: make([]int32, len(m.nodes)), done: make([]uint64, words), ready: make([]uint64, words), lazy: make([]bool, len(m.nodes))}
	for i, r := range m.regions {
		s.left[i] = r.touchers
		if r.kept {
			s.left[i]++
		}
		if r.early {
			s.written[i]++
			s.live += r.bytes
		}
	}
	for i := range m.nodes {
		for _, b := range m.nodes[i].brings {
			s.lazy[b] = true
		}
	}
	for i := range m.nodes {
		if i%lookEvery == lookEvery-1 && ctx.Err() != nil {
			return s
		}
		for _, p := range m.nodes[i].preds {
			if !s.lazy[p] {
				s.missing[i]++
			}
		}
		if s.missing[i] == 0 && !s.lazy[i] {
			setBit(s.ready, i)
		}
	}
	return s
}

// reset returns to the start and executes the nodes of a set.
func (s *sim) reset(done []uint64) {
	if s.start == nil {
		s.rollback(0)
		s.start = &sim{live: s.live, left: slices.Clone(s.left), written: slices.Clone(s.written),
			missing: slices.Clone(s.missing), ready: slices.Clone(s.ready)}
	}
	s.live = s.start.live
	copy(s.left, s.start.left)
	copy(s.written, s.start.written)
	copy(s.missing, s.start.missing)
	copy(s.ready, s.start.ready)
	clear(s.done)
	s.trail = s.trail[:0]
	for w, set := range done {
		for ; set != 0; set &= set - 1 {
			s.run(int32(w*64 + bits.TrailingZeros64(set)))
		}
	}
}

// need is the memory while n runs next.
func (s *sim) need(n int32) int64 {
	x := &s.m.nodes[n]
	bytes := s.live + x.extra - s.saved(x)
	for _, r := range x.writes {
		if s.written[r] == 0 {
			bytes += s.m.regions[r].bytes
		}
	}
	return bytes
}

// saved is how many bytes of results go over operands that die at x: per result
// at most its size, all together at most what dies.
func (s *sim) saved(x *mnode) int64 {
	var over int64
	for _, f := range x.folds {
		var out, in int64
		for _, r := range f.out {
			if s.written[r] == 0 {
				out += s.m.regions[r].bytes
			}
		}
		for _, r := range f.in {
			if s.left[r] == 1 {
				in += s.m.regions[r].bytes
			}
		}
		over += min(out, in)
	}
	if len(x.folds) > 1 {
		over = min(over, s.lastUses(x))
	}
	return over
}

// lastUses is the size of all foldable operands whose last use is x, each counted once.
func (s *sim) lastUses(x *mnode) int64 {
	var sum int64
	for i, f := range x.folds {
		for _, r := range f.in {
			counted := slices.ContainsFunc(x.folds[:i], func(g fold) bool { return slices.Contains(g.in, r) })
			if s.left[r] == 1 && !counted {
				sum += s.m.regions[r].bytes
			}
		}
	}
	return sum
}

// count adds one writer or reader to regions; those that had none become live.
func (s *sim) count(counts, regions []int32) {
	for _, r := range regions {
		if counts[r]++; counts[r] == 1 {
			s.live += s.m.regions[r].bytes
		}
	}
}

// discount is the opposite of count.
func (s *sim) discount(counts, regions []int32) {
	for _, r := range regions {
		if counts[r]--; counts[r] == 0 {
			s.live -= s.m.regions[r].bytes
		}
	}
}

// run executes n alone.
func (s *sim) run(n int32) {
	x := &s.m.nodes[n]
	s.count(s.written, x.writes)
	s.discount(s.left, x.touches)
	setBit(s.done, int(n))
	clearBit(s.ready, int(n))
	if !s.lazy[n] {
		for _, q := range x.succs {
			if s.missing[q]--; s.missing[q] == 0 {
				setBit(s.ready, int(q))
			}
		}
	}
	s.trail = append(s.trail, n)
	s.steps++
}

// exec executes n after the nodes that it brings along, and returns the most
// memory needed on the way.
func (s *sim) exec(n int32) int64 {
	var peak int64
	for _, b := range s.m.nodes[n].brings {
		if !hasBit(s.done, int(b)) {
			peak = max(peak, s.need(b))
			s.run(b)
		}
	}
	peak = max(peak, s.need(n))
	s.run(n)
	return peak
}

// rollback undoes the last executions until so many are left.
func (s *sim) rollback(keep int) {
	for len(s.trail) > keep {
		n := s.trail[len(s.trail)-1]
		s.trail = s.trail[:len(s.trail)-1]
		x := &s.m.nodes[n]
		s.count(s.left, x.touches)
		s.discount(s.written, x.writes)
		clearBit(s.done, int(n))
		if s.lazy[n] {
			continue
		}
		setBit(s.ready, int(n))
		for _, q := range x.succs {
			if s.missing[q]++; s.missing[q] == 1 {
				clearBit(s.ready, int(q))
			}
		}
	}
}

// eachReady calls f for the nodes that can run, in the order of the graph, until
// f returns false.
func (s *sim) eachReady(f func(n int32) bool) {
	for w := range s.ready {
		for set := s.ready[w]; set != 0; set &= set - 1 {
			if !f(int32(w*64 + bits.TrailingZeros64(set))) {
				return
			}
		}
	}
}

// readyNodes lists the nodes that can run, in the order of the graph.
func (s *sim) readyNodes() (out []int32) {
	s.eachReady(func(n int32) bool { out = append(out, n); return true })
	return out
}

// peakOf is the most memory that an order of all nodes needs; it leaves the
// simulation at the end of the order, or where the context has ended.
func (s *sim) peakOf(ctx context.Context, order []int32) int64 {
	s.reset(nil)
	peak := s.live
	for i, n := range order {
		if i%lookEvery == lookEvery-1 && ctx.Err() != nil {
			break
		}
		peak = max(peak, s.need(n))
		s.run(n)
	}
	return peak
}

// stepsOver lists the nodes of an order that need at least so much when they run, or those before the context has ended.
func (s *sim) stepsOver(ctx context.Context, order []int32, least int64) (out []int32) {
	s.rollback(0)
	for i, n := range order {
		if i%lookEvery == lookEvery-1 && ctx.Err() != nil {
			break
		}
		if s.need(n) >= least {
			out = append(out, n)
		}
		s.run(n)
	}
	return out
}

func setBit(set []uint64, i int)      { set[i>>6] |= 1 << (i & 63) }
func clearBit(set []uint64, i int)    { set[i>>6] &^= 1 << (i & 63) }
func hasBit(set []uint64, i int) bool { return set[i>>6]>>(i&63)&1 == 1 }
