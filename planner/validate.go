package planner

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strconv"

	"github.com/berth-onnx/berth/internal/rescue"
)

// The geometric verifier. For a fixed schedule it runs over time once, with what is live
// sorted by offset. A new buffer is compared with its two neighbours in that order;
// if it is disjoint from these, it is disjoint from all:
//
//	bytes
//	   |      ####  next above          The new buffer x is compared with the nearest
//	   |   xxxx                         live one on each side. All others are farther
//	   | ####       next below          away, since those were found disjoint before.
//	   +----^-----> time
//
// For a partial order there is no such run; the pairs that share bytes are found by a
// run over bytes, and each is asked whether it interferes.

// FaultKind names what is wrong with a plan.
type FaultKind int

const (
	FaultCount     FaultKind = iota // another number of offsets than buffers
	FaultBounds                     // a buffer begins below zero or ends above the arena
	FaultAlignment                  // an offset breaks an alignment
	FaultOverlap                    // two interfering buffers share bytes
	FaultHeight                     // ArenaBytes is not the end of the highest buffer
	FaultBound                      // LowerBound is above the arena, or its witness does not support it
)

func (k FaultKind) String() string {
	return nameOf(int(k), "count", "bounds", "alignment", "overlap", "height", "bound")
}

// nameOf is the name of a kind, its number if it has none.
func nameOf(kind int, names ...string) string {
	if kind < 0 || kind >= len(names) {
		return strconv.Itoa(kind)
	}
	return names[kind]
}

// Fault is Validate's verdict on a bad plan. A and B are the buffers at fault, -1 where there is none.
type Fault struct {
	Kind   FaultKind
	A, B   int
	Reason string
}

func (f *Fault) Error() string { return "planner: invalid plan: " + f.Reason }

// Validate verifies a plan, sharing no code with the planners: it trusts the problem alone. A nil error means that the plan
// is sound and its height exact, and that a witnessed lower bound holds; otherwise the error is a *Fault.
//
// For fixed schedules it sweeps over time: the live buffers are kept by their rank in offset order, and a new one
// is compared with the nearest live one on each side. For other orders all pairs that share bytes are asked for interference.
func Validate(p *Problem, s *Solution) (err error) {
	return ValidateContext(context.Background(), p, s)
}

