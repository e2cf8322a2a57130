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

// Intersect returns the points of both sets.
func (s Set) Intersect(t Set) Set {
	var out Set
	for len(s) > 0 && len(t) > 0 {
		lo, hi := max(s[0].Lo, t[0].Lo), min(s[0].Hi, t[0].Hi)
		if lo < hi {
			out = append(out, Range{lo, hi})
		}
		if s[0].Hi < t[0].Hi {
			s = s[1:]
		} else {
			t = t[1:]
		}
	}
	return out
}

// Meets reports whether some point is in both sets and not in except.
func (s Set) Meets(t, except Set) bool {
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
