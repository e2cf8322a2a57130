package program

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Recurrent states. A model that takes a state and gives back the next one,
//
//	output, stateN = f(input, state)
//
// can leave the state to the session, which has two places for it, outside the arena since
// it outlives runs:
//
//	run 1    place 0: state    place 1: stateN
//	run 2    place 0: stateN   place 1: state
//
// The class of the block that stateN lies in (what is folded with it included, inplace) is
// moved there as a whole: to the place that does not hold the state. Relative to each other
// its members stay where they were planned, and nothing else is at that place, so what the
// verifier found for the arena holds. No byte is copied. Results that have no such class (of
// loops, whose places turn; inputs and constants passed through; sizes known only while
// running) are copied at the end of the run, and counted; see [Session.Moved].
//
// A run that fails leaves the state as it was: the places change roles when it is over.

// State is an input that a session keeps, and the result that is its next value.
type State struct {
	Param, Result int           // positions among the program's parameters and results
	Initial       *ssa.Constant // nil: zeros
	// Overwrite is [CanOverwrite] for a state that a run overwrites where the graph allows it; nil for two places.
	Overwrite func(o *Positions, st State) bool

	overwritten bool
	shape       []int
	dtype       ndarray.DType
	bytes       int      // of the state
	at          int      // where in a place it lies
	size        int      // of a place
	moved       []member // slots that lie in the place
}

// StateError reports a state whose next value does not fit it.
type StateError struct {
	Name   string // of the input
	Reason string // what does not fit
}

// Error names the state.
func (e *StateError) Error() string { return fmt.Sprintf("state %q %s", e.Name, e.Reason) }

// wrongNext reports that the next value of a state is of another type.
func wrongNext(state *ssa.Value, got string) error {
	return &StateError{state.Name, fmt.Sprintf("is %s, but the result that is its next value is %s", state.Type, got)}
}

// member is a slot in a state's place.
type member struct{ slot, at int }

// Bytes is the memory that a session takes for the state: two places, or one that runs overwrite.
func (st *State) Bytes() int64 {
	if st.overwritten {
		return int64(st.size)
	}
	return 2 * int64(st.size)
}

// stateMemory is a session's memory of a state.
type stateMemory struct {
	data   []byte // both places
	now    int    // the place that holds the state
	active bool   // the present run has it from the session
	torn   bool   // a run or reset that failed has overwritten a part of it, or not set it
}

// keepsState reports whether a parameter is a state.
func (p *Program) keepsState(param int) bool {
	return slices.ContainsFunc(p.recurrent, func(st State) bool { return st.Param == param })
}

// States lists the states that sessions of the program keep.
func (p *Program) States() []State { return p.recurrent }

// markStates gives declared states their places.
func (c *compiler) markStates() error {
	for _, st := range c.opts.States {
		in, out := &c.p.Slots[c.p.Main.Params[st.Param]], &c.p.Slots[c.p.Main.Results[st.Result]]
		if !in.Static {
			return &StateError{in.Value.Name, fmt.Sprintf("is %s; a session can keep it only if all its dimensions are known: bind them", in.Value.Type)}
		}
		if _, fits := in.Value.Type.Refine(out.Value.Type); !fits {
			return wrongNext(in.Value, out.Value.Type.String())
		}
		st.shape, st.dtype, st.bytes = in.Shape, in.DType, in.Bytes
		st.size = int(inplace.Round(int64(in.Bytes)))
		if _, st.overwritten = c.over[out.Value]; out.Static && !st.overwritten {
			c.moveState(&st, out)
		}
		c.p.recurrent = append(c.p.recurrent, st)
	}
	return nil
}

// moveState moves the classes of the blocks that a result can lie in to the state's place,
// if all that is in them has one place and nothing else is taken out of them.
//
//	class of one branch    ├──── temporary ────┤
//	                            ├─ stateN ─┤
//	class of the other          ├─ stateN ─┤──── other ────┤
//	place                  ├────────────────────────────────┤
func (c *compiler) moveState(st *State, out *Slot) {
	var classes, starts []int // starts: of the result in each
	for _, v := range c.p.Timeline.BlocksOf(out.Value) {
		if c.classOf == nil || c.classOf[v] < 0 || c.p.Timeline.Vars[v].Kind != liveness.Block {
			return
		}
		if !slices.Contains(classes, c.classOf[v]) {
			classes, starts = append(classes, c.classOf[v]), append(starts, int(c.inClass[v]))
		}
	}
	if len(classes) == 0 {
		return
	}
	at := slices.Max(starts)
	size := at + st.size
	var moved []member
	for i := range c.p.Slots {
		sl := &c.p.Slots[i]
		if sl.Kind != SlotArena {
			continue
		}
		vars := c.p.Timeline.PlacesOf(sl.Value).Vars
		k := slices.Index(classes, c.classOf[vars[0]])
		for _, v := range vars {
			if slices.Index(classes, c.classOf[v]) != k || k >= 0 && (len(sl.Offsets) != 1 || c.inClass[v] != c.inClass[vars[0]]) {
				return
			}
		}
		if k < 0 {
			continue
		}
		m := member{i, at - starts[k] + int(c.inClass[vars[0]])}
		moved, size = append(moved, m), max(size, m.at+sl.Bytes)
	}
	for k, r := range c.p.Main.Results {
		if k != st.Result && slices.ContainsFunc(c.p.Timeline.BlocksOf(c.p.Slots[r].Value), func(v int) bool { return slices.Contains(classes, c.classOf[v]) }) {
			return
		}
	}
	for _, s := range starts {
		if (at-s)%inplace.Align != 0 {
			return
		}
	}
	st.at, st.size, st.moved = at, int(inplace.Round(int64(size))), moved
}

