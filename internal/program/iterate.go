package program

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Running Loop and Scan. Carried values move by pointer: before iteration t the headers of the body's values are
// pointed at the offsets of copy t, those of its parameters at what iteration t-1 computed for them:
//
//	x0 ─▶ x ─ body ─▶ x' ─▶ x ─ body ─▶ x' ─▶ result
//	      iteration 0       iteration 1

func (p *Program) newLoopState(l *Loop) loopState {
	st := loopState{next: make([]carried, len(l.Carries)), stacks: make([]stack, len(l.ScanOuts)), grown: make([]buffer, len(l.Carries))}
	st.tables, st.rest = p.offsetTables(l)
	for _, c := range l.Carries {
		st.flat = append(st.flat, p.flat(c))
	}
	return st
}

var trueByte = []byte{1}

// iterate runs a Loop or Scan.
func (s *Session) iterate(in *Instr) error {
	l := in.Loop
	st := &s.loops[l.state]
	limit, err := s.tripLimit(l)
	if err != nil {
		return err
	}
	for i, c := range l.Carries {
		st.next[i], st.grown[i] = carried{data: trueByte}, buffer{}
		if c.Init >= 0 {
			st.next[i] = carry(s.vals[c.Init])
		}
	}
	if err := s.openStacks(l, st, limit); err != nil {
		return err
	}
	t := int64(0)
	for ; t < limit; t++ {
		if l.Iter >= 0 {
			if len(st.next[0].data) != 1 {
				return fmt.Errorf("the condition is not one boolean")
			}
			if s.device != nil {
				if err := s.device.ReadBytes(st.next[0].data); err != nil {
					return err
				}
			}
			if st.next[0].data[0] == 0 {
				break
			}
			if l.Endless {
				return ops.AtNode("run", in.Node, ops.EndlessError{})
			}
		}
		if err := s.ended(); err != nil {
			return err
		}
		st.left = limit - t
		if err := s.iteration(l, st, in.Bodies[0], t, limit); err != nil {
			return err
		}
	}
	for i, c := range l.Carries {
		if c.Out < 0 {
			continue
		}
		if st.flat[i] >= 0 && t > 0 {
			st.next[i] = carry(s.vals[c.Result])
		}
		if err := s.pass(c.Out, st.next[i]); err != nil {
			return err
		}
	}
	return s.closeStacks(l, st, t)
}

// tripLimit is M for a Loop, the number of slices for a Scan.
func (s *Session) tripLimit(l *Loop) (int64, error) {
	if l.Iter >= 0 {
		if l.Trip < 0 {
			return math.MaxInt64, nil
		}
		m, ok := s.vals[l.Trip].(*ndarray.Array)
		if !ok || m.Len() != 1 {
			return 0, fmt.Errorf("the trip count is not one integer")
		}
		if err := s.readOne(l.Trip); err != nil {
			return 0, err
		}
		return m.Int(0), nil
	}
	limit := int64(-1)
	for k, sc := range l.ScanIns {
		a, ok := s.vals[sc.Of].(*ndarray.Array)
		if !ok || sc.Axis >= a.Rank() {
			return 0, fmt.Errorf("scan input %d has no axis %d", k, sc.Axis)
		}
		n := int64(a.Shape[sc.Axis])
		if limit >= 0 && n != limit {
			return 0, fmt.Errorf("scan inputs have %d and %d slices", limit, n)
		}
		limit = n
	}
	return limit, nil
}

// iteration runs the body once.
func (s *Session) iteration(l *Loop, st *loopState, body *Block, t, limit int64) error {
	if err := s.enter(l, st, t, limit); err != nil {
		return err
	}
	if err := s.run(body); err != nil {
		return err
	}
	s.saveCarried(l, st)
	return s.push(l, st, t, limit)
}

// enter points every header of the body at what iteration t uses.
func (s *Session) enter(l *Loop, st *loopState, t, limit int64) error {
	phase := int(t % int64(l.Ring))
	s.iter[l.Level] = phase
	for i := range st.tables {
		r := &st.tables[i]
		s.heads[r.slot].Data = s.window(r.offsets[phase], r.bytes)
	}
	for _, slot := range st.rest {
		s.rotate(slot)
	}
	if err := s.bindCarried(l, st, t == 0); err != nil {
		return err
	}
	for _, slot := range l.Sticky {
		s.pickOffset(l, slot)
	}
	if l.Iter >= 0 {
		ndarray.Slice[int64](&s.heads[l.Iter])[0] = t
		s.wroteOne(l.Iter)
	}
	for _, sc := range l.ScanIns {
		if err := s.slice(sc, int(position(sc.Reverse, t, limit))); err != nil {
			return err
		}
	}
	return s.placeSlices(l, st, t, limit)
}

