package planner

import "math/bits"

// rankSet is a set of numbers below n with nearest-member questions: bitsets in levels, a bit of one level says
// whether the word of 64 below it has any.
type rankSet struct{ level [][]uint64 }

func newRankSet(n int) *rankSet {
	s := &rankSet{}
	for {
		n = (n + 63) / 64
		s.level = append(s.level, make([]uint64, max(n, 1)))
		if n <= 1 {
			return s
		}
	}
}

func (s *rankSet) add(x int) {
	for _, l := range s.level {
		l[x>>6] |= 1 << (x & 63)
		x >>= 6
	}
}

func (s *rankSet) remove(x int) {
	for _, l := range s.level {
		l[x>>6] &^= 1 << (x & 63)
		if l[x>>6] != 0 {
			return
		}
		x >>= 6
	}
}

func (s *rankSet) has(x int) bool { return s.level[0][x>>6]>>(x&63)&1 == 1 }

// after is the smallest member above x, or -1.
func (s *rankSet) after(x int) int {
	for k, l := range s.level {
		if w := l[x>>6] &^ (1<<(x&63+1) - 1); x&63 < 63 && w != 0 {
			x = x>>6<<6 + bits.TrailingZeros64(w)
			for k--; k >= 0; k-- {
				x = x<<6 + bits.TrailingZeros64(s.level[k][x])
			}
			return x
		}
		x >>= 6
	}
	return -1
}

// first is the smallest member, or -1.
func (s *rankSet) first() int {
	if s.level[0][0]&1 == 1 {
		return 0
	}
	return s.after(0)
}