// place is one of the two places of state i.
func (s *Session) place(i, which int) []byte {
	n := s.p.recurrent[i].size
	return s.states[i].data[which*n : (which+1)*n : (which+1)*n]
}

// stateOf is what state i is now.
func (s *Session) stateOf(i int) []byte {
	st := &s.p.recurrent[i]
	return s.place(i, s.states[i].now)[st.at : st.at+st.bytes : st.at+st.bytes]
}

// openStates takes the memory of the states.
func (s *Session) openStates() error {
	for i := range s.p.recurrent {
		st := &s.p.recurrent[i]
		if err := s.p.memory.AskContext(s.ctx, "the state "+s.p.Slots[s.p.Main.Params[st.Param]].Value.Name, st.Bytes()); err != nil {
			return err
		}
		data, err := sysmem.LargeZeros(s.ctx, int(st.Bytes()))
		if err != nil {
			return err
		}
		s.states = append(s.states, stateMemory{data: data})
		if err := s.setInitial(i); err != nil {
			return err
		}
	}
	return nil
}

// resetStates gives the states their first values. An error leaves those torn that have none yet.
func (s *Session) resetStates() error {
	for i := range s.states {
		s.states[i].torn = true
	}
	for i := range s.p.recurrent {
		if s.p.recurrent[i].Initial == nil {
			clear(s.stateOf(i))
			s.states[i].torn = false
		} else if err := s.setInitial(i); err != nil {
			return err
		}
	}
	return nil
}

// keptInitial is the size up to which the array of a first value stays in memory. Larger ones are made again by the next session or reset.
const keptInitial = 1 << 20

// setInitial puts the first value, if it has one, into state i.
func (s *Session) setInitial(i int) error {
	first := s.p.recurrent[i].Initial
	if first == nil {
		return nil
	}
	a, err := first.ArrayContext(cmp.Or(s.ctx, context.Background()), s.p.memory)
	if err != nil {
		return err
	}
	if len(a.Data) > keptInitial {
		defer first.Release()
	}
	return s.setState(i, a)
}

// setState puts a copy of an array into state i.
func (s *Session) setState(i int, a *ndarray.Array) error {
	v := s.p.Slots[s.p.Main.Params[s.p.recurrent[i].Param]].Value
	if err := CheckInput(context.Background(), v.Name, v.Type, a); err != nil {
		return err
	}
	err := s.copyBytes(s.stateOf(i), a.Data)
	s.states[i].torn = err != nil
	return err
}

// bindStates gives the inputs that are left out what the session keeps, and results the
// places that do not hold it.
func (s *Session) bindStates(inputs []ndarray.Value) error {
	for i := range s.p.recurrent {
		st, m := &s.p.recurrent[i], &s.states[i]
		in := s.p.Main.Params[st.Param]
		if m.active = inputs[st.Param] == nil; !m.active && st.overwritten {
			s.states[i].torn = true
			if err := s.copyBytes(s.stateOf(i), s.heads[in].Data); err != nil {
				return err
			}
			s.states[i].torn, s.moved = false, s.moved+int64(st.bytes)
		}
		if m.active || st.overwritten {
			s.heads[in].Data = s.stateOf(i)
		}
		if st.overwritten {
			s.heads[s.p.Main.Results[st.Result]].Data = s.stateOf(i)
			continue
		}
		next := s.place(i, 1-m.now)
		for _, in := range st.moved {
			s.heads[in.slot].Data = next[in.at : in.at+s.p.Slots[in.slot].Bytes : in.at+s.p.Slots[in.slot].Bytes]
		}
		if s.Poison {
			for k := range next {
				next[k] = poison
			}
		}
	}
	return nil
}

// checkStates reports a next value of another type, before any state changes.
func (s *Session) checkStates() error {
	for i := range s.p.recurrent {
		st := &s.p.recurrent[i]
		if !s.states[i].active || st.overwritten {
			continue
		}
		a, ok := s.vals[s.p.Main.Results[st.Result]].(*ndarray.Array)
		if !ok || a == nil || a.DType != st.dtype || !slices.Equal(a.Shape, st.shape) || len(a.Data) < st.bytes {
			v := s.p.Slots[s.p.Main.Params[st.Param]].Value
			got := "nothing"
			if ok && a != nil {
				got = a.String()
			}
			return wrongNext(v, got)
		}
	}
	return nil
}

// placeStates copies results that are the next values of states, and not at their places, there. No copy overwrites what
// another one reads: nothing but the result itself and what is dead lies in a place that does not hold the state.
func (s *Session) placeStates() error {
	for i := range s.p.recurrent {
		m := &s.states[i]
		if !m.active || s.p.recurrent[i].overwritten {
			continue
		}
		next := s.place(i, 1-m.now)[s.p.recurrent[i].at:][:s.p.recurrent[i].bytes]
		made := s.vals[s.p.Main.Results[s.p.recurrent[i].Result]].(*ndarray.Array).Data
		if len(next) > 0 && &made[0] != &next[0] {
			if err := s.copyBytes(next, made[:len(next)]); err != nil {
				return err
			}
			s.moved += int64(len(next))
		}
	}
	return nil
}

// keepStates ends a run that succeeded: what is next is the state now.
func (s *Session) keepStates() {
	s.committed = false
	for i := range s.states {
		if s.states[i].active && !s.p.recurrent[i].overwritten {
			s.states[i].now = 1 - s.states[i].now
		}
	}
}
