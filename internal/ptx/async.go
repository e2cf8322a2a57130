package ptx

import "slices"

// Asynchronous copies from global to shared memory: cp.async. The copy happens, at the latest, when it is waited for, and here not
// earlier; until then its target counts as memory that nobody has written. Every lane has its own sequence of groups.

// flight is a copy that has not been waited for.
type flight struct {
	lane  int
	group int
	at    uint64
	data  [16]byte
	size  int
}

// compileCopy compiles cp.async and the operations on its groups.
func compileCopy(o *operation) {
	if !o.flag("async") {
		o.fail("only cp.async is executed here")
	}
	o.step.class = MemoryClass
	switch {
	case o.flag("commit_group"):
		o.want(0)
		o.step.exec = func(w *warp, _ *frame, m uint32) {
			for ; m != 0; m &= m - 1 {
				w.groups[firstLane(m)]++
			}
		}
	case o.flag("wait_group"):
		o.want(1)
		most := int(o.arg(0).Bits)
		if o.arg(0).Kind != integerOperand || most < 0 {
			o.fail("the number of groups is no constant")
		}
		o.step.exec = func(w *warp, _ *frame, m uint32) {
			w.land(m, func(c *flight) bool { return c.group < w.groups[c.lane]-most })
		}
	case o.flag("wait_all"):
		o.want(0)
		o.step.exec = func(w *warp, _ *frame, m uint32) { w.land(m, func(*flight) bool { return true }) }
	default:
		compileFlight(o)
	}
}

// compileFlight compiles the copy itself: [shared], [global], size, and perhaps how many of the bytes are read; the rest is zeros.
func compileFlight(o *operation) {
	isGlobalAlone := slices.Contains(o.mods, "cg")
	o.hints()
	if !o.flag("shared") || !o.flag("global") {
		o.fail("copies are executed from global to shared memory")
	}
	size := int(o.arg(2).Bits)
	if size != 4 && size != 8 && size != 16 || isGlobalAlone && size != 16 {
		o.fail("copies of %d bytes", size)
		size = 16
	}
	from := accessTo(Global, size, Read)
	to := accessTo(Shared, size, Write)
	target, source := o.pointer(0, &to), o.pointer(1, &from)
	limit := int32(-1)
	if len(o.Args) > 3 {
		o.want(4)
		limit = o.src(3, U32)
	}
	o.step.exec = func(w *warp, f *frame, m uint32) {
		there, here := target.base(w, f), source.base(w, f)
		w.sector = ^uint64(0)
		for ; m != 0; m &= m - 1 {
			l := firstLane(m)
			n := size
			if limit >= 0 {
				n = int(min(f.v[limit][l], uint64(size)))
			}
			w.fly(f, from, to, l, source.of(here, f, l), target.of(there, f, l), n)
		}
	}
}

// fly begins a lane's copy of n bytes.
func (w *warp) fly(f *frame, from, to access, lane int, source, target uint64, n int) {
	c := flight{lane: lane, group: w.groups[lane], at: target, size: to.size}
	for i := 0; i < n; { // what is cut off is not read
		piece := from
		if piece.size = n; n != from.size {
			piece.size = 1
		}
		data := w.at(f, piece, lane, source+uint64(i))
		copy(c.data[i:], data)
		i += piece.size
	}
	if w.at(f, to, lane, target) == nil {
		return
	}
	for i := range to.size {
		w.block.sharedState[int(target)+i] = isFlying
	}
	w.block.change(target, to.size, true)
	w.flights = append(w.flights, c)
}

// land ends copies of some lanes.
func (w *warp) land(m uint32, isDue func(*flight) bool) {
	rest := w.flights[:0]
	for _, c := range w.flights {
		if m>>c.lane&1 == 0 || !isDue(&c) {
			rest = append(rest, c)
			continue
		}
		copy(w.block.shared[c.at:], c.data[:c.size])
		for i := range c.size {
			w.block.sharedState[int(c.at)+i] = isWritten
		}
		w.touch(c.at, c.size, c.lane, true, false)
		w.block.change(c.at, c.size, true)
	}
	w.flights = rest
}
