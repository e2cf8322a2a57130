package planner

import (
	"context"
	"slices"
	"sort"
)

// A model is a problem made ready for the planners: the buffers of a group become one item, time points are renumbered
// densely, conflicts carry heights. All planners place items; offsets() gives the answer back per buffer.
//
//	two buffers of one group:            as one item with two pieces:
//
//	  8 |####                              8 |####
//	  5 |####    #####                     5 |####----#####     the item has one offset,
//	  0 +----+---+----> time               0 +--------------    and a height per piece
//
// Because pieces differ in height, a conflict of items i and j has two numbers: below(i, j) is how far j must be lifted
// above i's offset when i is the lower of the two (the tallest piece of i that meets j), and below(j, i) the reverse.
// For single buffers they are simply the sizes.
type model struct {
	p      *Problem
	items  []item
	itemOf []int32 // buffer -> item
	times  []int   // dense point -> time point of the problem; empty for partial orders
	order  Order
	timed  bool     // items have pieces on a common time axis
	plain  bool     // timed, and every item is at most one piece: conflicts are hull overlaps
	adj    [][]edge // conflicts, built on demand
	sorted []int    // byLo, built on demand
	dense  int      // whether the conflicts are too many for lists: 0 not known, 1 no, 2 yes
	rows   []bitset // conflicts of a partial order, built on demand
	stop   func() bool
}

// piece is a rectangle of an item: alive in the dense points [lo, hi), size bytes high.
type piece struct {
	lo, hi int32
	size   int64
}

type item struct {
	size    int64 // tallest member
	align   int64 // least common multiple of the members
	fixed   int64 // offset, or -1
	lo, hi  int32 // hull of the pieces; lo == hi when never alive
	birth   int32 // rank of the earliest member in birth order
	pieces  []piece
	members []int32
}

// edge is one conflict of an item: when the item lies under to, to's offset is at least the item's + under;
// when it lies over to, its own is at least to's + over.
type edge struct {
	to          int32
	under, over int64
}

// newModel builds the items. Its errors are those of fixed buffers and groups that contradict each other;
// everything about single buffers has been checked before.
func newModel(p *Problem) (*model, error) {
	m := &model{p: p, order: p.order()}
	_, m.timed = m.order.(Intervals)
	if err := m.collect(); err != nil {
		return nil, err
	}
	if m.timed {
		m.cutTime()
	}
	if err := m.checkGroups(); err != nil {
		return nil, err
	}
	if err := m.checkFixed(); err != nil {
		return nil, err
	}
	return m, nil
}

// prepare checks a problem and builds its model, whose long steps end early when ctx does.
func prepare(ctx context.Context, p *Problem) (*model, error) {
	if err := p.checkFields(); err != nil {
		return nil, err
	}
	m, err := newModel(p)
	if err == nil {
		m.stop = func() bool { return ctx.Err() != nil }
	}
	return m, err
}

// collect makes one item per ungrouped buffer and one per group, in buffer order.
func (m *model) collect() error {
	p := m.p
	m.itemOf = make([]int32, len(p.Buffers))
	m.items = make([]item, 0, len(p.Buffers))
	backing := make([]int32, len(p.Buffers))
	groups := map[int]int32{}
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.Group > 0 {
			if k, ok := groups[b.Group]; ok {
				if err := m.join(i, k); err != nil {
					return err
				}
				continue
			}
			groups[b.Group] = int32(len(m.items))
		}
		backing[i] = int32(i)
		it := item{size: b.Size, align: p.align(i), fixed: -1, members: backing[i : i+1 : i+1]}
		if b.Fixed {
			it.fixed = b.Offset
		}
		m.itemOf[i] = int32(len(m.items))
		m.items = append(m.items, it)
	}
	for k := range m.items {
		m.items[k].birth = -1
	}
	for rank, b := range p.birthOrder() {
		if it := &m.items[m.itemOf[b]]; it.birth < 0 {
			it.birth = int32(rank)
		}
	}
	return nil
}

// join adds buffer i to item k of its group.
func (m *model) join(i int, k int32) error {
	b, it := &m.p.Buffers[i], &m.items[k]
	m.itemOf[i] = k
	it.members = append(it.members, int32(i))
	it.size = max(it.size, b.Size)
	it.align = lcm(it.align, m.p.align(i))
	if b.Fixed {
		if it.fixed >= 0 && it.fixed != b.Offset {
			return m.p.errorAt(i, "is fixed at another offset than a member of its group")
		}
		it.fixed = b.Offset
	}
	if it.fixed >= 0 && it.fixed%it.align != 0 {
		return m.p.errorAt(i, "belongs to a group whose fixed offset breaks an alignment")
	}
	return nil
}

// cutTime renumbers the time points where anything begins or ends as 0, 1, 2, … and gives every item its pieces.
func (m *model) cutTime() {
	var runs []Range
	first := make([]int32, len(m.p.Buffers)+1)
	for i := range m.p.Buffers {
		if b := &m.p.Buffers[i]; b.Size > 0 {
			runs = liveRanges(b, runs)
		}
		first[i+1] = int32(len(runs))
	}
	for _, r := range runs {
		m.times = append(m.times, r.Lo, r.Hi)
	}
	slices.Sort(m.times)
	m.times = slices.Compact(m.times)
	pieces := make([]piece, len(runs))
	m.plain = true
	used := 0
	for k := range m.items {
		it := &m.items[k]
		from := used
		for _, b := range it.members {
			for _, r := range runs[first[b]:first[b+1]] {
				lo, _ := slices.BinarySearch(m.times, r.Lo)
				hi, _ := slices.BinarySearch(m.times, r.Hi)
				pieces[used] = piece{int32(lo), int32(hi), m.p.Buffers[b].Size}
				used++
			}
		}
		it.pieces = pieces[from:used:used]
		sort.Slice(it.pieces, func(a, b int) bool { return it.pieces[a].lo < it.pieces[b].lo })
		if n := len(it.pieces); n > 0 {
			it.lo, it.hi = it.pieces[0].lo, it.pieces[n-1].hi
		}
		if len(it.pieces) > 1 || (len(it.pieces) == 1 && it.pieces[0].size != it.size) {
			m.plain = false
		}
	}
}

