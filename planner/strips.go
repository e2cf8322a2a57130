package planner

import (
	"math/bits"
	"slices"
	"sort"
)

// A stripIndex keeps the placed items of a large problem so that the bytes taken during one item's live range can be run over from
// below, without a list of conflicts per item and without looking at most of what is placed.
//
//	bytes                                      The time axis is cut into strips of about equally many births;
//	  |  dddd|ddddddd|      |      |           four strips make one of the next coarser level, and so on up to one
//	  |      |ccc    |ccccccccccccc|           strip for all. A new item looks at the finest strip that holds its live range.
//	  |aaaaaa|aaaaaaa|aaaaaaa      |
//	  |  bbbb|b      |      |  eee |           entries: pieces that begin or end inside the strip (b, c, d in strip 1)
//	  +------+-------+------+------+-> time    runs:    bytes of pieces that fill the strip from side to side (a in 1),
//	  strip 0    1      2      3                        or that are alive at one boundary which the item's live range crosses
//
// Runs are merged where they touch, and what is alive at one instant is mostly packed densely: thousands of pieces become a few
// runs. Entries stand in blocks by ascending offset; a block whose bytes all lie under a run is passed over.
type stripIndex struct {
	m     *model
	align int64   // all offsets are multiples of it
	strip []int32 // of each dense point, finest level
	first []int32 // dense point at which each strip begins, and one more for the end
	level [][]entryList
	whole []runs  // bytes of the pieces that fill each strip
	edge  []runs  // bytes of the pieces alive at the first point of each strip
	load  []int64 // how many those are
	made  int64   // entries and runs looked at so far: what fitting costs
}

// birthsPerStrip of the finest level, and how many strips make one of the next level (as a power of two).
const (
	birthsPerStrip = 512
	coarser        = 2
)

func newStripIndex(m *model) *stripIndex {
	s := &stripIndex{m: m, align: m.alignments()[0], strip: make([]int32, len(m.times)), first: []int32{0}}
	births := make([]int32, len(m.times))
	for i := range m.items {
		for _, p := range m.items[i].pieces {
			births[p.lo]++
		}
	}
	sum := int32(0)
	for t := range s.strip {
		if sum >= birthsPerStrip {
			s.first = append(s.first, int32(t))
			sum = 0
		}
		s.strip[t] = int32(len(s.first) - 1)
		sum += births[t]
	}
	strips := len(s.first)
	s.first = append(s.first, int32(len(m.times)-1))
	s.whole, s.edge, s.load = make([]runs, strips), make([]runs, strips), make([]int64, strips)
	for n := strips; ; n = (n-1)>>coarser + 1 {
		s.level = append(s.level, make([]entryList, n))
		if n == 1 {
			return s
		}
	}
}

// put adds item i at offset off.
func (s *stripIndex) put(i int, off int64) {
	for _, p := range s.m.items[i].pieces {
		bytes := forbidden{off, alignUp(off+s.m.items[i].size, s.align)}
		from, to := s.strip[p.lo], s.strip[p.hi-1]
		for k := from; k <= to; k++ {
			if p.lo > s.first[k] {
				continue
			}
			s.edge[k].add(bytes)
			s.load[k] += s.m.items[i].size
			if p.hi >= s.first[k+1] {
				s.whole[k].add(bytes)
			}
		}
		for l := range s.level {
			a, b := from>>(coarser*l), to>>(coarser*l)
			if !s.fills(p, l, a) {
				s.level[l][a].add(entry{p, bytes})
			}
			if a != b && !s.fills(p, l, b) {
				s.level[l][b].add(entry{p, bytes})
			}
		}
	}
}

// fills reports whether piece p is alive all through strip k of level l.
func (s *stripIndex) fills(p piece, l int, k int32) bool {
	end := min(int(k+1)<<(coarser*l), len(s.first)-1)
	return p.lo <= s.first[k<<(coarser*l)] && p.hi >= s.first[end]
}

// fit is the lowest or the tightest fit of item i (see board). An item of several pieces counts with its largest size.
func (s *stripIndex) fit(i int, tight bool) int64 {
	it := &s.m.items[i]
	if it.lo == it.hi {
		return 0
	}
	list, taken := s.around(it)
	f := fitter{item: it, tight: tight, best: unplaced}
	if len(it.pieces) > 1 {
		f.pieces = it.pieces
	}
	for h := range list.blocks {
		b := &list.blocks[h]
		for len(taken) > 0 && taken[0].lo <= b.low {
			if f.take(taken[0]) {
				return f.best
			}
			taken = taken[1:]
		}
		if b.top <= f.at || b.hull.hi <= it.lo || it.hi <= b.hull.lo {
			continue
		}
		s.made += int64(len(b.bytes))
		for alive := b.alive(it.lo, it.hi); alive != 0; alive &= alive - 1 {
			k := bits.TrailingZeros64(alive)
			if b.bytes[k].hi <= f.at || !f.meets(b.pieces[k]) {
				continue
			}
			for len(taken) > 0 && taken[0].lo <= b.bytes[k].lo {
				if f.take(taken[0]) {
					return f.best
				}
				taken = taken[1:]
			}
			if f.take(b.bytes[k]) {
				return f.best
			}
		}
	}
	s.made += int64(len(list.blocks))
	for _, r := range taken {
		if f.take(r) {
			return f.best
		}
	}
	return f.offset()
}

