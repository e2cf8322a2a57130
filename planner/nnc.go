package planner

import (
	"cmp"
	"context"
	"slices"

	"github.com/berth-onnx/berth/internal/rescue"
)

// NNC is the allocation algorithm of the NNC article on the allocation graph of nncgraph.go. What differs between its
// variants is which string of blocks is placed next:
//
//	nnc        the blocks with the most interference edges to blocks not yet placed, of these the largest (all ties).
//	           Each alone, and each paired with a larger block that lives before or after it. Ordered by the size of the
//	           largest, then by the sum of edges; the first that fits an edge is placed, or else the first of all
//	           opens a window.
//	nnc-size   the largest blocks (all ties), ordered by edges. Largest first matters because an insertion splits free
//	           bytes, and nothing ever merges them again.
//	nnc-best   both, and nnc with tuples of three; the smallest result counts.
//
//	A 500 [0,3)  B 500 [0,3)  C 800 [3,6)
//
//	nnc-size   C first: opens a window of 800. A fits the edge S -> C and takes 500 of it; B fits nowhere, since no
//	           edge has 500 left, and opens a window: 1300 bytes. A and B side by side, C over both, need 1000.
//
// Ties go to the lower index.
//
// The offsets work for every schedule that the order allows. A block must fit into the bytes that one predecessor passes on, so
// fragments stay: exact and auto have no such limit.
//
// Source: L. Liu, the NNC tensor allocation algorithm, and the library that implements it.
type NNC struct{ rule nncRule }

type nncRule int

const (
	byEdges nncRule = iota
	bySize
	byTriples
	bestOfAll
)

// Name is "nnc", "nnc-size" or "nnc-best".
func (n NNC) Name() string {
	return [...]string{byEdges: "nnc", bySize: "nnc-size", byTriples: "nnc-triples", bestOfAll: "nnc-best"}[n.rule]
}

// Plan places string by string. When ctx ends before, the plan is that of greedy-size, which for large problems is
// made beforehand: they take NNC long, and greedy-size next to nothing.
func (n NNC) Plan(ctx context.Context, p *Problem) (_ *Solution, err error) {
	defer rescue.Into(&err)
	m, err := prepare(ctx, p)
	if err != nil {
		return nil, err
	}
	var base []int64
	if len(m.items) > slowMembersLimit {
		base = m.greedySize(anyHeight)
	}
	rules := []nncRule{n.rule}
	if n.rule == bestOfAll {
		rules = []nncRule{bySize, byEdges, byTriples}
	}
	var best *Solution
	for _, r := range rules {
		at, windows := m.nnc(r, anyHeight)
		if at == nil {
			break
		}
		if best == nil || m.height(at) < best.ArenaBytes {
			best = finish(n.Name(), m, at)
			best.Windows = windows
			best.Stats.Winner = NNC{r}.Name()
		}
	}
	if best == nil {
		if base == nil {
			base = m.greedySize(anyHeight)
		}
		best = finish(n.Name(), m, base)
		best.Stats = Stats{Winner: "greedy-size", Cut: true}
	}
	return best, nil
}

// nnc runs one rule; nil when its windows reach the limit by more than padding, or the time is over before the end.
func (m *model) nnc(rule nncRule, limit int64) ([]int64, []Window) {
	g, strings := newNNCGraph(m)
	a := &nncAllocator{nncGraph: g, strings: strings, of: make([]int32, len(m.items))}
	a.countEdges()
	a.sortSizes()
	for range strings {
		if m.stop() || a.total-a.pad >= limit {
			return nil, nil
		}
		if !a.step(rule) {
			break
		}
	}
	at, windows := g.layout()
	return at, windows
}

// nncAllocator picks strings and keeps their edge counts.
type nncAllocator struct {
	*nncGraph
	strings []nncString
	bySize  []int32 // strings, largest first
	placed  int     // so many of bySize, from the first, are done
	of      []int32 // item -> elementary string, or -1
	around  func(i int, fn func(j int))
}

// countEdges sets oc of every string and the way to enumerate neighbours.
func (a *nncAllocator) countEdges() {
	for i := range a.of {
		a.of[i] = -1
	}
	for k := range a.strings {
		a.of[a.blocks[a.strings[k].blocks[0]].item] = int32(k)
	}
	a.around = a.m.neighbours()
	for i := range a.m.items {
		if i%64 == 0 && a.m.stop() {
			return
		}
		a.around(i, func(j int) {
			if a.of[i] >= 0 && a.of[j] >= 0 {
				a.strings[a.of[i]].oc++
			}
		})
	}
}

// step places one string; false when all are placed.
func (a *nncAllocator) step(rule nncRule) bool {
	var s *nncString
	var window, edge int
	switch rule {
	case bySize:
		s, window, edge = a.pickBySize()
	case byTriples:
		s, window, edge = a.pickByEdges(3)
	default:
		s, window, edge = a.pickByEdges(2)
	}
	if s == nil {
		return false
	}
	if window < 0 {
		window, edge = a.open(s)
	}
	a.insert(s, window, edge)
	for _, b := range s.blocks {
		a.markPlaced(a.of[a.blocks[b].item])
	}
	return true
}

