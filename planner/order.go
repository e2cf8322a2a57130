package planner

import "slices"

// Order answers, for two buffers by their index, whether they may be live at once and what distance in time is between them.
// Both answers are over an abstract time: one fixed schedule (Intervals) or every schedule that a
// dependence graph allows (Partial). An Order is read by several planners at once and never changes.
type Order interface {
	// Interfere reports whether a and b may be live at the same time. It is symmetric; Interfere(a, a) is not asked.
	Interfere(a, b int) bool
	// Hops is 0 unless b is always born after the last use of a; then it is the distance, at least 1.
	// Hops(a, b) > 0 implies that a and b do not interfere; the reverse need not hold (a buffer may live in a hole of another).
	Hops(a, b int) int
}

// sized is what an Order may tell about the number of buffers that it covers.
type sized interface{ Len() int }

// Intervals is the order of one fixed schedule: buffer i lives in [Lo, Hi) less its Holes.
//
//	time    0   1   2   3   4   5   6
//	a       [=======)                      a and c share point 1: they interfere
//	b               [=======)              b begins where a ends: Hops(a, b) = 1
//	c           [===)       [=======)      c has a hole, b lives in it: no interference, no hops
//
// Branches of an If that exclude each other get points of their own one after the other; what must outlive the
// If spans both, what lives in one only covers that one's points. Sharing between branches follows by itself.
type Intervals struct{ Buffers []Buffer }

// Len is the number of buffers.
func (o Intervals) Len() int { return len(o.Buffers) }

// Interfere reports whether a and b share a time point.
func (o Intervals) Interfere(a, b int) bool {
	x, y := &o.Buffers[a], &o.Buffers[b]
	if x.Hi <= y.Lo || y.Hi <= x.Lo || x.Lo == x.Hi || y.Lo == y.Hi {
		return false
	}
	if len(x.Holes) == 0 && len(y.Holes) == 0 {
		return true
	}
	return rangesMeet(liveRanges(x, nil), liveRanges(y, nil))
}

// Hops is the number of steps from the last point of a to the first of b.
func (o Intervals) Hops(a, b int) int {
	x, y := &o.Buffers[a], &o.Buffers[b]
	if x.Hi > y.Lo || (x.Lo == x.Hi && y.Lo == y.Hi) {
		return 0
	}
	return y.Lo - x.Hi + 1
}

// liveRanges appends the non-empty runs in which b is live.
func liveRanges(b *Buffer, to []Range) []Range {
	at := b.Lo
	for _, h := range b.Holes {
		if h.Lo == h.Hi {
			continue
		}
		if at < h.Lo {
			to = append(to, Range{at, h.Lo})
		}
		at = h.Hi
	}
	if at < b.Hi {
		to = append(to, Range{at, b.Hi})
	}
	return to
}

// rangesMeet reports whether two ascending lists of runs share a point.
func rangesMeet(x, y []Range) bool {
	for i, j := 0, 0; i < len(x) && j < len(y); {
		switch {
		case x[i].Hi <= y[j].Lo:
			i++
		case y[j].Hi <= x[i].Lo:
			j++
		default:
			return true
		}
	}
	return false
}

// birthOrder lists the buffers in the order in which a schedule creates them: by first point or first head, then index.
func (p *Problem) birthOrder() []int {
	if o, ok := p.Order.(*Partial); ok {
		return o.births
	}
	keys := make([]uint64, len(p.Buffers)) // the point above, the index below
	for i := range keys {
		keys[i] = uint64(int64(p.Buffers[i].Lo)+maxPoint)<<32 | uint64(i)
	}
	slices.Sort(keys)
	ids := make([]int, len(keys))
	for k, key := range keys {
		ids[k] = int(uint32(key))
	}
	return ids
}
