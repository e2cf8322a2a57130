package ptx

import "math/bits"

// Barriers of a block. A warp comes to one as a whole: a barrier that some of its lanes do not come to is an error here, whatever
// a GPU makes of it.

// barrierWait is what a warp waits for.
type barrierWait struct {
	isWaiting bool
	id        uint64
	frame     *frame
	step      *step
	lanes     uint32
}

// arrival is a warp's part in a barrier that is not complete.
type arrival struct {
	warp  *warp
	waits bool
}

// barrier is one of a block's 16.
type barrier struct {
	arrived []arrival
	threads int
	yes     int // threads whose predicate holds, for reductions
	line    int
}

// arrive brings a warp to a barrier. It goes on when the barrier is complete, or at once if it only arrives.
func (w *warp) arrive(f *frame, e *entry, s *step, m uint32) {
	b, use := w.block, &s.barrier
	if all := w.valid; m != all {
		w.report(Divergence, firstLane(m), "%d of the warp's %d lanes come to the barrier, %d have ended",
			bits.OnesCount32(m), bits.OnesCount32(all), bits.OnesCount32(w.exited))
		b.isStopped = true
		return
	}
	e.pc++
	l := firstLane(m)
	id := f.v[use.id][l]
	if id >= uint64(len(b.barriers)) {
		w.report(OutOfBounds, l, "barrier %d of %d", id, len(b.barriers))
		b.isStopped = true
		return
	}
	bar := &b.barriers[id]
	bar.arrived = append(bar.arrived, arrival{w, use.waits})
	bar.threads += bits.OnesCount32(w.valid)
	bar.line = s.line
	if use.reduce != "" {
		bar.yes += bits.OnesCount32(use.operand.of(f) & m)
	}
	if use.waits {
		w.waits = barrierWait{true, id, f, s, m}
	}
	want := b.threads()
	if use.count >= 0 {
		want = int(f.v[use.count][l])
	}
	if bar.threads >= want {
		bar.release()
	}
}

// release lets the warps of a complete barrier go on. Those that waited have seen what all did before they came.
func (bar *barrier) release() {
	var all, waiting []*warp
	for _, a := range bar.arrived {
		all = append(all, a.warp)
		if a.waits {
			waiting = append(waiting, a.warp)
		}
	}
	b := all[0].block
	if len(all) == len(waiting) && bar.threads == b.threads() {
		b.phase.next()
	}
	b.enter()
	if len(all) == len(waiting) {
		meet(all)
	} else {
		for _, w := range all {
			w.seen[w.index+1] = w.clock
			w.tick(w.clock + 1)
		}
		for _, w := range waiting {
			for _, other := range all {
				for i, c := range other.seen {
					w.seen[i] = max(w.seen[i], c)
				}
			}
		}
	}
	for _, w := range waiting {
		bar.deliver(w)
		w.waits.isWaiting = false
	}
	*bar = barrier{arrived: bar.arrived[:0]}
}

// deliver gives a warp the result of a reduction.
func (bar *barrier) deliver(w *warp) {
	s, f := w.waits.step, w.waits.frame
	use := &s.barrier
	holds := use.reduce == "and" && bar.yes == bar.threads || use.reduce == "or" && bar.yes > 0
	switch {
	case use.reduce == "popc":
		f.broadcast(use.result, uint64(bar.yes), w.waits.lanes)
		f.defined[use.result] |= w.waits.lanes
	case use.reduce != "" && holds:
		f.setPred(use.result, allLanes, w.waits.lanes)
		f.predsKnown[use.result] |= w.waits.lanes
	case use.reduce != "":
		f.setPred(use.result, 0, w.waits.lanes)
		f.predsKnown[use.result] |= w.waits.lanes
	}
}