// markPlaced marks an elementary string as placed and takes its edges off its neighbours' counts, once.
func (a *nncAllocator) markPlaced(k int32) {
	s := &a.strings[k]
	if s.oc < 0 {
		return
	}
	s.done, s.oc = true, -1
	a.around(a.blocks[s.blocks[0]].item, func(j int) {
		if q := a.of[j]; q >= 0 && !a.strings[q].done {
			a.strings[q].oc--
		}
	})
}

// sortSizes fills bySize.
func (a *nncAllocator) sortSizes() {
	a.bySize = make([]int32, len(a.strings))
	for k := range a.bySize {
		a.bySize[k] = int32(k)
	}
	slices.SortStableFunc(a.bySize, func(x, y int32) int { return cmp.Compare(a.strings[y].size, a.strings[x].size) })
}

// pickBySize is the rule of the library: among the largest strings, by edges, the first that fits; with window -1
// the first of all when none does.
func (a *nncAllocator) pickBySize() (pick *nncString, window, edge int) {
	for a.placed < len(a.bySize) && a.strings[a.bySize[a.placed]].done {
		a.placed++
	}
	var first *nncString
	for {
		var s *nncString
		for _, k := range a.bySize[a.placed:] {
			c := &a.strings[k]
			if first != nil && c.size < first.size {
				break
			}
			if c.done {
				continue
			}
			if first == nil || c.oc > first.oc {
				first = c
			}
			if c.from < len(a.windows) && (s == nil || c.oc > s.oc) {
				s = c
			}
		}
		if s == nil {
			return first, -1, -1
		}
		if w, e := a.fit(s); w >= 0 {
			return s, w, e
		}
		s.from = len(a.windows)
	}
}

// pickByEdges is the rule of the article, with tuples of up to so many blocks.
func (a *nncAllocator) pickByEdges(longest int) (pick *nncString, window, edge int) {
	most, size := int64(-1), int64(0)
	for k := range a.strings {
		if s := &a.strings[k]; !s.done && (s.oc > most || (s.oc == most && s.size > size)) {
			most, size = s.oc, s.size
		}
	}
	var tuples []nncString
	for k := range a.strings {
		s := &a.strings[k]
		if s.done || s.oc < most || s.size < size {
			continue
		}
		if len(tuples) > 0 && a.m.stop() {
			break
		}
		for t, ok := *s, true; ok; t, ok = a.extend(&t, s.size, longest) {
			tuples = append(tuples, t)
		}
	}
	best := -1
	for k := range tuples { // the first that fits, in order of size, then edges
		t := &tuples[k]
		if best >= 0 && !ahead(t, &tuples[best]) {
			continue
		}
		if w, e := a.fit(t); w >= 0 {
			best, window, edge = k, w, e
		}
	}
	if best >= 0 {
		return &tuples[best], window, edge
	}
	for k := range tuples {
		if best < 0 || ahead(&tuples[k], &tuples[best]) {
			best = k
		}
	}
	if best < 0 {
		return nil, -1, -1
	}
	return &tuples[best], -1, -1
}

// ahead orders tuples by the largest size, then by edges.
func ahead(a, b *nncString) bool {
	return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(b.oc, a.oc)) < 0
}

// extend adds to tuple t the largest string that is larger than size and lives before, after or between t's blocks; ties by
// edges, then index. False if there is none, or t has that many blocks already.
func (a *nncAllocator) extend(t *nncString, size int64, longest int) (nncString, bool) {
	if len(t.blocks) == longest {
		return nncString{}, false
	}
	best := int32(-1)
	var chain []int32
	for _, k := range a.bySize {
		s := &a.strings[k]
		if s.size <= size || (best >= 0 && s.size < a.strings[best].size) {
			break
		}
		if s.done || (best >= 0 && s.oc <= a.strings[best].oc) {
			continue
		}
		if c := a.merge(t.blocks, s.blocks); c != nil {
			best, chain = k, c
		}
	}
	if best < 0 {
		return nncString{}, false
	}
	s := &a.strings[best]
	return nncString{blocks: chain, size: max(t.size, s.size), oc: t.oc + s.oc}, true
}

// merge orders two chains of blocks into one, or returns nil when two of them overlap in time.
func (a *nncAllocator) merge(x, y []int32) []int32 {
	if a.hops(x[0], y[0]) == 0 && a.hops(y[0], x[0]) == 0 {
		return nil
	}
	out := make([]int32, 0, len(x)+len(y))
	for len(x) > 0 && len(y) > 0 {
		switch {
		case a.hops(x[0], y[0]) > 0:
			out, x = append(out, x[0]), x[1:]
		case a.hops(y[0], x[0]) > 0:
			out, y = append(out, y[0]), y[1:]
		default:
			return nil
		}
	}
	return append(append(out, x...), y...)
}
