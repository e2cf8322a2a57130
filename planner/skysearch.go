package planner

import (
	"cmp"
	"math/bits"
	"slices"
)

// The exact search over a skyline: is there a plan of a given capacity?
//
// Depth first: take the valley section with the fewest alternatives per weight, try its items one by one, then try leaving it
// empty. Alternatives of one section exclude each other, so no plan is met twice; the choice of the section is free,
// which is what makes "fewest first" possible anywhere on the skyline rather than at its lowest point.
//
// A run that gives up after a few hundred dead ends is started anew with
//   - another heuristic for the order of the items (length of live range, size, contention, contact with the walls; the weights
//     are drawn at random),
//   - what was learned: sections that were dead ends weigh more, and are decided earlier (a fading dom/wdeg rule), and
//   - the table of positions that were searched out in vain, which stays true for the same capacity.
//
// The number of dead ends allowed grows slowly, so that a small problem is searched to its end: then the answer "there is
// none" is proven. Two positions are equal when the same classes of items are placed and all heights agree.
//
// Symmetry: of several equal items only the first is tried in one place. Two items with the same live range, one directly
// on the other, lead to one position in either order, which the table knows.
//
// Sources: canonical solutions and section inference of MiniMalloc (Moffitt, ASPLOS 2023); the valley view of skyline
// strip packing (Burke, Kendall, Whitwell 2004); weights after Boussemart et al. 2004; restarts after Gomes, Selman, Kautz 1998.
type skysearch struct {
	*skyline
	seen      searched
	score     []int64
	heuristic heuristic
	placed    int // items placed now,
	deepest   int // at most in this run,
	options   []int32
	byEnd     []int32
	dice      dice
	seed      uint64 // what the dice start with

	furthest      int       // and at most in all runs for this capacity,
	bestHeuristic heuristic // which had this heuristic
	conflict      stretch   // of the last refutation: it rests on these sections alone
	elsewhere     bool      // and they are none that the last decision has touched
}

// verdict of a search.
type verdict int

const (
	cutOff  verdict = iota // the budget or the caller ended it
	found                  // at holds a plan
	refuted                // there is no plan of this capacity
)

const (
	weightUnit  = 1 << 10
	patience    = 200 // dead ends of the first runs
	runsPerStep = 32  // runs after which patience grows by as much again
)

// newSkysearch prepares a search over rects of sections [0, sections).
func newSkysearch(rects []rect, sections int32) *skysearch {
	s := &skysearch{skyline: newSkyline(rects, sections), score: make([]int64, len(rects)), byEnd: make([]int32, len(rects))}
	for i := range s.byEnd {
		s.byEnd[i] = int32(i)
	}
	slices.SortFunc(s.byEnd, func(a, b int32) int {
		return cmp.Or(cmp.Compare(s.rects[b].hi, s.rects[a].hi), cmp.Compare(b, a))
	})
	return s
}

// run looks for a plan of the given capacity, spending at most budget. stop is asked now and then.
func (s *skysearch) run(capacity, budget int64, stop func() bool) verdict {
	if capacity < s.minCap {
		return refuted
	}
	s.start(budget, stop)
	s.dice.state = s.seed
	s.seen.clear()
	s.options = s.options[:0]
	s.placed, s.deepest, s.furthest = 0, 0, 0
	for k := int64(0); ; k++ {
		s.reset(capacity, s.byEnd)
		s.draw(k)
		s.limit = s.nodes + int64(len(s.rects)) + patience*(1+k/runsPerStep)
		v := refuted
		if s.rescan(1, s.ends+1) {
			v = s.search(0)
		}
		if v != cutOff || s.spentOut() {
			return v
		}
		s.learn()
	}
}

// descent is about what one run without a dead end costs.
func (s *skysearch) descent() int64 { return skyDescent(len(s.rects), s.ends) }

func skyDescent(rects int, sections int32) int64 { return 1 + int64(rects)*int64(sections)/27 }

// heuristic is how items are preferred in a run: by length of live range, by size, and by the fullest section they take part in,
// in units per 1024 of a logarithm to base 2; by a random part up to noise; and, once a valley is known, by lying flush with its
// walls and by ending level with them.
type heuristic struct{ width, size, contention, noise, flush, level int64 }

// draw sets the heuristic of run k: a new one, or the one that has come furthest so far with every part a little changed.
func (s *skysearch) draw(k int64) {
	d := &s.dice
	t := heuristic{512 + d.draw(1024), d.draw(1024), d.draw(3072), 1 + d.draw(1024)*d.draw(740)/1024, d.draw(2048), d.draw(1480)}
	if k > 8 && k%2 == 0 {
		t = s.bestHeuristic
		for _, part := range []*int64{&t.width, &t.size, &t.contention, &t.noise, &t.flush, &t.level} {
			*part += *part * (d.draw(512) - 256) / 1024
		}
		t.noise = max(t.noise, 1)
	}
	s.heuristic = t
	for i := range s.rects {
		r := &s.rects[i]
		most := int64(0)
		for q := r.lo; q < r.hi; q++ {
			most = max(most, s.rest[q])
		}
		s.score[i] = (t.width*log2(int64(r.hi-r.lo))+t.size*log2(r.size)+t.contention*log2(most))/1024 + d.draw(t.noise)
	}
}

