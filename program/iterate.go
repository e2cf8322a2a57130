package program

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// stack is the memory of one stacked output while its loop runs.
type stack struct {
	data  []byte          // the stack's bytes: its arena place, or grown as needed
	slice int             // bytes of one slice, when its shape is static
	items []ndarray.Value // slices kept apart, when their shape is not known before the run
}

func (p *Program) newLoopState(l *Loop) loopState {
	st := loopState{next: make([]carried, len(l.Carries)), stacks: make([]stack, len(l.ScanOuts)), grown: make([]buffer, len(l.Carries))}
	st.turns, st.rest = p.turnsOf(l)
	for _, c := range l.Carries {
		st.flat = append(st.flat, p.flat(c))
	}
	return st
}

// iterate runs a Loop or Scan. Carried values move by pointer: before iteration
// t the body's headers are pointed at the places of copy t, parameters at where
// the iteration before left their next values.
func (s *Session) iterate(in *Instr) error {
	l := in.Loop
	st := &s.loops[l.state]
	limit, err := s.tripLimit(in)
	if err != nil {
		return ops.AtNode("run", in.Node, err)
	}
	body := in.Bodies[0]
	for i, c := range l.Carries {
		st.next[i] = s.initial(c)
		st.grown[i] = buffer{}
	}
	if err := s.openStacks(l, st, limit); err != nil {
		return ops.AtNode("run", in.Node, err)
	}
	isLoop := l.Iter >= 0
	t := int64(0)
	for ; t < limit; t++ {
		if isLoop {
			cond := st.next[0]
			if len(cond.data) != 1 {
				return ops.AtNode("run", in.Node, fmt.Errorf("the condition is not one boolean"))
			}
			if cond.data[0] == 0 {
				break
			}
		}
		select {
		case <-s.done:
			return s.ctx.Err()
		default:
		}
		st.left = limit - t
		if err := s.enter(in, st, t, limit); err != nil {
			return ops.AtNode("run", in.Node, err)
		}
		if err := s.run(body); err != nil {
			return ops.AtNode("run", in.Node, err)
		}
		s.handOver(l, st)
		if err := s.push(l, st, t, limit); err != nil {
			return ops.AtNode("run", in.Node, err)
		}
	}
	for i, c := range l.Carries {
		if st.flat[i] >= 0 && t > 0 {
			st.next[i] = carry(s.vals[c.Result])
		}
		if c.Out >= 0 {
			if err := s.checkCarry(c.Out, st.next[i]); err != nil {
				return ops.AtNode("run", in.Node, err)
			}
			s.deliver(c.Out, st.next[i])
		}
	}
	return s.closeStacks(in, st, t)
}

var trueByte = []byte{1}

func (s *Session) initial(c Carry) carried {
	if c.Init < 0 {
		return carried{data: trueByte}
	}
	return carry(s.vals[c.Init])
}

// tripLimit is M for a Loop, the number of slices for a Scan.
func (s *Session) tripLimit(in *Instr) (int64, error) {
	l := in.Loop
	if l.Iter >= 0 {
		if l.Trip < 0 {
			return math.MaxInt64, nil
		}
		m, ok := s.vals[l.Trip].(*ndarray.Array)
		if !ok || m.Len() != 1 {
			return 0, fmt.Errorf("the trip count is not one integer")
		}
		return m.Int(0), nil
	}
	limit := int64(-1)
	for k, sc := range l.Rotation.ScanIns {
		a, ok := s.vals[in.In[len(l.Carries)+k]].(*ndarray.Array)
		if !ok || sc.Axis >= a.Rank() {
			return 0, fmt.Errorf("scan input %d has no axis %d", k, sc.Axis)
		}
		if n := int64(a.Shape[sc.Axis]); limit >= 0 && n != limit {
			return 0, fmt.Errorf("scan inputs have %d and %d slices", limit, n)
		} else {
			limit = n
		}
	}
	return limit, nil
}

// enter points every header of the body at what iteration t uses.
func (s *Session) enter(in *Instr, st *loopState, t, limit int64) error {
	l := in.Loop
	phase := int(t % int64(l.Rotation.Ring))
	s.iter[l.Level] = phase
	for i := range st.turns {
		r := &st.turns[i]
		s.heads[r.slot].Data = s.window(r.offs[phase], r.bytes)
	}
	for _, slot := range st.rest {
		s.rotate(slot)
	}
	if err := s.takeOver(l, st, t == 0); err != nil {
		return err
	}
	for _, slot := range l.Sticky {
		s.pickPlace(l, slot)
	}
	if l.Iter >= 0 {
		ndarray.Slice[int64](&s.heads[l.Iter])[0] = t
	}
	for k, slot := range l.ScanIns {
		sc := l.Rotation.ScanIns[k]
		at := t
		if sc.Reverse {
			at = limit - 1 - t
		}
		if err := s.slice(slot, s.vals[in.In[len(l.Carries)+k]].(*ndarray.Array), sc.Axis, int(at)); err != nil {
			return err
		}
	}
	return s.placeSlices(l, st, t, limit)
}

