package program

import (
	"slices"

	"github.com/berth-onnx/berth/loops"
)

// Replaying a loop: the body once per iteration, each time with the parameters' slots
// where the runtime would point them, and with what SSA says must lie there.
//
//	iteration  reads x at      expects              writes y at
//	0          place of init   init                 y's place for phase 0
//	1          y's last place  y of iteration 0     y's place for phase 1
//	2          y's last place  y of iteration 1     y's place for phase 0, which must be free

// held is a value on its way to the next iteration.
type held struct {
	loc    where
	expect []piece
}

// iterate replays a loop: as many iterations as the replay asks for, fewer if
// the exact number is known to be smaller.
func (r *replay) iterate(in *Instr) error {
	l := in.Loop
	for _, s := range in.In[:len(in.In)-in.Node.Captures] { // captures are read by the body, if at all
		if err := r.read(in.Node, s); err != nil {
			return err
		}
	}
	next := make([]held, len(l.Carries))
	for i, c := range l.Carries {
		if c.Init >= 0 {
			next[i] = held{r.loc[c.Init], r.expect[c.Init]}
		}
	}
	stacks := make([][]piece, len(l.ScanOuts))
	trips := max(r.tripsNow(), l.Rotation.MinTrips)
	if k, ok := l.Rotation.Trips.Const(); ok {
		trips = min(trips, int(k))
	}
	for t := range trips {
		r.race.tick()
		if err := r.enter(in, next, t); err != nil {
			return err
		}
		r.race.tick()
		if err := r.block(in.Bodies[0]); err != nil {
			return err
		}
		r.race.tick()
		for _, s := range in.Bodies[0].Results {
			if err := r.read(in.Node, s); err != nil {
				return err
			}
		}
		for i, c := range l.Carries {
			next[i] = held{r.loc[c.Result], r.expect[c.Result]}
		}
		if err := r.push(in, stacks, t, trips); err != nil {
			return err
		}
	}
	for i, c := range l.Carries {
		if c.Out >= 0 {
			r.loc[c.Out], r.expect[c.Out] = next[i].loc, next[i].expect
		}
	}
	for k, o := range l.ScanOuts {
		if o.Out >= 0 {
			r.expect[o.Out] = r.filled(l, k, stacks[k])
		}
	}
	return nil
}

// filled completes what a stacked output is expected to hold: the slices of
// iterations that a short replay left out may be anything.
func (r *replay) filled(l *Loop, k int, stack []piece) []piece {
	out := &r.p.Slots[l.ScanOuts[k].Out]
	if !out.Static {
		return nil
	}
	rest := int64(out.Bytes)
	for _, p := range stack {
		rest -= p.n
	}
	if rest <= 0 {
		return stack
	}
	gap := piece{anything, 0, rest}
	if l.Rotation.ScanOuts[k].Reverse {
		return append([]piece{gap}, stack...)
	}
	return append(stack, gap)
}

// enter points the body's slots at what iteration t uses, as the runtime does.
func (r *replay) enter(in *Instr, next []held, t int) error {
	l := in.Loop
	r.iter[l.Level] = t % l.Rotation.Ring
	for _, s := range l.Rotate {
		r.rotate(s)
	}
	for i, c := range l.Carries {
		r.loc[c.Param], r.expect[c.Param] = next[i].loc, next[i].expect
	}
	for _, s := range l.Sticky {
		r.pickPlace(l, s)
	}
	if l.Iter >= 0 {
		if err := r.write(in.Node, l.Iter); err != nil {
			return err
		}
	}
	for k, s := range l.ScanIns {
		if err := r.scanIn(in, l.Rotation.ScanIns[k], in.In[len(l.Carries)+k], s, t); err != nil {
			return err
		}
	}
	for k, o := range l.ScanOuts {
		if o.Out < 0 || !l.Rotation.ScanOuts[k].Window {
			continue
		}
		r.loc[o.Made] = where{off: -1}
		if out := r.loc[o.Out]; r.p.Slots[o.Out].Static && out.arena {
			r.loc[o.Made] = arenaAt(out.off + int64(r.position(l.Rotation.ScanOuts[k].Reverse, o.Out, t)*r.p.Slots[o.Result].Bytes))
		}
	}
	return nil
}

// position is the slice that iteration t fills.
func (r *replay) position(reverse bool, out, t int) int {
	if reverse {
		return r.p.Slots[out].Shape[0] - 1 - t
	}
	return t
}

func (r *replay) rotate(slot int) {
	s := &r.p.Slots[slot]
	k := 0
	for d, lv := range s.Levels {
		i := r.iter[lv] % s.Radix[d]
		if p, ok := r.pick[slot]; ok && d == r.p.stickyDigit[slot] {
			i = p
		}
		k = k*s.Radix[d] + i
	}
	r.loc[slot] = arenaAt(s.Offsets[k])
}

