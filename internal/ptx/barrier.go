package ptx

import (
	"math/bits"
	"slices"
)

// Barriers of a block. A warp comes to one as a whole: a barrier that some of its lanes do not come to is an error here, whatever
// a GPU makes of it. A barrier may be for some of the warps, by a count of threads, which are counted as warps: a last warp of fewer lanes counts 32.
// Warps that only arrive go on at once, and are ordered before those that wait:
//
//	warp 0   write s    bar.arrive 1, 64 ─┐  write t         s is ordered, t is not
//	warp 1              bar.sync 1, 64 ───┴▶ read s

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
	want    int    // threads that it is for
	reduce  string // how the predicates of its threads are reduced; all must say the same
	yes     int    // threads whose predicate holds, for reductions
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
	want := 32 * len(b.warps)
	if use.count >= 0 {
		want = int(f.v[use.count][l])
	}
	bar := &b.barriers[id]
	if !w.fits(f, bar, use, m, want) {
		b.isStopped = true
		return
	}
	bar.want, bar.reduce = want, use.reduce
	bar.arrived = append(bar.arrived, arrival{w, use.waits})
	bar.threads += bits.OnesCount32(w.valid)
	bar.line = s.line
	if use.reduce != "" {
		bar.yes += bits.OnesCount32(use.operand.of(f) & m)
	}
	if use.waits {
		w.waits = barrierWait{true, id, f, s, m}
	}
	if 32*len(bar.arrived) == want {
		bar.release()
	}
}

// fits checks that a barrier can be for so many threads, that all lanes mean the same, and that it goes with the warps that have come to it.
func (w *warp) fits(f *frame, bar *barrier, use *barrierUse, m uint32, want int) bool {
	for l := firstLane(m); m != 0; m &= m - 1 {
		k := firstLane(m)
		if f.v[use.id][k] != f.v[use.id][l] || use.count >= 0 && f.v[use.count][k] != f.v[use.count][l] {
			w.report(Divergence, k, "lanes of a warp come to different barriers, or for different numbers of threads")
			return false
		}
	}
	l := firstLane(w.valid)
	switch most := 32 * len(w.block.warps); {
	case want <= 0 || want%32 != 0 || want > most:
		w.report(OutOfBounds, l, "a barrier for %d threads, of %d in warps of 32", want, most)
	case len(bar.arrived) > 0 && (bar.want != want || bar.reduce != use.reduce):
		w.report(Divergence, l, "a barrier for %d threads, which others have come to for %d, or with another reduction", want, bar.want)
	case slices.ContainsFunc(bar.arrived, func(a arrival) bool { return a.warp == w }):
		w.report(Divergence, l, "the warp comes to the barrier again before it is complete")
	default:
		return true
	}
	return false
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
	if len(all) == len(waiting) && len(all) == len(b.warps) {
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