// rotate points an arena slot at its place for the current iterations.
func (s *Session) rotate(slot int) {
	sl := &s.p.Slots[slot]
	k := 0
	for d, lv := range sl.Levels {
		i := s.iter[lv] % sl.Radix[d]
		if d == s.pickDigit(slot, sl) {
			i = s.pick[slot]
		}
		k = k*sl.Radix[d] + i
	}
	s.heads[slot].Data = s.window(sl.Offsets[k], sl.Bytes)
}

// pickDigit is the digit of a slot's place that was picked, -1 if none.
func (s *Session) pickDigit(slot int, sl *Slot) int {
	if s.pick[slot] < 0 {
		return -1
	}
	return s.p.stickyDigit[slot]
}

// pickPlace chooses the place of a sticky slot for this iteration: the first at
// which no carried parameter of the loop lies.
func (s *Session) pickPlace(l *Loop, slot int) {
	sl := &s.p.Slots[slot]
	d := s.p.stickyDigit[slot]
	for i := range sl.Radix[d] {
		s.pick[slot] = i
		if s.placeFree(l, sl, d, i) {
			break
		}
	}
	s.rotate(slot)
}

// placeFree reports whether no parameter points into any place of the slot whose
// digit d is i.
func (s *Session) placeFree(l *Loop, sl *Slot, d, i int) bool {
	inner := 1
	for _, r := range sl.Radix[d+1:] {
		inner *= r
	}
	for k, off := range sl.Offsets {
		if k/inner%sl.Radix[d] != i || sl.Bytes == 0 {
			continue
		}
		place := s.window(off, sl.Bytes)
		for _, c := range l.Carries {
			if within(s.heads[c.Param].Data, place) {
				return false
			}
		}
	}
	return true
}

// within reports whether data begins inside a place: a parameter can be a slice
// of what lies there.
func within(data, place []byte) bool {
	if len(data) == 0 || len(place) == 0 {
		return false
	}
	at, lo := uintptr(unsafe.Pointer(&data[0])), uintptr(unsafe.Pointer(&place[0]))
	return at >= lo && at < lo+uintptr(len(place))
}

// checkCarry makes sure that a static slot gets a value of its size.
func (s *Session) checkCarry(slot int, c carried) error {
	sl := &s.p.Slots[slot]
	if sl.Static && len(c.data) < sl.Bytes {
		return fmt.Errorf("value %q must be %s, got %d bytes", sl.Value.Name, sl.Value.Type, len(c.data))
	}
	return nil
}

// slice gives a scan parameter its slice: a window when the axis is outermost, a
// copy otherwise.
func (s *Session) slice(slot int, of *ndarray.Array, axis, at int) error {
	outer, inner := 1, of.DType.Size()
	for k, d := range of.Shape {
		if k < axis {
			outer *= d
		} else if k > axis {
			inner *= d
		}
	}
	sl := &s.p.Slots[slot]
	if axis == 0 && of.Str == nil {
		data := of.Data[at*inner : (at+1)*inner : (at+1)*inner]
		if sl.Static {
			if len(data) != sl.Bytes {
				return fmt.Errorf("slice of %s is not %s", of, sl.Value.Type)
			}
			s.heads[slot].Data = data
			return nil
		}
		s.vals[slot] = &ndarray.Array{DType: of.DType, Shape: append([]int(nil), of.Shape[1:]...), Data: data}
		return nil
	}
	dst := &s.heads[slot]
	if !sl.Static {
		shape := append(append([]int(nil), of.Shape[:axis]...), of.Shape[axis+1:]...)
		fresh, err := ndarray.New(of.DType, shape...)
		if err != nil {
			return err
		}
		dst, s.vals[slot] = fresh, fresh
	}
	if of.Str != nil {
		w := inner / of.DType.Size()
		for o := range outer {
			copy(dst.Str[o*w:(o+1)*w], of.Str[(o*of.Shape[axis]+at)*w:])
		}
		return nil
	}
	for o := range outer {
		copy(dst.Data[o*inner:(o+1)*inner], of.Data[(o*of.Shape[axis]+at)*inner:])
	}
	return nil
}