// learn keeps the heuristic of a run that placed more items than any before, and lets the weights of sections fade.
func (s *skysearch) learn() {
	if s.deepest > s.furthest {
		s.furthest, s.bestHeuristic = s.deepest, s.heuristic
	}
	s.placed, s.deepest = 0, 0
	for q := range s.weight {
		s.weight[q] -= (s.weight[q] - weightUnit) / 10
	}
}

// log2 is 1024 times the logarithm of x >= 1, linear between powers of two: integers only, so that all machines agree.
func log2(x int64) int64 {
	e := bits.Len64(uint64(x)) - 1
	return int64(e)<<10 + (x<<10>>e - 1<<10)
}

// search decides from the position whose valleys are vals[from:].
func (s *skysearch) search(from int) verdict {
	s.nodes++
	to := len(s.vals)
	if to == from {
		return found
	}
	if s.nodes >= s.limit || s.spentOut() {
		return cutOff
	}
	hash := s.hash
	if at, ok := s.seen.find(hash); ok {
		s.conflict = at
		return refuted
	}
	pick := s.tightestValley(from, to)
	v := s.vals[pick]
	first := len(s.options)
	s.gather(&v)
	last := len(s.options)
	reason := v.read
	for x := first; x < last; x++ {
		if i := s.options[x]; !s.twin(i, s.options[first:x]) {
			if r := s.try(i, &v, from, to, pick); r != refuted {
				return r
			}
			s.hash = hash
			if s.elsewhere {
				s.options = s.options[:first]
				s.seen.add(hash, s.conflict)
				return refuted
			}
			reason = reason.with(s.conflict)
		}
	}
	s.options = s.options[:first]
	if v.skip {
		if r := s.leave(&v, from, to, pick); r != refuted {
			return r
		}
		s.hash = hash
		if reason = reason.with(v.read).with(s.conflict); s.elsewhere {
			reason = s.conflict
		}
	}
	s.conflict = reason
	s.seen.add(hash, reason)
	return refuted
}

// tightestValley is the valley in vals[from:to] with the fewest choices per weight.
func (s *skysearch) tightestValley(from, to int) int {
	pick := from
	for j := from + 1; j < to; j++ {
		if int64(s.vals[j].choices)*s.vals[pick].weight < int64(s.vals[pick].choices)*s.vals[j].weight {
			pick = j
		}
	}
	return pick
}

// gather appends the items that may lie on section v.k to options, the most promising first.
func (s *skysearch) gather(v *valley) {
	first := len(s.options)
	for q := v.a; q <= v.k; q++ {
		for i := s.head[q]; i >= 0; i = s.next[i] {
			h := s.rects[i].hi
			if h > v.b {
				break
			}
			if h > v.k && v.f+s.rects[i].size-s.rects[i].pad <= s.cap {
				s.options = append(s.options, i)
			}
		}
	}
	list := s.options[first:]
	slices.SortFunc(list, func(x, y int32) int {
		return cmp.Or(cmp.Compare(s.promise(y, v), s.promise(x, v)), cmp.Compare(x, y))
	})
}

// promise is the heuristic score of item i in valley v.
func (s *skysearch) promise(i int32, v *valley) int64 {
	x, r := s.score[i], &s.rects[i]
	touch := func(wall int64) {
		if x += s.heuristic.flush; wall == v.f+r.size {
			x += s.heuristic.level
		}
	}
	if r.lo == v.a {
		touch(s.floor[v.a-1])
	}
	if r.hi == v.b {
		touch(s.floor[v.b])
	}
	return x
}

// twin reports whether an equal item was tried already.
func (s *skysearch) twin(i int32, tried []int32) bool {
	return slices.ContainsFunc(tried, func(j int32) bool { return s.class[j] == s.class[i] })
}

// try places item i in valley v and searches on.
func (s *skysearch) try(i int32, v *valley, from, to, pick int) verdict {
	mark := len(s.raises)
	s.place(i, v.f)
	s.placed++
	s.deepest = max(s.deepest, s.placed)
	r := s.descend(v, from, to, pick)
	if r == refuted {
		s.placed--
		s.unraise(mark)
		s.lift(i)
	}
	return r
}

// leave raises section v.k and searches on.
func (s *skysearch) leave(v *valley, from, to, pick int) verdict {
	mark := len(s.raises)
	s.raise(v.k, s.skipTo(v))
	r := s.descend(v, from, to, pick)
	if r == refuted {
		s.unraise(mark)
	}
	return r
}

// descend makes the list of valleys of the next level: all but the picked one, and what has become of that.
func (s *skysearch) descend(v *valley, from, to, pick int) verdict {
	s.vals = append(s.vals[:to], s.vals[from:pick]...)
	s.vals = append(s.vals, s.vals[pick+1:to]...)
	r := refuted
	alive := s.rescan(v.a, v.b)
	read := s.read
	if alive {
		r = s.search(to)
	} else {
		s.conflict = read
	}
	if r == refuted {
		s.vals = s.vals[:to]
		if s.elsewhere = !s.conflict.meets(read); !s.elsewhere {
			s.conflict = s.conflict.with(read)
		}
	}
	return r
}