// around is what is alive together with an item: the entries of the finest strip that holds its live range, and the runs of what
// fills that strip. At coarser levels the runs are those of the fullest boundary that it crosses: what fills
// the strip is among them. An item of several pieces may be in a hole there; what fills the fine strip of its
// first point always meets it.
func (s *stripIndex) around(it *item) (*entryList, runs) {
	from, to := s.strip[it.lo], s.strip[it.hi-1]
	l := 0
	for from>>(coarser*l) != to>>(coarser*l) {
		l++
	}
	list := &s.level[l][from>>(coarser*l)]
	if l == 0 || len(it.pieces) > 1 {
		return list, s.whole[from]
	}
	pick := to
	for k := from + 1; k < to; k++ {
		if s.load[k] > s.load[pick] {
			pick = k
		}
	}
	return list, s.edge[pick]
}

// fitter finds the lowest or the tightest gap among byte runs that come by ascending beginning.
type fitter struct {
	item   *item
	pieces []piece // of an item that has several
	tight  bool
	at     int64 // everything below is taken or was looked at
	best   int64 // begin of the gap found, or unplaced
	slack  int64 // what the item leaves of it
}

// take passes a taken run and reports whether the gap below it ends the search.
func (f *fitter) take(r forbidden) bool {
	if left := r.lo - f.item.size - f.at; left >= 0 && (f.best == unplaced || left < f.slack) {
		if f.best, f.slack = f.at, left; !f.tight || left == 0 {
			return true
		}
	}
	if r.hi > f.at {
		f.at = alignUp(r.hi, f.item.align)
	}
	return false
}

// offset is the gap found, or else the end of what was passed.
func (f *fitter) offset() int64 {
	if f.best != unplaced {
		return f.best
	}
	return f.at
}

// meets reports whether a live range that overlaps the item's hull overlaps one of its pieces.
func (f *fitter) meets(x piece) bool {
	return f.pieces == nil || slices.ContainsFunc(f.pieces, func(p piece) bool { return p.lo < x.hi && x.lo < p.hi })
}

// entry is a placed piece.
type entry struct {
	piece piece
	bytes forbidden // first byte and end
}

// entryList holds entries by ascending offset, in blocks that split when they are full.
type entryList struct{ blocks []entryBlock }

// entryBlock is a run of entries. What decides whether a block is passed over lies next to that of the next block;
// pieces and bytes are separate lists, since a search mostly looks at the pieces alone.
type entryBlock struct {
	low, top int64 // lowest beginning, highest end
	hull     piece // of all pieces
	pieces   []piece
	bytes    []forbidden
}

const blockSize = 64 // at most the bits of a word

// alive has a bit for every entry that is alive somewhere in [lo, hi). It is written without branches: they would be
// guessed wrong every other time.
func (b *entryBlock) alive(lo, hi int32) uint64 {
	set := uint64(0)
	for k, x := range b.pieces {
		set |= uint64(uint32((x.lo-hi)&(lo-x.hi))>>31) << (k & 63)
	}
	return set
}

func (l *entryList) add(e entry) {
	k := sort.Search(len(l.blocks), func(k int) bool { return l.blocks[k].low > e.bytes.lo }) - 1
	if k < 0 {
		if k = 0; len(l.blocks) == 0 {
			l.blocks = append(l.blocks, newEntryBlock(nil, nil))
		}
	}
	if len(l.blocks[k].pieces) == blockSize {
		b := &l.blocks[k]
		pieces, bytes := b.pieces, b.bytes
		*b = newEntryBlock(pieces[:blockSize/2], bytes[:blockSize/2])
		upper := newEntryBlock(pieces[blockSize/2:], bytes[blockSize/2:])
		if l.blocks = slices.Insert(l.blocks, k+1, upper); upper.low <= e.bytes.lo {
			k++
		}
	}
	l.blocks[k].add(e)
}

// newEntryBlock copies entries to a block with room for more.
func newEntryBlock(pieces []piece, bytes []forbidden) entryBlock {
	b := entryBlock{pieces: append(make([]piece, 0, blockSize), pieces...), bytes: append(make([]forbidden, 0, blockSize), bytes...)}
	for k := range pieces {
		b.cover(k, entry{pieces[k], bytes[k]})
	}
	return b
}

func (b *entryBlock) add(e entry) {
	k := len(b.bytes)
	for k > 0 && b.bytes[k-1].lo > e.bytes.lo {
		k--
	}
	b.cover(len(b.bytes), e)
	b.pieces = slices.Insert(b.pieces, k, e.piece)
	b.bytes = slices.Insert(b.bytes, k, e.bytes)
}

// cover widens the block, which has n entries, by one more.
func (b *entryBlock) cover(n int, e entry) {
	if n == 0 {
		b.low, b.hull = e.bytes.lo, e.piece
	}
	b.low, b.top = min(b.low, e.bytes.lo), max(b.top, e.bytes.hi)
	b.hull = piece{min(b.hull.lo, e.piece.lo), max(b.hull.hi, e.piece.hi)}
}

// runs are byte runs by ascending beginning that neither overlap nor touch.
type runs []forbidden

// add joins x with the runs that it overlaps or touches.
func (r *runs) add(x forbidden) {
	from := sort.Search(len(*r), func(k int) bool { return (*r)[k].hi >= x.lo })
	to := from
	for to < len(*r) && (*r)[to].lo <= x.hi {
		x = forbidden{min(x.lo, (*r)[to].lo), max(x.hi, (*r)[to].hi)}
		to++
	}
	if to == from {
		*r = slices.Insert(*r, from, x)
		return
	}
	(*r)[from] = x
	*r = append((*r)[:from+1], (*r)[to:]...)
}