// rotate points an arena slot at its offset for the current iterations.
func (s *Session) rotate(slot int) {
	sl, pick := &s.p.Slots[slot], s.pick[slot]
	k := 0
	for d, lv := range sl.Levels {
		i := s.iter[lv] % sl.Radix[d]
		if pick >= 0 && d == s.p.stickyDigit[slot] {
			i = pick
		}
		k = k*sl.Radix[d] + i
	}
	s.heads[slot].Data = s.window(sl.Offsets[k], sl.Bytes)
}

// pickOffset chooses the offset of a sticky slot for this iteration: the first at
// which no carried parameter of the loop lies.
func (s *Session) pickOffset(l *Loop, slot int) {
	sl := &s.p.Slots[slot]
	d := s.p.stickyDigit[slot]
	for i := range sl.Radix[d] {
		s.pick[slot] = i
		if s.isUnused(l, sl, d, i) {
			break
		}
	}
	s.rotate(slot)
}

// isUnused reports whether no parameter points into the slot at any of the offsets
// whose digit d is i, in the present iterations of the loops around.
func (s *Session) isUnused(l *Loop, sl *Slot, d, i int) bool {
	for _, off := range sl.offsetsOf(s.iter, d, i) {
		if sl.Bytes == 0 {
			continue
		}
		region := s.window(off, sl.Bytes)
		for _, c := range l.Carries {
			if beginsInside(s.heads[c.Param].Data, region) {
				return false
			}
		}
	}
	return true
}

// beginsInside reports whether data begins inside a region: a parameter can be a slice
// of what lies there.
func beginsInside(data, region []byte) bool {
	if len(data) == 0 || len(region) == 0 {
		return false
	}
	at, lo := uintptr(unsafe.Pointer(&data[0])), uintptr(unsafe.Pointer(&region[0]))
	return at >= lo && at < lo+uintptr(len(region))
}

// pass delivers a carried value; a static slot must get a value of its size.
func (s *Session) pass(slot int, c carried) error {
	if err := s.checkCarried(slot, c); err != nil {
		return err
	}
	s.deliver(slot, c)
	return nil
}

// checkCarried makes sure that a static slot gets a value of its size.
func (s *Session) checkCarried(slot int, c carried) error {
	sl := &s.p.Slots[slot]
	if sl.Static && len(c.data) < sl.Bytes {
		return fmt.Errorf("value %q must be %s, got %d bytes", sl.Value.Name, sl.Value.Type, len(c.data))
	}
	return nil
}

// slice gives a scan parameter slice at of its operand: a window when the axis is outermost,
// else a copy.
func (s *Session) slice(sc ScanIn, at int) error {
	of := s.vals[sc.Of].(*ndarray.Array)
	inner := ndarray.Product(of.Shape[sc.Axis+1:])
	size := of.DType.Size()
	sl := &s.p.Slots[sc.Param]
	shape := func() []int { return slices.Delete(slices.Clone(of.Shape), sc.Axis, sc.Axis+1) }
	if sc.Axis == 0 && of.Str == nil {
		n := inner * size
		data := of.Data[at*n : (at+1)*n : (at+1)*n]
		if !sl.Static {
			s.vals[sc.Param] = &ndarray.Array{DType: of.DType, Shape: shape(), Data: data}
			return nil
		}
		if n != sl.Bytes {
			return fmt.Errorf("slice of %s is not %s", of, sl.Value.Type)
		}
		s.heads[sc.Param].Data = data
		return nil
	}
	dst := &s.heads[sc.Param]
	if !sl.Static {
		fresh, err := ndarray.NewContext(s.ctx, s.p.memory, of.DType, shape()...)
		if err != nil {
			return err
		}
		dst, s.vals[sc.Param] = fresh, fresh
	}
	if err := s.readOne(sc.Of); err != nil {
		return err
	}
	outer, axis := ndarray.Product(of.Shape[:sc.Axis]), of.Shape[sc.Axis]
	if of.Str != nil {
		copySlice(dst.Str, of.Str, outer, axis, inner, at)
	} else {
		copySlice(dst.Data, of.Data, outer, axis, inner*size, at)
		s.wroteOne(sc.Param)
	}
	return nil
}

// copySlice copies index at of the middle one of three dimensions.
func copySlice[T any](dst, src []T, outer, axis, inner, at int) {
	for o := range outer {
		copy(dst[o*inner:(o+1)*inner], src[(o*axis+at)*inner:])
	}
}