// pickPlace picks the first place of a sticky slot that no parameter points to.
func (r *replay) pickPlace(l *Loop, slot int) {
	s := &r.p.Slots[slot]
	d := r.p.stickyDigit[slot]
	inner := 1
	for _, n := range s.Radix[d+1:] {
		inner *= n
	}
	for i := range s.Radix[d] {
		r.pick[slot] = i
		free := true
		for k, off := range s.Offsets {
			for _, c := range l.Carries {
				at := r.loc[c.Param]
				inside := at.arena && at.off >= off && at.off < off+int64(s.Bytes)
				free = free && (k/inner%s.Radix[d] != i || !inside)
			}
		}
		if free {
			break
		}
	}
	r.rotate(slot)
}

// scanIn gives a scan parameter its slice: a window, or a copy.
func (r *replay) scanIn(in *Instr, sc loops.ScanIn, of, param, t int) error {
	if sc.Axis != 0 {
		if err := r.read(in.Node, of); err != nil {
			return err
		}
		return r.write(in.Node, param)
	}
	r.loc[param], r.expect[param] = r.loc[of], nil
	if !r.loc[of].arena || !r.p.Slots[of].Static || !r.p.Slots[param].Static {
		return nil
	}
	if r.loc[of].span > 0 {
		r.anywhere(param, of)
		return nil
	}
	at := t
	if sc.Reverse {
		at = r.p.Slots[of].Shape[0] - 1 - t
	}
	off := int64(at * r.p.Slots[param].Bytes)
	r.loc[param].off += off
	r.expect[param] = window(r.expect[of], off, int64(r.p.Slots[param].Bytes))
	return nil
}

// push notes what iteration t adds to the stacked outputs, and writes the slices
// that are copied.
func (r *replay) push(in *Instr, stacks [][]piece, t, trips int) error {
	l := in.Loop
	for k, o := range l.ScanOuts {
		rot := l.Rotation.ScanOuts[k]
		if o.Out < 0 || !r.p.Slots[o.Out].Static {
			continue
		}
		if rot.Axis != 0 {
			if t == trips-1 { // joined after the last iteration
				if err := r.write(in.Node, o.Out); err != nil {
					return err
				}
				stacks[k] = r.expect[o.Out]
			}
			continue
		}
		at := r.position(rot.Reverse, o.Out, t)
		size := int64(r.p.Slots[o.Result].Bytes)
		slice := r.expectOf(o.Result, size)
		if !rot.Window {
			base := r.loc[o.Out].off + int64(at)*size
			pos := base
			for _, p := range slice {
				r.cells.put(pos, p)
				pos += p.n
			}
			if err := r.alone(in.Node, o.Out, base, size); err != nil {
				return err
			}
		}
		if rot.Reverse {
			stacks[k] = append(slices.Clone(slice), stacks[k]...)
		} else {
			stacks[k] = append(stacks[k], slice...)
		}
	}
	return nil
}

// expectOf is a slot's expected value; a value no plan can harm gets an identity
// the first time it is copied somewhere, and so does a window that may be anywhere
// each time.
func (r *replay) expectOf(slot int, size int64) []piece {
	if r.loc[slot].span > 0 {
		return r.value(size)
	}
	if r.expect[slot] == nil {
		r.expect[slot] = r.value(size)
	}
	return r.expect[slot]
}

// window cuts n bytes from a value at an offset.
func window(v []piece, off, n int64) []piece {
	var out []piece
	for _, p := range v {
		lo, hi := max(off, 0), min(off+n, p.n)
		if lo < hi {
			out = append(out, piece{p.id, p.at + lo, hi - lo})
		}
		off -= p.n
	}
	return out
}

// cells maps arena bytes to values: disjoint runs, ascending.
type cells []cell

type cell struct {
	lo, hi int64
	piece
}

// put writes a piece at an offset, cutting what lay there.
func (c *cells) put(off int64, p piece) {
	if p.n == 0 {
		return
	}
	hi := off + p.n
	i, _ := slices.BinarySearchFunc(*c, off, func(x cell, off int64) int {
		if x.hi <= off {
			return -1
		}
		return 1
	})
	j := i
	var repl []cell
	for j < len(*c) && (*c)[j].lo < hi {
		x := (*c)[j]
		if x.lo < off {
			repl = append(repl, cell{x.lo, off, piece{x.id, x.at, off - x.lo}})
		}
		j++
	}
	repl = append(repl, cell{off, hi, p})
	if j > i {
		if x := (*c)[j-1]; x.hi > hi {
			repl = append(repl, cell{hi, x.hi, piece{x.id, x.at + hi - x.lo, x.hi - hi}})
		}
	}
	*c = slices.Replace(*c, i, j, repl...)
}

// find reports whether the bytes at off hold exactly the piece; if not, which
// value lies at the first wrong byte (0 = none).
func (c cells) find(off int64, want piece) (got int64, ok bool) {
	hi := off + want.n
	i, _ := slices.BinarySearchFunc(c, off, func(x cell, off int64) int {
		if x.hi <= off {
			return -1
		}
		return 1
	})
	at := off
	for ; at < hi; i++ {
		if i == len(c) || c[i].lo > at {
			return 0, false
		}
		x := c[i]
		if x.id != want.id || x.at+(at-x.lo) != want.at+(at-off) {
			return x.id, false
		}
		at = x.hi
	}
	return 0, true
}
