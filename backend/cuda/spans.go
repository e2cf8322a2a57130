package cuda

import "slices"

// side says where bytes have their value.
type side uint8

const (
	nowhere  side = iota // nobody has written them in this run
	onHost               // the host has written them last
	onDevice             // the device has
	onBoth               // copied since
)

// span is a range of the arena whose bytes are on one side.
type span struct {
	lo, hi int64
	side   side
}

// spans tells for every byte of an arena where its value is: disjoint ranges in order; bytes in none are nowhere.
//
//	arena   ├──host──┤     ├────device────┤──both──┤
//	set           ├──device──┤
//	        ├host┤├──device──┤    ...
type spans struct{ list []span }

// from is the first range that ends behind a position.
func (s *spans) from(at int64) int {
	i, _ := slices.BinarySearchFunc(s.list, at, func(e span, at int64) int {
		if e.hi <= at {
			return -1
		}
		return 1
	})
	return i
}

// set says where a range is now.
func (s *spans) set(lo, hi int64, to side) {
	if lo >= hi {
		return
	}
	i := s.from(lo)
	j := i
	var room [3]span
	put := room[:0]
	for ; j < len(s.list) && s.list[j].lo < hi; j++ {
		e := s.list[j]
		if e.lo < lo {
			put = append(put, span{e.lo, lo, e.side})
		}
		if e.hi > hi {
			put = append(put, span{lo, hi, to}, span{hi, e.hi, e.side})
		}
	}
	if len(put) == 0 || put[len(put)-1].hi <= lo {
		put = append(put, span{lo, hi, to})
	}
	s.list = slices.Replace(s.list, i, j, put...)
}

// each calls f for the pieces of a range that are on one side.
func (s *spans) each(lo, hi int64, on side, f func(lo, hi int64) error) error {
	for i := s.from(lo); i < len(s.list) && s.list[i].lo < hi; i++ {
		if e := s.list[i]; e.side == on {
			if err := f(max(lo, e.lo), min(hi, e.hi)); err != nil {
				return err
			}
		}
	}
	return nil
}

// clear forgets everything.
func (s *spans) clear() { s.list = s.list[:0] }
