package planner

import (
	"context"
	"slices"
)

// A model is a problem made ready for the planners: time points are renumbered densely, the live ranges of buffers become
// pieces. Item i is buffer i. All planners place items.
//
//	bytes  |  ####    ####      one item: a buffer with a hole in its live range, of two pieces;
//	       |  ####    ####      it has one offset for both
//	       +--------------> time
type model struct {
	p      *Problem
	items  []item
	times  []int // dense point -> time point of the problem; empty for partial orders
	order  Order
	any    *Partial  // the order, if it is a partial one
	timed  bool      // items have pieces on a common time axis
	plain  bool      // timed, and every item is at most one piece: conflicts are hull overlaps
	adj    [][]int32 // conflicts, built on demand
	sorted []int     // byLo, built on demand
	dense  int       // whether the conflicts are too many for lists: 0 not known, 1 no, 2 yes
	stop   func() bool
}

// piece is a run of dense points [lo, hi) in which an item is alive.
type piece struct{ lo, hi int32 }

type item struct {
	size   int64
	align  int64
	lo, hi int32 // hull of the pieces; lo == hi when never alive
	birth  int32 // rank in birth order
	pieces []piece
}

// prepare checks a problem and builds its model, whose long steps end early when ctx does.
func prepare(ctx context.Context, p *Problem) (*model, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	return newModel(p, func() bool { return ctx.Err() != nil }), nil
}

// newModel builds the model of a problem that is well formed.
func newModel(p *Problem, stop func() bool) *model {
	m := &model{p: p, order: p.order(), items: make([]item, len(p.Buffers)), stop: stop}
	for i := range p.Buffers {
		m.items[i] = item{size: p.Buffers[i].Size, align: p.align(i)}
	}
	for rank, b := range p.birthOrder() {
		m.items[b].birth = int32(rank)
	}
	m.any, _ = m.order.(*Partial)
	if _, m.timed = m.order.(Intervals); m.timed {
		m.cutTime()
	}
	return m
}

// cutTime renumbers the time points where anything begins or ends as 0, 1, 2, … and gives every item its pieces.
func (m *model) cutTime() {
	runs := make([]Range, 0, len(m.items)) // of most one
	first := make([]int32, len(m.items)+1)
	for i := range m.items {
		if b := &m.p.Buffers[i]; b.Size > 0 {
			runs = liveRanges(b, runs)
		}
		first[i+1] = int32(len(runs))
	}
	rank := m.rankTimes(runs)
	pieces := make([]piece, len(runs))
	for k, r := range runs {
		pieces[k] = piece{rank(r.Lo), rank(r.Hi)}
	}
	m.plain = true
	for i := range m.items {
		it := &m.items[i]
		it.pieces = pieces[first[i]:first[i+1]:first[i+1]]
		if n := len(it.pieces); n > 0 {
			it.lo, it.hi = it.pieces[0].lo, it.pieces[n-1].hi
		}
		m.plain = m.plain && len(it.pieces) <= 1
	}
}

// rankTimes lists the time points where a run begins or ends, and returns their numbers in the list. Those of programs are the
// numbers of steps, nearly all of them in use: a table of the points between the first and the last is no longer than the runs.
func (m *model) rankTimes(runs []Range) func(at int) int32 {
	first, last := maxPoint, -maxPoint
	for _, r := range runs {
		first, last = min(first, r.Lo), max(last, r.Hi)
	}
	m.times = make([]int, 0, 2*len(runs))
	if int64(last)-int64(first) >= 4*int64(len(runs)) {
		for _, r := range runs {
			m.times = append(m.times, r.Lo, r.Hi)
		}
		slices.Sort(m.times)
		m.times = slices.Compact(m.times)
		return func(at int) int32 {
			k, _ := slices.BinarySearch(m.times, at)
			return int32(k)
		}
	}
	ranks := make([]int32, max(last-first+1, 0)) // 1 for a point in use at first
	for _, r := range runs {
		ranks[r.Lo-first], ranks[r.Hi-first] = 1, 1
	}
	for i, used := range ranks {
		ranks[i] = int32(len(m.times))
		if used != 0 {
			m.times = append(m.times, first+i)
		}
	}
	return func(at int) int32 { return ranks[at-first] }
}

// conflict reports whether buffers a and b may not share a byte.
func (p *Problem) conflict(o Order, a, b int) bool {
	return p.Buffers[a].Size > 0 && p.Buffers[b].Size > 0 && o.Interfere(a, b)
}

