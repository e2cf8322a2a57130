package planner

// The skyline is the state of the exact search over plain intervals: how high each section is filled, and where the next
// decision may fall.
//
//	bytes
//	      |        ____                 A valley is a run of sections of one height with higher
//	      |  _____|    |____            neighbours on both sides (the ends of time are walls).
//	   f  | |               |_____      Whatever comes to lie at height f in a section of the
//	      | |  c              c   |     valley has its whole live range inside the valley.
//	      +-------------------------
//	          valley [a,b)              So for ONE section k of ONE valley the alternatives are few: each unplaced
//	                                    item that covers k and fits the valley lies at f, or nothing does.
//
// "Nothing" wastes bytes: the section's height rises to the least height t at which anything can begin there. Section
// k holds slack = capacity - height - (sizes still to come) bytes that may be wasted (and as much more as the
// largest padding there, because the topmost item needs none). Placing an item in a valley keeps
// every slack as it is; raising lowers it. A section that has no item to take and less slack than it must waste is
// a dead end. The state is thus heights, slacks, and the list of valleys with, for each, the section that has the fewest
// alternatives.
//
// The heights a section may rise to:
//   - an item that reaches out of the valley begins no lower than the highest height over its live range;
//   - an item inside it that does not lie at f rests on another one; were that one in section k too it would be the lower
//     of the two there. So it rests on an item of the valley that is not in k but meets it.
//
// The second rule uses that plans may be taken bottom-justified: every item at 0 or on another.
type skyline struct {
	rects  []rect
	class  []int32 // rects that are equal share a class
	ends   int32   // sections are 1..ends; 0 and ends+1 are walls
	cap    int64
	floor  []int64 // height per section
	slack  []int64
	rest   []int64 // bytes still to come per section
	out    []int64 // most padding of an item per section: so much may stick out of the capacity
	head   []int32 // first unplaced rect that begins in a section; lists are sorted by end
	next   []int32
	prev   []int32
	at     []int64       // offset per rect or unplaced
	weight []int64       // how often a section was the dead end, fading
	hash   fingerprint   // of floors and placed rects
	keys   []fingerprint // by rect
	raises []raise
	vals   []valley // stack of the valley lists of all levels of the search
	count  []int32  // scratch: alternatives per section
	peak   []int64  // scratch: running maxima of floors
	empty  []emptySection
	read   stretch // what the last rescan has looked at
	minCap int64   // highest stack: no capacity below is possible
	meter
}

// raise is an entry of the undo list.
type raise struct {
	k            int32
	floor, slack int64
}

// valley is a run of sections [a, b) at height f. Of them, section k has the fewest alternatives: choices counts
// the items that may lie there at f, and one more when skip tells that leaving it empty is possible.
type valley struct {
	a, b, k int32
	choices int32
	skip    bool
	weight  int64
	f       int64
	read    stretch // what this rests on
}

// stretch is a run of sections [lo, hi), walls included.
type stretch struct{ lo, hi int32 }

func (x stretch) with(y stretch) stretch { return stretch{min(x.lo, y.lo), max(x.hi, y.hi)} }
func (x stretch) meets(y stretch) bool   { return x.lo < y.hi && y.lo < x.hi }

// wall is the height of what can never be built on: outside of time, and sections that are complete.
const wall = maxBytes

// newSkyline takes rects over the sections [0, sections).
func newSkyline(rects []rect, sections int32) *skyline {
	n, m := len(rects), sections+2
	s := &skyline{rects: make([]rect, n), ends: sections,
		floor: make([]int64, m), slack: make([]int64, m), rest: make([]int64, m), out: make([]int64, m), head: make([]int32, m),
		weight: make([]int64, m), count: make([]int32, m+1), peak: make([]int64, m),
		next: make([]int32, n), prev: make([]int32, n), at: make([]int64, n), class: make([]int32, n), keys: make([]fingerprint, n)}
	classes := map[rect]int32{}
	for i, r := range rects {
		r.lo, r.hi = r.lo+1, r.hi+1
		s.rects[i] = r
		c, ok := classes[r]
		if !ok {
			c = int32(len(classes))
			classes[r] = c
		}
		s.class[i] = c
		s.keys[i] = fingerprintOf(0, uint64(c)*2+1)
		for k := r.lo; k < r.hi; k++ {
			s.rest[k] += r.size
			s.out[k] = max(s.out[k], r.pad)
		}
	}
	for k := range s.weight {
		s.weight[k] = weightUnit
		s.minCap = max(s.minCap, s.rest[k]-s.out[k])
	}
	return s
}

