package program

import (
	"cmp"
	"slices"
)

// Replaying a loop: the body once per iteration, each time with the parameters' slots
// where the runtime would point them, and with what SSA says must lie there.
//
//	iteration  reads x at       expects              writes y at
//	0          offset of init   init                 y's offset for phase 0
//	1          y's last offset  y of iteration 0     y's offset for phase 1
//	2          y's last offset  y of iteration 1     y's offset for phase 0, which must be free

// state is a carried value between two iterations.
type state struct {
	loc    location
	expect []piece
}

// iterate replays a loop: as many iterations as the replay asks for, within the known bounds.
func (r *replay) iterate(in *Instr) error {
	l := in.Loop
	for _, s := range in.In[:len(in.In)-in.Node.Captures] { // captures are read by the body, if at all
		if err := r.read(in.Node, s); err != nil {
			return err
		}
	}
	next := make([]state, len(l.Carries))
	for i, c := range l.Carries {
		if c.Init >= 0 {
			next[i] = state{r.loc[c.Init], r.expect[c.Init]}
		}
	}
	stacks := make([][]piece, len(l.ScanOuts))
	trips := r.tripsNow(l)
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
			next[i] = state{r.loc[c.Result], r.expect[c.Result]}
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
	if l.ScanOuts[k].Reverse {
		return append([]piece{gap}, stack...)
	}
	return append(stack, gap)
}

// enter points the body's slots at what iteration t uses, as the runtime does.
func (r *replay) enter(in *Instr, next []state, t int) error {
	l := in.Loop
	r.iter[l.Level] = t % l.Ring
	for _, s := range l.Rotate {
		r.rotate(s)
	}
	for i, c := range l.Carries {
		if err := r.carry(in, c.Param, next[i]); err != nil {
			return err
		}
	}
	for _, s := range l.Sticky {
		r.pickOffset(l, s)
	}
	if l.Iter >= 0 {
		if err := r.write(in.Node, l.Iter); err != nil {
			return err
		}
	}
	for _, sc := range l.ScanIns {
		if err := r.scanIn(in, sc, t); err != nil {
			return err
		}
	}
	for _, o := range l.ScanOuts {
		if o.Out < 0 || o.Made < 0 {
			continue
		}
		r.loc[o.Made] = location{off: -1}
		if out := r.loc[o.Out]; r.p.Slots[o.Out].Static && out.arena {
			r.loc[o.Made] = arenaAt(out.off + r.sliceAt(o.Out, o.Result, o.Reverse, t))
		}
	}
	return nil
}

// carry gives a parameter its value: a pointer to it, or, in a compact loop, a copy.
func (r *replay) carry(in *Instr, param int, v state) error {
	slot := r.loc[param]
	r.loc[param], r.expect[param] = v.loc, v.expect
	if !in.Loop.Compact {
		return nil
	}
	if err := r.read(in.Node, param); err != nil {
		return err
	}
	if r.p.Slots[param].Kind != SlotArena {
		r.loc[param] = location{}
		return nil
	}
	size := int64(r.p.Slots[param].Bytes)
	value := r.expectOf(param, size)
	r.loc[param], r.expect[param] = slot, value
	at := slot.off
	for _, p := range value {
		r.cells.put(at, p)
		at += p.n
	}
	return r.ordered(in.Node, param, slot.off, size)
}

// sliceAt is the offset of iteration t's slice in a stack of slices along axis 0.
func (r *replay) sliceAt(stack, slice int, reverse bool, t int) int64 {
	if reverse {
		t = r.p.Slots[stack].Shape[0] - 1 - t
	}
	return int64(t * r.p.Slots[slice].Bytes)
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

// pickOffset picks the first offset of a sticky slot that no parameter points to.
func (r *replay) pickOffset(l *Loop, slot int) {
	s := &r.p.Slots[slot]
	d := r.p.stickyDigit[slot]
	for i := range s.Radix[d] {
		r.pick[slot] = i
		free := true
		for _, off := range s.offsetsOf(r.iter, d, i) {
			for _, c := range l.Carries {
				at := r.loc[c.Param]
				inside := at.arena && at.off >= off && at.off < off+int64(s.Bytes)
				free = free && !inside
			}
		}
		if free {
			break
		}
	}
	r.rotate(slot)
}

// scanIn gives a scan parameter its slice: a window, or a copy.
func (r *replay) scanIn(in *Instr, sc ScanIn, t int) error {
	of, param := sc.Of, sc.Param
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
	off := r.sliceAt(of, param, sc.Reverse, t)
	r.loc[param].off += off
	r.expect[param] = window(r.expect[of], off, int64(r.p.Slots[param].Bytes))
	return nil
}

// push notes what iteration t adds to the stacked outputs, and writes the slices
// that are copied.
func (r *replay) push(in *Instr, stacks [][]piece, t, trips int) error {
	for k, o := range in.Loop.ScanOuts {
		if o.Out < 0 || !r.p.Slots[o.Out].Static {
			continue
		}
		if o.Axis != 0 {
			if t == trips-1 { // joined after the last iteration
				if err := r.write(in.Node, o.Out); err != nil {
					return err
				}
				stacks[k] = r.expect[o.Out]
			}
			continue
		}
		size := int64(r.p.Slots[o.Result].Bytes)
		slice := r.expectOf(o.Result, size)
		if o.Made < 0 {
			base := r.loc[o.Out].off + r.sliceAt(o.Out, o.Result, o.Reverse, t)
			r.put(base, slice)
			if err := r.ordered(in.Node, o.Out, base, size); err != nil {
				return err
			}
		}
		if o.Reverse {
			stacks[k] = append(slices.Clone(slice), stacks[k]...)
		} else {
			stacks[k] = append(stacks[k], slice...)
		}
	}
	return nil
}

// expectOf is a slot's expected value. A value outside the arena, which no plan can overwrite, gets
// an identity the first time it is copied; a window that may be anywhere gets one each time.
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

// first is the index of the first run that ends after an offset.
func (c cells) first(off int64) int {
	i, _ := slices.BinarySearchFunc(c, off, func(x cell, off int64) int { return cmp.Compare(x.hi, off+1) })
	return i
}

// put writes a piece at an offset, cutting what lay there.
func (c *cells) put(off int64, p piece) {
	if p.n == 0 {
		return
	}
	hi := off + p.n
	i := c.first(off)
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
	*c = replaced(*c, i, j, repl...)
}

// replaced is a list, which it may change, with its elements i to j replaced by others. slices.Replace is ten
// times as long for each type.
func replaced[T any](list []T, i, j int, by ...T) []T {
	tail := list[j:]
	if more := len(by) - (j - i); more > 0 {
		list = append(list, by[:more]...)
	} else {
		list = list[:len(list)+more]
	}
	copy(list[i+len(by):], tail)
	copy(list[i:], by)
	return list
}

// find reports whether the bytes at off hold exactly the piece; if not, which
// value lies at the first wrong byte (0 = none).
func (c cells) find(off int64, want piece) (got int64, ok bool) {
	hi := off + want.n
	at := off
	for i := c.first(off); at < hi; i++ {
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
