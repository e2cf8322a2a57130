package liveness

import "slices"

// Range is the half-open run of time points [Lo, Hi).
type Range struct{ Lo, Hi int }

// Set is a set of time points: disjoint, non-adjacent, ascending runs.
type Set []Range

// Union returns the points of either set.
func (s Set) Union(t Set) Set {
	if len(s) == 0 {
		return t
	}
	if len(t) == 0 {
		return s
	}
	if s.encloses(t) {
		return s
	}
	if t.encloses(s) {
		return t
	}
	if len(s) == 1 && len(t) == 1 && s[0].Lo <= t[0].Hi && t[0].Lo <= s[0].Hi {
		return Set{{min(s[0].Lo, t[0].Lo), max(s[0].Hi, t[0].Hi)}}
	}
	out := make(Set, 0, len(s)+len(t))
	for len(s) > 0 || len(t) > 0 {
		var r Range
		if len(t) == 0 || len(s) > 0 && s[0].Lo <= t[0].Lo {
			r, s = s[0], s[1:]
		} else {
			r, t = t[0], t[1:]
		}
		if k := len(out) - 1; k >= 0 && r.Lo <= out[k].Hi {
			out[k].Hi = max(out[k].Hi, r.Hi)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// encloses reports that the hull of t lies in one run of s, for sure: it looks at few runs.
func (s Set) encloses(t Set) bool {
	lo, hi := t[0].Lo, t[len(t)-1].Hi
	last := s[len(s)-1]
	return s[0].Lo <= lo && hi <= s[0].Hi || last.Lo <= lo && hi <= last.Hi
}

// Intersect returns the points of both sets.
func (s Set) Intersect(t Set) Set {
	var out Set
	s.EachShared(t, func(r Range) { out = append(out, r) })
	return out
}

// EachShared calls f for the runs of points in both sets, in order.
func (s Set) EachShared(t Set, f func(Range)) {
	for len(s) > 0 && len(t) > 0 {
		lo, hi := max(s[0].Lo, t[0].Lo), min(s[0].Hi, t[0].Hi)
		if lo < hi {
			f(Range{lo, hi})
		}
		if s[0].Hi < t[0].Hi {
			s = s[1:]
		} else {
			t = t[1:]
		}
	}
}

// Meets reports whether some point is in both sets and not in except.
func (s Set) Meets(t, except Set) bool {
	if len(s) > fewRuns && len(t) > 0 {
		s = s.after(t[0].Lo)
	}
	if len(t) > fewRuns && len(s) > 0 {
		t = t.after(s[0].Lo)
	}
	for len(s) > 0 && len(t) > 0 {
		if lo, hi := max(s[0].Lo, t[0].Lo), min(s[0].Hi, t[0].Hi); lo < hi && !except.covers(lo, hi) {
			return true
		}
		if s[0].Hi < t[0].Hi {
			s = s[1:]
		} else {
			t = t[1:]
		}
	}
	return false
}

// fewRuns are looked at one by one.
const fewRuns = 16

// after returns the runs that end after point p.
func (s Set) after(p int) Set {
	i, _ := slices.BinarySearchFunc(s, p+1, func(r Range, hi int) int { return r.Hi - hi })
	return s[i:]
}

// covers reports whether all points of a run are in the set.
func (s Set) covers(lo, hi int) bool {
	return slices.ContainsFunc(s, func(r Range) bool { return r.Lo <= lo && hi <= r.Hi })
}

// Has reports whether point p is in the set.
func (s Set) Has(p int) bool { return s.covers(p, p+1) }

// Hull returns the smallest run that covers the set, and the holes inside it.
func (s Set) Hull() (hull Range, holes []Range) {
	if len(s) == 0 {
		return Range{}, nil
	}
	for i := 1; i < len(s); i++ {
		holes = append(holes, Range{s[i-1].Hi, s[i].Lo})
	}
	return Range{s[0].Lo, s[len(s)-1].Hi}, holes
}