// reset empties the skyline for a capacity of at least minCap.
func (s *skyline) reset(capacity int64, byEnd []int32) {
	s.cap = capacity
	s.hash = fingerprint{1, 1} // zero stands for an empty slot of the table
	s.raises, s.vals = s.raises[:0], s.vals[:0]
	for k := range s.floor {
		s.floor[k], s.rest[k], s.head[k] = 0, 0, -1
	}
	for _, i := range byEnd {
		r := &s.rects[i]
		s.prev[i], s.next[i] = -1, s.head[r.lo]
		if s.next[i] >= 0 {
			s.prev[s.next[i]] = i
		}
		s.head[r.lo] = i
		s.at[i] = unplaced
		for k := r.lo; k < r.hi; k++ {
			s.rest[k] += r.size
		}
	}
	for k := range s.floor {
		s.slack[k] = capacity - s.rest[k] + s.out[k]
		if s.rest[k] == 0 {
			s.floor[k] = wall
		}
	}
}

// place puts rect i on the floor f of a valley and takes it off its list.
func (s *skyline) place(i int32, f int64) {
	r := &s.rects[i]
	s.link(i, s.next[i], s.prev[i])
	s.at[i] = f
	s.hash.add(s.keys[i])
	for k := r.lo; k < r.hi; k++ {
		to := f + r.size
		if s.rest[k] -= r.size; s.rest[k] == 0 {
			to = wall
		}
		s.moveFloor(k, to)
	}
}

// lift undoes place; the hash is restored by the caller.
func (s *skyline) lift(i int32) {
	r := &s.rects[i]
	for k := r.lo; k < r.hi; k++ {
		s.floor[k] = s.at[i]
		s.rest[k] += r.size
	}
	s.at[i] = unplaced
	s.link(i, i, i)
}

// link makes the neighbours of rect i on its list point to others: the one before it to next, the one behind it to prev.
func (s *skyline) link(i, next, prev int32) {
	if p := s.prev[i]; p >= 0 {
		s.next[p] = next
	} else {
		s.head[s.rects[i].lo] = next
	}
	if n := s.next[i]; n >= 0 {
		s.prev[n] = prev
	}
}

// raise wastes the bytes of section k up to height t.
func (s *skyline) raise(k int32, t int64) {
	s.raises = append(s.raises, raise{k, s.floor[k], s.slack[k]})
	s.slack[k] -= t - s.floor[k]
	s.moveFloor(k, t)
}

// moveFloor sets the height of section k.
func (s *skyline) moveFloor(k int32, to int64) {
	s.hash.remove(fingerprintOf(uint64(s.floor[k]), uint64(k)))
	s.hash.add(fingerprintOf(uint64(to), uint64(k)))
	s.floor[k] = to
}

// unraise undoes raises down to a mark; the hash is restored by the caller.
func (s *skyline) unraise(mark int) {
	for i := len(s.raises) - 1; i >= mark; i-- {
		r := &s.raises[i]
		s.floor[r.k], s.slack[r.k] = r.floor, r.slack
	}
	s.raises = s.raises[:mark]
}

// rescan finds the valleys among the runs that touch sections [x, y) and appends them to vals. Sections there that
// nothing can lie on are raised, which may change the valleys, until all stand still. False means a dead end.
func (s *skyline) rescan(x, y int32) bool {
	mark := len(s.vals)
	a, end := s.runsAround(x, y)
	s.read = stretch{a - 1, end + 1}
	for a < end {
		f, b := s.floor[a], a+1
		for s.floor[b] == f && b <= s.ends {
			b++
		}
		if f < wall && s.floor[a-1] > f && s.floor[b] > f {
			seen := s.read
			s.read = stretch{a - 1, b + 1}
			out := s.study(a, b)
			s.read = s.read.with(seen)
			switch out {
			case dead:
				return false
			case moved:
				s.vals = s.vals[:mark]
				x, y = min(x, a), max(y, b)
				a, end = s.runsAround(x, y)
				s.read = s.read.with(stretch{a - 1, end + 1})
				continue
			}
		}
		a = b
	}
	return true
}

