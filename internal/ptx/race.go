package ptx

import (
	"slices"
	"sync"
)

// Races in shared memory: two lanes touch the same bytes, one of them writes, and nothing between them makes the one come before
// the other. Order is made by barriers, which the detector follows with vector clocks, one entry for each warp (Flanagan, Freund:
// FastTrack, 2009):
//
//	warp 0:  write as[3]  stamp (lane 3, clock 1)    bar.sync   clock 2
//	warp 1:                                          bar.sync   read as[3]: it has seen clock 1 of warp 0, so no race
//
// A warp has a clock, which every barrier advances, and remembers up to which clock it has seen each warp. Lanes of one warp are
// ordered by bar.warp.sync alone: that they execute in lockstep is no promise of PTX. A cell remembers its last writer, the atomic
// operation before it if no barrier is between, and the readers of two warps; a third warp's readers replace those that they come after, if
// there are any. Where barriers of some warps may order a writer behind those two and not behind the third, it is noted beside the cell.

// stamp is an access by one or two lanes of a warp at a clock. The zero value is no access.
//
//	63 ··· 38   37 ··· 17   16       15 ··· 10   9 ··· 5   4 ··· 0
//	block + 1   clock       atomic   warp + 1    a lane    another lane, or the same
type stamp uint64

const (
	atWarp            = 10
	atClock           = 17
	atBlock           = 38
	atomically  stamp = 1 << 16
	mostInBlock       = 64 // more than the warps of a block
	mostClock         = 1<<(atBlock-atClock) - 1
)

// block is one more than the number of the block.
func (s stamp) block() uint64 { return uint64(s >> atBlock) }

func (s stamp) clock() uint32 { return uint32(s >> atClock & mostClock) }

// warp is one more than the index of the warp, 0 for no access.
func (s stamp) warp() uint64 { return uint64(s >> atWarp & (mostInBlock - 1)) }

// thread is a thread of the access, another one than that of a stamp if there are two.
func (s stamp) thread(than stamp) int {
	lane := int(s >> 5 & 31)
	if s>>atWarp&(mostInBlock-1) == than>>atWarp&(mostInBlock-1) && lane == int(than&31) {
		lane = int(s & 31)
	}
	return (int(s.warp())-1)*32 + lane
}

// cell is what the detector knows of some bytes of shared memory, as many as the narrowest access of the kernel touches.
type cell struct {
	write stamp
	other stamp    // an atomic operation that another one followed, with no barrier between; 0: none
	reads [2]stamp // of two warps
}

// moreReaders are readers of cells that have readers of two warps already, in kernels with barriers of some warps.
type moreReaders struct {
	lock sync.Mutex
	of   map[uint64][]stamp // by cell
}

// add notes a reader of a cell.
func (r *moreReaders) add(cell uint64, own stamp) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.of == nil {
		r.of = map[uint64][]stamp{}
	}
	if !slices.Contains(r.of[cell], own) {
		r.of[cell] = append(r.of[cell], own)
	}
}

// race is a reader of a cell that a write by a lane of the warp races with; 0: none. Readers that come before the write are forgotten.
func (r *moreReaders) race(w *warp, cell uint64, own stamp) stamp {
	if !w.block.kernel.isPartial {
		return 0
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	for _, reader := range r.of[cell] {
		if !w.isBefore(reader, own) {
			return reader
		}
	}
	delete(r.of, cell)
	return 0
}

// tick sets the warp's clock and what it has seen: all accesses of the warp itself up to now.
func (w *warp) tick(clock uint32) {
	if clock > mostClock {
		w.report(Runaway, 0, "the block has passed more than %d barriers", mostClock-1)
		w.block.isStopped = true
		clock = mostClock
	}
	w.clock = clock
	w.now = stamp(w.block.number+1)<<atBlock | stamp(clock)<<atClock | stamp(w.index+1)<<atWarp
}

// own is an access by a lane now.
func (w *warp) own(lane int) stamp { return w.now | stamp(lane)<<5 | stamp(lane) }

// isBefore reports whether an access comes before another by a lane of the warp now. No access comes before every other.
func (w *warp) isBefore(s, own stamp) bool {
	return s == 0 || s>>atBlock == own>>atBlock && w.seen[s.warp()] >= s.clock() || s&^atomically == own
}

// touch notes an access by a lane and returns the thread it races with; -1: none.
func (w *warp) touch(at uint64, size int, lane int, isWrite, isAtomic bool) int {
	own := w.own(lane)
	if isWrite {
		w.block.enter()
	}
	grain := uint64(w.block.kernel.sharedGrain)
	for i := at / grain; i <= (at+uint64(size)-1)/grain; i++ {
		c := &w.block.cells[i]
		if other := c.writer(w, own, isAtomic); other != 0 {
			return other.thread(own)
		}
		if !isWrite {
			w.read(i, own)
			continue
		}
		for _, r := range c.reads {
			if !w.isBefore(r, own) {
				return r.thread(own)
			}
		}
		if r := w.block.more.race(w, i, own); r != 0 {
			return r.thread(own)
		}
		if c.write = own; isAtomic {
			c.write |= atomically
		}
	}
	return -1
}

// writer is a write to the cell that an access races with; 0: none.
func (c *cell) writer(w *warp, own stamp, isAtomic bool) stamp {
	switch {
	case !w.isBefore(c.write, own) && isAtomic && c.write&atomically != 0:
		c.other = c.write
	case !w.isBefore(c.write, own):
		return c.write
	case !isAtomic && !w.isBefore(c.other, own):
		return c.other
	}
	return 0
}

// read notes a reader of a cell.
func (w *warp) read(cell uint64, own stamp) {
	c := &w.block.cells[cell]
	if k, now := w.reader(c.reads, own); k >= 0 {
		c.reads[k] = now
	} else if w.block.kernel.isPartial {
		w.block.more.add(cell, own)
	}
}

// reader says which of the readers that are known of a cell another one replaces, and by what; -1: none. It is noted with another of its warp, or in
// the place of readers that it comes after. Two of different warps are enough where barriers are for all warps, since a writer is of one warp, and so
// are two of different blocks.
func (w *warp) reader(known [2]stamp, own stamp) (int, stamp) {
	for i, r := range known {
		if r>>atWarp == own>>atWarp {
			if r>>5&31 != own&31 {
				return i, r&^31 | own&31
			}
			return -1, 0
		}
	}
	for i, r := range known {
		if w.isBefore(r, own) {
			return i, own
		}
	}
	if first := known[0].block(); first == known[1].block() && first != own.block() {
		return 1, own
	}
	return -1, 0
}

// meet orders warps: each has then seen what all of them had done.
func meet(warps []*warp) {
	var joined [mostInBlock]uint32
	for _, w := range warps {
		w.seen[w.index+1] = w.clock
		for i, c := range w.seen {
			joined[i] = max(joined[i], c)
		}
	}
	for _, w := range warps {
		w.seen = joined
		w.tick(w.clock + 1)
	}
}
