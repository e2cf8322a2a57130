package ptx

// Races in shared memory: two lanes touch the same bytes, one of them writes, and nothing between them makes the one come before
// the other. Order is made by barriers, which the detector follows with vector clocks, one entry for each warp (Flanagan, Freund:
// FastTrack, 2009):
//
//	warp 0:  write as[3]  stamp (lane 3, clock 1)    bar.sync   clock 2
//	warp 1:                                          bar.sync   read as[3]: it has seen clock 1 of warp 0, so no race
//
// A warp has a clock, which every barrier advances, and remembers up to which clock it has seen each warp. Lanes of one warp are
// ordered by bar.warp.sync alone: that they execute in lockstep is no promise of PTX. A cell remembers its last writer and
// two readers; a third reader replaces one that it comes after, if there is one.

// stamp is an access: the thread plus one, and its warp's clock. The zero value is no access.
type stamp struct {
	thread int32
	clock  uint32
}

// cell is what the detector knows of some bytes of shared memory, as many as the narrowest access of the kernel touches.
type cell struct {
	write  stamp
	atomic bool // the write is an atomic operation
	reads  [2]stamp
}

// isBefore reports whether an access comes before what the warp's thread does now.
func (w *warp) isBefore(s stamp, thread int32) bool {
	return s.thread == 0 || s.thread == thread || w.seen[uint32(s.thread-1)>>5&31] >= s.clock
}

// touch notes an access by a lane and returns the thread it races with; -1: none.
func (w *warp) touch(at uint64, size int, lane int, isWrite, isAtomic bool) int {
	thread := int32(w.index*32+lane) + 1
	me := stamp{thread, w.clock}
	grain := uint64(w.block.kernel.sharedGrain)
	for i := at / grain; i <= (at+uint64(size)-1)/grain; i++ {
		c := &w.block.cells[i]
		if !w.isBefore(c.write, thread) && !(isAtomic && c.atomic) {
			return int(c.write.thread) - 1
		}
		if !isWrite {
			c.read(w, me)
			continue
		}
		for _, r := range c.reads {
			if !w.isBefore(r, thread) {
				return int(r.thread) - 1
			}
		}
		c.write, c.atomic = me, isAtomic
	}
	return -1
}

// read notes a reader in the place of one that it comes after.
func (c *cell) read(w *warp, me stamp) {
	if c.reads[0].thread == me.thread || w.isBefore(c.reads[0], me.thread) {
		c.reads[0] = me
	} else if w.isBefore(c.reads[1], me.thread) {
		c.reads[1] = me
	}
}

// meet orders warps: each has then seen what all of them had done.
func meet(warps []*warp) {
	for _, w := range warps {
		w.seen[w.index] = w.clock
	}
	var joined [32]uint32
	for _, w := range warps {
		for i, c := range w.seen {
			joined[i] = max(joined[i], c)
		}
	}
	for _, w := range warps {
		w.seen = joined
		w.clock++
	}
}