// runsAround widens [x, y) by the runs next to it: their standing as valleys depends on what happened inside.
func (s *skyline) runsAround(x, y int32) (int32, int32) {
	if x > 1 {
		x--
		for x > 1 && s.floor[x-1] == s.floor[x] {
			x--
		}
	}
	for f := s.floor[y]; y <= s.ends && s.floor[y] == f; {
		y++
	}
	return x, y
}

// outcome of study.
type outcome int

const (
	unchanged outcome = iota // the valley is in vals
	moved                    // sections were raised
	dead                     // a section can neither be filled nor left
)

// study counts the alternatives of every section of the valley [a, b), raises those without any, and appends
// the valley to vals with its most constrained section: the one with the least choices per weight.
func (s *skyline) study(a, b int32) outcome {
	f := s.floor[a]
	s.work += int64(b - a)
	low := s.countChoices(a, b)
	rim := min(s.floor[a-1], s.floor[b])
	least := min(rim-f, low) // nothing can be wasted that is less
	v := valley{a: a, b: b, f: f}
	s.empty = s.empty[:0]
	c := int32(0)
	for k := a; k < b; k++ {
		if c += s.count[k]; c == 0 {
			s.empty = append(s.empty, emptySection{k, wall})
		}
		if len(s.empty) > 0 {
			continue
		}
		// whether k can be left empty is looked at closely only where it decides: at a single choice, and for the pick
		skip := least <= s.slack[k] && (c > 1 || s.canSkip(k, a, b, f, rim, low))
		choices := c
		if skip {
			choices++
		}
		if w := s.weight[k]; v.choices == 0 || int64(choices)*v.weight < int64(v.choices)*w {
			v.choices, v.k, v.skip, v.weight = choices, k, skip, w
		}
	}
	if len(s.empty) > 0 {
		return s.raiseEmpty(a, b, f)
	}
	if v.skip && v.choices > 2 {
		if v.skip = s.canSkip(v.k, a, b, f, rim, low); !v.skip {
			v.choices--
		}
	}
	v.read = s.read
	s.vals = append(s.vals, v)
	return unchanged
}

// emptySection is a section that nothing can lie on, and the height to which it rises.
type emptySection struct {
	k int32
	t int64
}

// raiseEmpty raises the sections in s.empty, which belong to the valley [a, b), to where the first item that reaches out of
// the valley can begin. It looks at ever wider runs around the valley, each as high as the lower of the two walls of the
// one before, until every section has found its item: those found first begin lowest.
func (s *skyline) raiseEmpty(a, b int32, f int64) outcome {
	l, r := a, b
	s.peak[a], s.peak[b-1] = f, f
	for open := len(s.empty); open > 0; {
		level := min(s.floor[l-1], s.floor[r])
		for _, e := range s.empty {
			if e.t == wall && level-f > s.slack[e.k] {
				s.read = s.read.with(stretch{l - 1, r + 1})
				s.weight[e.k] += weightUnit
				return dead
			}
		}
		from, to := l, r
		for ; s.floor[l-1] <= level; l-- {
			s.peak[l-1] = max(s.peak[l], s.floor[l-1])
		}
		for ; s.floor[r] <= level; r++ {
			s.peak[r] = max(s.peak[r-1], s.floor[r])
		}
		s.work += int64(r - l)
		for q := l; q < from; q++ {
			for i := s.head[q]; i >= 0 && s.rects[i].hi <= r; i = s.next[i] {
				open -= s.landOnEmpty(q, s.rects[i].hi, a, b)
			}
		}
		for q := from; q < b; q++ {
			for i := s.head[q]; i >= 0 && s.rects[i].hi <= r; i = s.next[i] {
				if h := s.rects[i].hi; h > to {
					open -= s.landOnEmpty(q, h, a, b)
				}
			}
		}
	}
	s.read = s.read.with(stretch{l - 1, r + 1})
	for _, e := range s.empty {
		s.raise(e.k, e.t)
	}
	return moved
}

