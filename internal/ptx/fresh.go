package ptx

import "sync/atomic"

// Memory in which values begin. A plan uses memory again within a run, so a kernel that leaves out an element of its result leaves what another tensor
// had there, written long ago. A launch names the ranges in which values begin with it ([Launch.Fresh]): they have no value when it begins, and where
// the launch does not write, none when it has ended. Where an operand lies under a result, its bytes are kept until then:
//
//	x (read)        ├──────────────┤
//	y (fresh)              ├──────────────┤
//	before                         ░░░░░░░░    have no value
//	afterwards             ░░▓▓▓▓▓▓▓▓▓▓▓▓░░    those that the launch has written have one
//
// What it has written is in the shadows (shadow.go).

// forget takes the values of fresh memory away, but those of operands.
func (g *grid) forget() {
	for _, f := range g.fresh {
		f.each(g.windows, func(lo, hi int, under *window) {
			if under == nil {
				clear(f.state[lo:hi])
			}
		})
	}
}

// forgetRest takes the values of operands under fresh memory away where the launch has not written.
func (g *grid) forgetRest() {
	for _, f := range g.fresh {
		f.each(g.windows, func(lo, hi int, under *window) {
			for i := lo; under != nil && i < hi; i++ {
				if s := under.shadow; s == nil || atomic.LoadUint64(&s.writes[(f.Base+uint64(i)-s.start)/s.grain]) == 0 {
					f.state[i] = isFree
				}
			}
		})
	}
}

// each calls f for the pieces of a range, from lo to hi, that lie over a window which is only read, and for those that lie over none.
func (win *window) each(windows []window, f func(lo, hi int, under *window)) {
	for lo := 0; lo < win.Size; {
		at, hi := win.Base+uint64(lo), win.Size
		var under *window
		for i := range windows {
			switch r := &windows[i]; {
			case r.Access != Read || r.end() <= at:
			case r.Base <= at:
				under, hi = r, min(hi, int(r.end()-win.Base))
			case r.Base < win.Base+uint64(hi):
				hi = int(r.Base - win.Base)
			}
		}
		f(lo, hi, under)
		lo = hi
	}
}