// checkGroups refuses groups whose members interfere.
func (m *model) checkGroups() error {
	for k := range m.items {
		it := &m.items[k]
		if len(it.members) == 1 {
			continue
		}
		if m.timed {
			for i := 1; i < len(it.pieces); i++ {
				if it.pieces[i].lo < it.pieces[i-1].hi {
					return m.p.errorAt(int(it.members[0]), "belongs to a group with two members alive at the same time")
				}
			}
			continue
		}
		for x, a := range it.members {
			for _, b := range it.members[x+1:] {
				if m.p.conflict(m.order, int(a), int(b)) {
					return m.p.errorAt(int(b), "interferes with a member of its group")
				}
			}
		}
	}
	return nil
}

// checkFixed refuses fixed items that lie on each other.
func (m *model) checkFixed() error {
	var fixed []int
	for k := range m.items {
		if m.items[k].fixed >= 0 {
			fixed = append(fixed, k)
		}
	}
	sort.SliceStable(fixed, func(a, b int) bool { return m.items[fixed[a]].fixed < m.items[fixed[b]].fixed })
	for x, a := range fixed {
		for _, b := range fixed[x+1:] {
			if m.items[a].fixed+m.items[a].size <= m.items[b].fixed {
				break
			}
			if m.items[a].fixed+m.below(a, b) > m.items[b].fixed {
				return m.p.errorAt(int(m.items[b].members[0]), "is fixed onto "+
					label(int(m.items[a].members[0]), m.p.Buffers[m.items[a].members[0]].Name)+", which is alive at the same time")
			}
		}
	}
	return nil
}

// conflict reports whether buffers a and b may not share a byte.
func (p *Problem) conflict(o Order, a, b int) bool {
	return p.Buffers[a].Size > 0 && p.Buffers[b].Size > 0 && o.Interfere(a, b)
}

// below is how many bytes above i's offset j must begin when j lies over i; 0 when they do not conflict.
func (m *model) below(i, j int) int64 {
	a, b := &m.items[i], &m.items[j]
	if m.timed {
		if a.hi <= b.lo || b.hi <= a.lo {
			return 0
		}
		if len(a.pieces) == 1 && len(b.pieces) == 1 {
			return a.pieces[0].size
		}
		return tallestMeeting(a.pieces, b.pieces)
	}
	var h int64
	for _, x := range a.members {
		if size := m.p.Buffers[x].Size; size > h {
			for _, y := range b.members {
				if m.p.conflict(m.order, int(x), int(y)) {
					h = size
					break
				}
			}
		}
	}
	return h
}

// tallestMeeting is the size of the tallest piece of a that shares a point with a piece of b.
func tallestMeeting(a, b []piece) int64 {
	var h int64
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i].hi <= b[j].lo:
			i++
		case b[j].hi <= a[i].lo:
			j++
		default:
			h = max(h, a[i].size)
			i++
		}
	}
	return h
}

// conflicts returns the conflict lists, ascending by item, building them on the first call. They are nil when stop
// has ended that.
func (m *model) conflicts() [][]edge {
	if m.adj != nil {
		return m.adj
	}
	m.adj = make([][]edge, len(m.items))
	if m.timed {
		m.meetings()
	} else if c := m.crowd(); c != nil {
		for i := range m.items {
			c.each(i, func(j int) { m.adj[i] = append(m.adj[i], edge{int32(j), m.items[i].size, m.items[j].size}) })
		}
		return m.adj
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
		slices.SortFunc(list, func(a, b edge) int { return int(a.to) - int(b.to) })
	}
	return m.adj
}

// crowded reports whether the conflicts of a fixed schedule are too many to be listed.
func (m *model) crowded() bool {
	if !m.timed {
		return false
	}
	if m.dense == 0 {
		if m.dense = 1; m.countMeetings(scanLimit) >= scanLimit {
			m.dense = 2
		}
	}
	return m.dense == 2
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
	if u := m.below(i, j); u > 0 {
		o := m.below(j, i)
		m.adj[i] = append(m.adj[i], edge{int32(j), u, o})
		m.adj[j] = append(m.adj[j], edge{int32(i), o, u})
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

// offsets spreads the items' offsets over their buffers.
func (m *model) offsets(at []int64) []int64 {
	out := make([]int64, len(m.itemOf))
	for b, k := range m.itemOf {
		out[b] = at[k]
	}
	return out
}

// height is the end of the highest item.
func (m *model) height(at []int64) int64 {
	var h int64
	for i := range m.items {
		h = max(h, at[i]+m.items[i].size)
	}
	return h
}

// floor is the first byte above all fixed items: planners that lay out separate windows begin there.
func (m *model) floor() int64 {
	var h int64
	for i := range m.items {
		if it := &m.items[i]; it.fixed >= 0 {
			h = max(h, it.fixed+it.size)
		}
	}
	return h
}