// ValidateContext is [Validate] of a plan that may have many buffers: it ends with the context, and its error.
func ValidateContext(ctx context.Context, p *Problem, s *Solution) (err error) {
	defer rescue.Into(&err)
	if f := validateEach(p, s); f != nil {
		return f
	}
	var f *Fault
	if o, ok := p.order().(Intervals); ok {
		f = sweepTime(ctx, o, p, s)
	} else {
		f = sweepBytes(p, s)
	}
	if f != nil {
		return f
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if f = validateBound(p, s); f != nil {
		return f
	}
	return ctx.Err()
}

// validateEach verifies what can be seen without time: count, bounds, alignment, height.
func validateEach(p *Problem, s *Solution) *Fault {
	if len(s.Offsets) != len(p.Buffers) {
		return &Fault{FaultCount, -1, -1, fmt.Sprintf("%d offsets for %d buffers", len(s.Offsets), len(p.Buffers))}
	}
	var high int64
	for i := range p.Buffers {
		b, off := &p.Buffers[i], s.Offsets[i]
		if off < 0 || off > s.ArenaBytes-b.Size {
			return &Fault{FaultBounds, i, -1, fmt.Sprintf("buffer %s of %d bytes at %d leaves the arena of %d bytes", label(i, b.Name), b.Size, off, s.ArenaBytes)}
		}
		if (b.Align > 1 && off%b.Align != 0) || (p.Align > 1 && off%p.Align != 0) {
			return &Fault{FaultAlignment, i, -1, fmt.Sprintf("buffer %s at %d is not aligned to %d and %d", label(i, b.Name), off, b.Align, p.Align)}
		}
		high = max(high, off+b.Size)
	}
	if high != s.ArenaBytes {
		return &Fault{FaultHeight, -1, -1, fmt.Sprintf("the arena has %d bytes but the highest buffer ends at %d", s.ArenaBytes, high)}
	}
	return nil
}

// sweepTime looks for overlaps in a fixed schedule.
func sweepTime(ctx context.Context, o Intervals, p *Problem, s *Solution) *Fault {
	events := make([]uint64, 0, 2*len(o.Buffers)) // in order of time, deaths first: the point, a bit for a birth, the buffer
	const birth = 1 << 31
	var runs []Range
	for i := range o.Buffers {
		if p.Buffers[i].Size == 0 {
			continue
		}
		runs = liveRanges(&o.Buffers[i], runs[:0])
		for _, r := range runs {
			if r.Lo < -maxPoint || r.Hi > maxPoint { // [Problem.Check] says so: no word has room for it
				return sweepBytes(p, s)
			}
			events = append(events, uint64(int64(r.Lo)+maxPoint)<<32|birth|uint64(i), uint64(int64(r.Hi)+maxPoint)<<32|uint64(i))
		}
	}
	slices.Sort(events)
	if ctx.Err() != nil {
		return nil
	}
	byRank, rank := rankByOffset(s.Offsets)
	live := newLiveSet(len(rank))
	for k, e := range events {
		if k%256 == 0 && ctx.Err() != nil {
			return nil // the caller's error
		}
		buf := int(e & (birth - 1))
		r := rank[buf]
		if e&birth == 0 {
			live.remove(r)
			continue
		}
		for _, near := range [2]int{live.below(r), live.from(r)} {
			if near >= 0 && touches(p, s, byRank[near], buf) {
				return overlap(p, s, byRank[near], buf)
			}
		}
		live.add(r)
	}
	return nil
}

// liveSet is a set of ranks, a bit for each, and a bit for each word of them that is not zero: where few of many ranks are
// live, the next one is far away. It is the verifier's own, which shares no code with planners (rankSet).
type liveSet struct{ words, used []uint64 }

func newLiveSet(ranks int) liveSet {
	words := ranks/64 + 1
	return liveSet{make([]uint64, words), make([]uint64, words/64+1)}
}

func (s liveSet) add(r int) {
	s.words[r/64] |= 1 << (r % 64)
	s.used[r/64/64] |= 1 << (r / 64 % 64)
}

func (s liveSet) remove(r int) {
	if s.words[r/64] &^= 1 << (r % 64); s.words[r/64] == 0 {
		s.used[r/64/64] &^= 1 << (r / 64 % 64)
	}
}

// below is the greatest member less than r, -1 if there is none.
func (s liveSet) below(r int) int {
	w := r / 64
	if x := s.words[w] & (1<<(r%64) - 1); x != 0 {
		return w*64 + bits.Len64(x) - 1
	}
	if w = lastBelow(s.used, w); w < 0 {
		return -1
	}
	return w*64 + bits.Len64(s.words[w]) - 1
}

// from is the least member not less than r, -1 if there is none.
func (s liveSet) from(r int) int {
	w := r / 64
	if x := s.words[w] & (^uint64(0) << (r % 64)); x != 0 {
		return w*64 + bits.TrailingZeros64(x)
	}
	if w = firstFrom(s.used, w+1); w < 0 {
		return -1
	}
	return w*64 + bits.TrailingZeros64(s.words[w])
}

// lastBelow is the greatest bit less than r that is set, -1 if there is none.
func lastBelow(set []uint64, r int) int {
	for w, mask := r/64, uint64(1)<<(r%64)-1; w >= 0; w, mask = w-1, ^uint64(0) {
		if x := set[w] & mask; x != 0 {
			return w*64 + bits.Len64(x) - 1
		}
	}
	return -1
}

// firstFrom is the least bit not less than r that is set, -1 if there is none.
func firstFrom(set []uint64, r int) int {
	for w, mask := r/64, ^uint64(0)<<(r%64); w < len(set); w, mask = w+1, ^uint64(0) {
		if x := set[w] & mask; x != 0 {
			return w*64 + bits.TrailingZeros64(x)
		}
	}
	return -1
}

// rankByOffset sorts the buffers by offset, ties by index.
func rankByOffset(offsets []int64) (byRank, rank []int) {
	rank, byRank = make([]int, len(offsets)), make([]int, len(offsets))
	count := map[int64]int{} // buffers at each offset
	for _, off := range offsets {
		count[off]++
	}
	points := make([]uint64, 0, len(count)) // none is negative
	for off := range count {
		points = append(points, uint64(off))
	}
	slices.Sort(points)
	begin := 0
	for _, off := range points {
		count[int64(off)], begin = begin, begin+count[int64(off)]
	}
	for i, off := range offsets {
		r := count[off]
		byRank[r], rank[i], count[off] = i, r, r+1
	}
	return byRank, rank
}

// sweepBytes looks for overlaps under any order: among buffers that share bytes none may interfere.
func sweepBytes(p *Problem, s *Solution) *Fault {
	byRank, _ := rankByOffset(s.Offsets)
	order := p.order()
	for k, a := range byRank {
		end := s.Offsets[a] + p.Buffers[a].Size
		for _, b := range byRank[k+1:] {
			if s.Offsets[b] >= end {
				break
			}
			if touches(p, s, a, b) && order.Interfere(a, b) {
				return overlap(p, s, a, b)
			}
		}
	}
	return nil
}

// touches reports whether two buffers share bytes.
func touches(p *Problem, s *Solution, a, b int) bool {
	x, y := s.Offsets[a], s.Offsets[b]
	return p.Buffers[a].Size > 0 && p.Buffers[b].Size > 0 && x < y+p.Buffers[b].Size && y < x+p.Buffers[a].Size
}

func overlap(p *Problem, s *Solution, a, b int) *Fault {
	a, b = min(a, b), max(a, b)
	x, y := &p.Buffers[a], &p.Buffers[b]
	return &Fault{FaultOverlap, a, b, fmt.Sprintf("buffers %s at [%d, %d) and %s at [%d, %d) are alive at the same time and share bytes",
		label(a, x.Name), s.Offsets[a], s.Offsets[a]+x.Size, label(b, y.Name), s.Offsets[b], s.Offsets[b]+y.Size)}
}

// validateBound verifies the claimed lower bound as far as it has a witness.
func validateBound(p *Problem, s *Solution) *Fault {
	if s.LowerBound < 0 || s.LowerBound > s.ArenaBytes {
		return &Fault{FaultBound, -1, -1, fmt.Sprintf("the lower bound %d is not between zero and the arena's %d bytes", s.LowerBound, s.ArenaBytes)}
	}
	if s.Proof.Kind != ProofWitness {
		return nil
	}
	g := int64(0)
	for _, i := range s.Proof.Members {
		if i < 0 || i >= len(p.Buffers) {
			return &Fault{FaultBound, i, -1, "the witness names a buffer that does not exist"}
		}
		g = gcd(p.align(i), g)
	}
	var sum, pad int64
	o := p.order()
	pairs := !liveTogether(o, s.Proof)
	for x, a := range s.Proof.Members {
		size := p.Buffers[a].Size
		sum += alignUp(size, g)
		pad = max(pad, alignUp(size, g)-size)
		for _, b := range s.Proof.Members[:x] {
			if !pairs {
				break
			}
			if a == b || !o.Interfere(a, b) {
				return &Fault{FaultBound, b, a, fmt.Sprintf("the witness names %s and %s, which need not be alive together", label(b, p.Buffers[b].Name), label(a, p.Buffers[a].Name))}
			}
		}
	}
	if s.LowerBound > sum-pad {
		return &Fault{FaultBound, -1, -1, fmt.Sprintf("the witness supports only %d of the claimed %d bytes", sum-pad, s.LowerBound)}
	}
	return nil
}

// liveTogether reports whether the buffers of a witness, each named once, are all live when the last
// of them begins to be, or at the witness's point. If they are not, they can still interfere pair by pair.
func liveTogether(o Order, w Proof) bool {
	iv, ok := o.(Intervals)
	if !ok {
		return false
	}
	last := 0
	for i, m := range w.Members {
		if b := &iv.Buffers[m]; i == 0 || b.Lo > last {
			last = b.Lo
		}
	}
	return iv.allLive(w.Members, last) || iv.allLive(w.Members, w.Point)
}

// allLive reports whether some buffers, each named once, are all live at a point.
func (o Intervals) allLive(members []int, at int) bool {
	seen := make([]bool, len(o.Buffers))
	for _, m := range members {
		b := &o.Buffers[m]
		inHole := slices.ContainsFunc(b.Holes, func(h Range) bool { return h.Lo <= at && at < h.Hi })
		if seen[m] || at < b.Lo || at >= b.Hi || inHole {
			return false
		}
		seen[m] = true
	}
	return true
}
