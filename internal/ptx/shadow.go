package ptx

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Races in global memory. Threads of one block are ordered by barriers, as for shared memory (race.go), and threads of two blocks of a launch by
// nothing: fences and flags in memory are not followed. So two accesses to the same bytes are a race if one of them writes, not both are atomic,
// and their threads are of two blocks or no barrier is between them; also if both write the same value.
//
// A shadow has stamps for the memory that a launch writes, and for what overlaps with that; all else is only read, where no race is possible. A
// cell stands for as many bytes as the narrowest access of the kernel to global memory:
//
//	windows   | x (read)      |        | y (written)     |        x and z are in one shadow, since they overlap;
//	                 | z (written) |                              that of y needs no readers, since nothing reads it
//	shadow    | cells with readers |   | cells           |
//
//	cell      [ the last write ] [ a read ] [ a read by another warp or block ] [ an atomic operation that another one followed ]
//
// Blocks run in parallel on the host, so a write takes its place in the cell by an exchange, and looks for readers afterwards; a read is noted
// first, and looks for a writer afterwards. Whatever the order, one of two accesses that race finds the other, before it touches the bytes.
//
// A write costs an exchange and a load or two for each cell; the stamps are 8 bytes a cell, 24 where something reads, and 8 more in kernels with
// atomic operations, whose blocks run one after another. They are zeros when a launch begins. A load by ld.global.nc may go through a cache that does not see stores: its bytes may not be written by the launch at all.
type shadow struct {
	start uint64 // of the first cell; a multiple of the widest access
	grain uint64 // bytes of a cell
	// writes has a stamp for each cell, reads two; no reads if nothing may read.
	writes, reads []uint64
	others        []uint64 // nil in kernels without atomic operations
	more          moreReaders
}

// mostBlocksInStamp is how many blocks stamps tell apart.
const mostBlocksInStamp = 1<<(64-atBlock) - 1

// spareStamps are the stamps of launches that have ended.
var spareStamps sync.Pool

// stampsOf gives n zeros.
func stampsOf(n uint64) []uint64 {
	if s, _ := spareStamps.Get().(*[]uint64); s != nil && uint64(cap(*s)) >= n {
		clear((*s)[:n])
		return (*s)[:n]
	}
	return make([]uint64, n)
}

// addShadows gives the windows of a launch that may be written, and those that overlap with them, their shadows.
func (g *grid) addShadows() {
	order := make([]*window, 0, len(g.windows))
	for i := range g.windows {
		if g.windows[i].Size > 0 {
			order = append(order, &g.windows[i])
		}
	}
	slices.SortFunc(order, func(a, b *window) int {
		if a.Base != b.Base {
			return map[bool]int{true: -1, false: 1}[a.Base < b.Base]
		}
		return a.Size - b.Size
	})
	for len(order) > 0 { // windows that overlap follow each other
		n, end, access := 1, order[0].end(), order[0].Access
		for ; n < len(order) && order[n].Base < end; n++ {
			end, access = max(end, order[n].end()), access|order[n].Access
		}
		if access&Write != 0 {
			g.cover(order[:n], end, access&Read != 0)
		}
		order = order[n:]
	}
}

// cover makes the shadow of windows that overlap.
func (g *grid) cover(windows []*window, end uint64, isRead bool) {
	s := &shadow{start: windows[0].Base &^ 15, grain: uint64(g.kernel.globalGrain)}
	n := (end-s.start)/s.grain + 1
	s.writes = stampsOf(n)
	if g.kernel.isOrdered {
		s.others = stampsOf(n)
	}
	if isRead {
		s.reads = stampsOf(2 * n)
	}
	for _, w := range windows {
		w.shadow = s
	}
	g.shadows = append(g.shadows, s)
}

// leaveShadows keeps the stamps for other launches.
func (g *grid) leaveShadows() {
	for _, s := range g.shadows {
		spareStamps.Put(&s.writes)
		for _, stamps := range []*[]uint64{&s.reads, &s.others} {
			if *stamps != nil {
				spareStamps.Put(stamps)
			}
		}
	}
}

func (win *window) end() uint64 { return win.Base + uint64(win.Size) }

// isRace notes an access by a lane to bytes of a window, and reports the thread that it races with, if there is one.
func (w *warp) isRace(win *window, a *access, lane int, addr uint64, size int) bool {
	s, own := win.shadow, w.own(lane)
	for i := (addr - s.start) / s.grain; i <= (addr+uint64(size)-1-s.start)/s.grain; i++ {
		switch other := s.touch(w, i, own, a); {
		case other == 0:
		case a.isConstant || other == constantly:
			w.report(ReadOnly, lane, "%d bytes at %#x of global memory, in the window %s, are read by ld.global.nc, and written by the same launch", size, addr, win.Name)
			return true
		default:
			w.report(Race, lane, "%d bytes at %#x of global memory, in the window %s, which thread %d of block %d touches too, and no barrier is between",
				size, addr, win.Name, other.thread(own), other.block()-1)
			return true
		}
	}
	return false
}

// constantly stands for reads by ld.global.nc, which any write of the launch races with.
const constantly stamp = (mostInBlock - 1) << atWarp

// touch notes an access to a cell and gives another one that it races with; 0: none.
func (s *shadow) touch(w *warp, i uint64, own stamp, a *access) stamp {
	if a.isConstant {
		atomic.StoreUint64(&s.reads[2*i], uint64(constantly))
		return stamp(atomic.LoadUint64(&s.writes[i]))
	}
	if !a.isWrite {
		s.read(w, i, own)
		if writer := stamp(atomic.LoadUint64(&s.writes[i])); !w.isBefore(writer, own) {
			return writer
		}
		return s.other(w, i, own)
	}
	now := own
	if a.isAtomic {
		now |= atomically
	}
	writer := stamp(atomic.SwapUint64(&s.writes[i], uint64(now)))
	switch {
	case !w.isBefore(writer, own) && now&writer&atomically == 0:
		return writer
	case !w.isBefore(writer, own):
		s.others[i] = uint64(writer)
	case !a.isAtomic && s.other(w, i, own) != 0:
		return stamp(s.others[i])
	}
	if s.reads == nil {
		return 0
	}
	for k := range uint64(2) {
		if reader := stamp(atomic.LoadUint64(&s.reads[2*i+k])); !w.isBefore(reader, own) {
			return reader
		}
	}
	return s.more.race(w, i, own)
}

// other is an atomic operation before the last write that a plain access races with; 0: none.
func (s *shadow) other(w *warp, i uint64, own stamp) stamp {
	if s.others == nil || w.isBefore(stamp(s.others[i]), own) {
		return 0
	}
	return stamp(s.others[i])
}

// read notes a reader of a cell.
func (s *shadow) read(w *warp, i uint64, own stamp) {
	slots := s.reads[2*i : 2*i+2]
	for {
		known := [2]stamp{stamp(atomic.LoadUint64(&slots[0])), stamp(atomic.LoadUint64(&slots[1]))}
		k, now := w.reader(known, own)
		if k < 0 && w.block.kernel.isPartial {
			s.more.add(i, own)
		}
		if k < 0 || atomic.CompareAndSwapUint64(&slots[k], uint64(known[k]), uint64(now)) {
			return
		}
	}
}

// isRowRace is isRace for a word of each lane, one behind the other.
func (w *warp) isRowRace(win *window, a *access, addr uint64) bool {
	for lane := range 32 {
		if w.isRace(win, a, lane, addr+4*uint64(lane), 4) {
			return true
		}
	}
	return false
}