// meet reports whether items i and j may not share a byte.
func (m *model) meet(i, j int) bool {
	a, b := &m.items[i], &m.items[j]
	switch {
	case !m.timed:
		return m.p.conflict(m.order, i, j)
	case a.hi <= b.lo || b.hi <= a.lo:
		return false
	case len(a.pieces) == 1 && len(b.pieces) == 1:
		return true
	}
	return piecesMeet(a.pieces, b.pieces)
}

// piecesMeet reports whether two ascending lists of pieces share a point.
func piecesMeet(a, b []piece) bool {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i].hi <= b[j].lo:
			i++
		case b[j].hi <= a[i].lo:
			j++
		default:
			return true
		}
	}
	return false
}

// conflicts returns the conflict lists, ascending by item, building them on the first call. They are nil when stop
// has ended that.
func (m *model) conflicts() [][]int32 {
	if m.adj != nil {
		return m.adj
	}
	m.adj = make([][]int32, len(m.items))
	if m.timed {
		m.meetings()
	} else {
		for i := range m.items {
			if i%16 == 0 && m.stop() {
				m.adj = nil
				return nil
			}
			for j := range i {
				m.link(i, j)
			}
		}
	}
	for _, list := range m.adj {
		slices.Sort(list)
	}
	return m.adj
}

// scanLimit: above so many conflicts (of a fixed schedule: pairs of overlapping hulls), lists of them cost more memory than
// they save time. Branches that may run at once interfere with all of each other: a few thousand nodes can have a hundred million.
const scanLimit = 1 << 20

// isDense reports whether the conflicts are too many for lists. A fixed schedule then has a strip index, a partial order its rows
// of bits.
func (m *model) isDense() bool {
	if m.dense == 0 {
		if m.dense = 1; m.countConflicts(scanLimit) >= scanLimit {
			m.dense = 2
		}
	}
	return m.dense == 2
}

// countConflicts counts pairs of items with overlapping hulls, or that interfere in a partial order, up to limit.
func (m *model) countConflicts(limit int) (n int) {
	if m.any != nil {
		for _, row := range m.any.rows {
			n += row.Len()
		}
		return min(n/2, limit)
	}
	los := make([]int32, 0, len(m.items))
	for _, i := range m.byLo() {
		los = append(los, m.items[i].lo)
	}
	for k, i := range m.byLo() {
		end, _ := slices.BinarySearch(los, m.items[i].hi)
		if n += end - k - 1; n >= limit {
			return limit
		}
	}
	return n
}

// neighbours returns a function that visits the items in conflict with one.
func (m *model) neighbours() func(i int, fn func(j int)) {
	if !m.isDense() {
		adj := m.conflicts()
		if adj == nil {
			return func(int, func(int)) {}
		}
		return func(i int, fn func(j int)) {
			for _, j := range adj[i] {
				fn(int(j))
			}
		}
	}
	each := func(i int, fn func(j int)) { m.any.rows[i].Each(fn) }
	if m.timed {
		each = newHullIndex(m).each
	}
	return func(i int, fn func(j int)) {
		each(i, func(j int) {
			if m.plain || m.meet(i, j) {
				fn(j)
			}
		})
	}
}

// meetings links all items whose hulls overlap, by a sweep over births.
func (m *model) meetings() {
	var live []int
	for _, i := range m.byLo() {
		it := &m.items[i]
		keep := live[:0]
		for _, j := range live {
			if m.items[j].hi > it.lo {
				keep = append(keep, j)
				m.link(i, j)
			}
		}
		live = append(keep, i)
	}
}

func (m *model) link(i, j int) {
	if m.meet(i, j) {
		m.adj[i] = append(m.adj[i], int32(j))
		m.adj[j] = append(m.adj[j], int32(i))
	}
}

// byLo lists the items that are ever alive by first point, then index. The list must not be changed.
func (m *model) byLo() []int {
	if m.sorted != nil {
		return m.sorted
	}
	next := make([]int, len(m.times)+1) // where the next item that begins at a point goes
	alive := 0
	for i := range m.items {
		if it := &m.items[i]; it.lo < it.hi {
			next[it.lo+1]++
			alive++
		}
	}
	for t := 1; t < len(next); t++ {
		next[t] += next[t-1]
	}
	m.sorted = make([]int, alive)
	for i := range m.items {
		if it := &m.items[i]; it.lo < it.hi {
			m.sorted[next[it.lo]] = i
			next[it.lo]++
		}
	}
	return m.sorted
}

// height is the end of the highest item.
func (m *model) height(at []int64) int64 { return m.p.height(at) }
