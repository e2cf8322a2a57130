package program

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
)

// Rotating slots by table. Where the header of a body's slot points in iteration t
// depends on t modulo the ring only, as long as no other loop rotates the slot and its
// offset is not picked while running (a sticky slot):
//
//	iteration          0    1    2    3
//	phase              0    1    0    1
//	offset of y        p    q    p    q        table of y: p q
//
// Carried values whose size is known before the run move as one slice of bytes,
// without a look at headers. All others take the general path: rotate and deliver.

// tableLimit bounds the entries of all tables of one loop: rings are short, but nothing guarantees it.
const tableLimit = 1 << 12

// offsetTable is an arena slot and its offset in every phase of its loop.
type offsetTable struct {
	slot, bytes int
	offsets     []int64 // by phase
}

// offsetTables splits the rotating slots of a loop into those with a table and the others.
func (p *Program) offsetTables(l *Loop) (tables []offsetTable, rest []int) {
	room := tableLimit
	for _, s := range l.Rotate {
		sl := &p.Slots[s]
		_, sticky := p.stickyDigit[s]
		if sticky || len(sl.Levels) != 1 || sl.Bytes == 0 || room < l.Ring {
			rest = append(rest, s)
			continue
		}
		room -= l.Ring
		t := offsetTable{s, sl.Bytes, make([]int64, l.Ring)}
		for i := range t.offsets {
			t.offsets[i] = sl.Offsets[i%sl.Radix[0]]
		}
		tables = append(tables, t)
	}
	return tables, rest
}

// flat is the size of a carried value that moves as bytes alone; -1 if it does not.
func (p *Program) flat(c Carry) int {
	param, result := &p.Slots[c.Param], &p.Slots[c.Result]
	if !param.Static || !result.Static || param.Bytes != result.Bytes || param.DType == ndarray.String {
		return -1
	}
	return param.Bytes
}

// saveCarried notes the values that the body has computed for the next iteration.
func (s *Session) saveCarried(l *Loop, st *loopState) {
	for i := range l.Carries {
		if r := l.Carries[i].Result; st.flat[i] >= 0 {
			st.next[i].data = s.heads[r].Data
		} else {
			st.next[i] = carry(s.vals[r])
		}
	}
}

// bindCarried points the parameters at the results of the iteration before, or at the initial values.
func (s *Session) bindCarried(l *Loop, st *loopState, first bool) error {
	for i := range l.Carries {
		param := l.Carries[i].Param
		if l.Compact {
			if err := s.copyCarry(param, st.next[i]); err != nil {
				return err
			}
			continue
		}
		if n := st.flat[i]; n >= 0 && !first {
			s.heads[param].Data = st.next[i].data[:n:n]
		} else if err := s.pass(param, st.next[i]); err != nil {
			return err
		}
	}
	return nil
}

// copyCarry copies a value to the slot of a compact loop's parameter, or, if its size
// was not planned, out of the arena.
func (s *Session) copyCarry(param int, v carried) error {
	if s.p.Slots[param].Kind == SlotArena {
		if err := s.checkCarried(param, v); err != nil {
			return err
		}
		return s.copyBytes(s.heads[param].Data, v.data)
	}
	if beginsInside(v.data, s.arena) {
		v.data = slices.Clone(v.data)
	}
	return s.pass(param, v)
}
