package planner

import (
	"cmp"
	"slices"
)

// A shelf keeps the placed items of a large problem in the order of their offsets, so that the bytes taken during one item's life
// can be run over from below without a list of conflicts per item.
//
//	bytes                                   The time axis is cut into strips of about equally many
//	  |  dddd|ddddddd|                      births. Every strip lists what is alive somewhere in it.
//	  |      |ccc    |ccccc                 An item that lives inside one strip looks at that strip's
//	  |aaaa  |  bbbbb|b                     list only. There are several cuts, fine to coarse, the
//	  +------+-------+-------> time         coarsest being one strip; the finest that holds the item counts.
//	  strip 0   1       2
//
// Lives are kept apart from the bytes because running over a list mostly looks at the lives alone.
type shelf struct {
	m    *model
	cuts []shelfCut // fine to coarse
}

// shelfCut is one cut of the time axis.
type shelfCut struct {
	strip []int32 // of each dense point
	lists []shelfList
}

// shelfList is one list by ascending offset.
type shelfList struct {
	lives []life
	bytes []forbidden // first byte and end
	ids   []int32     // items, where hulls may overlap without a conflict
}

// life is the hull of a placed item in dense points.
type life struct{ lo, hi int32 }

// birthsPerStrip of the finest cut, and how much coarser the next one is: finer cuts have shorter lists but put long-lived
// items into more of them.
const (
	birthsPerStrip = 2048
	coarser        = 64
)

func newShelf(m *model) *shelf {
	s := &shelf{m: m}
	births := make([]int, len(m.times))
	for i := range m.items {
		births[m.items[i].lo]++
	}
	for width := birthsPerStrip; ; width *= coarser {
		c := shelfCut{strip: make([]int32, len(m.times))}
		sum := 0
		for t := range c.strip {
			c.strip[t] = int32(sum / width)
			sum += births[t]
		}
		c.lists = make([]shelfList, sum/width+1)
		s.cuts = append(s.cuts, c)
		if len(c.lists) == 1 {
			return s
		}
	}
}

// put adds item i at offset off.
func (s *shelf) put(i int, off int64) {
	it := &s.m.items[i]
	if it.lo == it.hi {
		return
	}
	for _, c := range s.cuts {
		for k := c.strip[it.lo]; k <= c.strip[it.hi-1]; k++ {
			c.lists[k].insert(s.m, i, off)
		}
	}
}

// list is the shortest list that has everything alive together with item i.
func (s *shelf) list(i int) *shelfList {
	it := &s.m.items[i]
	c := &s.cuts[0]
	for k := 1; c.strip[it.lo] != c.strip[it.hi-1]; k++ {
		c = &s.cuts[k]
	}
	return &c.lists[c.strip[it.lo]]
}

func (l *shelfList) insert(m *model, i int, off int64) {
	it := &m.items[i]
	k, _ := slices.BinarySearchFunc(l.bytes, off, func(s forbidden, off int64) int { return cmp.Compare(s.lo, off) })
	l.lives = slices.Insert(l.lives, k, life{it.lo, it.hi})
	l.bytes = slices.Insert(l.bytes, k, forbidden{off, off + it.size})
	if !m.plain {
		l.ids = slices.Insert(l.ids, k, int32(i))
	}
}

// fit is the lowest or the tightest fit of item i (see board). Items that are more than one piece count with their
// largest size.
func (s *shelf) fit(i int, tight bool) int64 {
	it := &s.m.items[i]
	if it.lo == it.hi {
		return 0
	}
	l := s.list(i)
	at, best, slack := int64(0), int64(unplaced), int64(0)
	lo, hi := it.lo, it.hi
	for k, x := range l.lives {
		if x.hi <= lo || hi <= x.lo {
			continue
		}
		if l.ids != nil && s.m.below(i, int(l.ids[k])) == 0 {
			continue
		}
		taken := l.bytes[k]
		if left := taken.lo - it.size - at; left >= 0 && (best == unplaced || left < slack) {
			if best, slack = at, left; !tight || left == 0 {
				return best
			}
		}
		if taken.hi > at {
			at = alignUp(taken.hi, it.align)
		}
	}
	if best != unplaced {
		return best
	}
	return at
}