// landOnEmpty lets an item that lives over [lo, hi), reaching out of the valley [a, b), begin on the empty
// sections that it covers and that have found no lower one. It returns for how many it is the first.
func (s *skyline) landOnEmpty(lo, hi, a, b int32) int {
	if hi <= s.empty[0].k || lo > s.empty[len(s.empty)-1].k {
		return 0
	}
	first, t := 0, s.floor[a]
	if lo < a {
		t = s.peak[lo]
	}
	if hi > b {
		t = max(t, s.peak[hi-1])
	}
	for x := range s.empty {
		if e := &s.empty[x]; lo <= e.k && e.k < hi && t < e.t {
			if e.t == wall {
				first++
			}
			e.t = t
		}
	}
	return first
}

// countChoices leaves in count the difference of alternatives from one section to the next, and returns the
// smallest size among the items that fit the valley.
func (s *skyline) countChoices(a, b int32) int64 {
	clear(s.count[a : b+1])
	low := int64(wall)
	for q := a; q < b; q++ {
		for i := s.head[q]; i >= 0; i = s.next[i] {
			r := &s.rects[i]
			if r.hi > b {
				break
			}
			s.count[q]++
			s.count[r.hi]--
			low = min(low, r.size)
		}
	}
	return low
}

// canSkip reports whether section k may stay empty at the valley's height within its slack.
func (s *skyline) canSkip(k, a, b int32, f, rim, low int64) bool {
	top := f + s.slack[k]
	if low <= s.slack[k] && s.restsBeside(k, a, b, s.slack[k]) <= s.slack[k] {
		return true
	}
	if rim > top {
		return false
	}
	l, r := k, k+1 // the run around k that is no higher than top
	for s.floor[l-1] <= top {
		l--
	}
	for s.floor[r] <= top {
		r++
	}
	s.work += int64(r - l)
	s.read = s.read.with(stretch{l - 1, r + 1})
	for q := l; q <= k; q++ {
		for i := s.head[q]; i >= 0; i = s.next[i] {
			h := s.rects[i].hi
			if h > r {
				break
			}
			if h > k && (q < a || h > b) {
				return true
			}
		}
	}
	return false
}

// restsBeside is the least size of an item of the valley that is not in section k but meets one there: the
// least waste under an item that rests on it. The search ends when it is no more than enough.
func (s *skyline) restsBeside(k, a, b int32, enough int64) int64 {
	lo, hi := k, k+1
	for q := a; q <= k; q++ {
		for i := s.head[q]; i >= 0; i = s.next[i] {
			h := s.rects[i].hi
			if h > b {
				break
			}
			if h > k {
				lo, hi = min(lo, q), max(hi, h)
			}
		}
	}
	low := int64(wall)
	for q := a; q < hi; q++ {
		for i := s.head[q]; i >= 0; i = s.next[i] {
			r := &s.rects[i]
			if r.hi > b || (q <= k && r.hi > k) {
				break
			}
			if r.hi > lo && r.size < low {
				if low = r.size; low <= enough {
					return low
				}
			}
		}
	}
	return low
}

// skipTo is the height to which section k of a valley rises when nothing lies at f.
func (s *skyline) skipTo(v *valley) int64 {
	best := v.f + s.restsBeside(v.k, v.a, v.b, 0)
	top := min(best, v.f+s.slack[v.k])
	l, r := v.k, v.k+1
	s.peak[v.k] = v.f
	for ; s.floor[l-1] <= top; l-- {
		s.peak[l-1] = max(s.peak[l], s.floor[l-1])
	}
	for ; s.floor[r] <= top; r++ {
		s.peak[r] = max(s.peak[r-1], s.floor[r])
	}
	v.read = v.read.with(stretch{l - 1, r + 1})
	for q := l; q <= v.k; q++ {
		for i := s.head[q]; i >= 0; i = s.next[i] {
			h := s.rects[i].hi
			if h > r {
				break
			}
			if h > v.k && (q < v.a || h > v.b) {
				best = min(best, max(s.peak[q], s.peak[h-1]))
			}
		}
	}
	return best
}
