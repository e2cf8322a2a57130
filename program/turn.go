package program

import "github.com/berth-onnx/berth/ndarray"

// A loop's rotation is a table walk. What a body's slot points to in iteration t
// depends on t modulo the ring only, as long as no other loop turns it and its
// place is not picked by hand:
//
//	iteration   0    1    2    3        places of y: p q
//	phase       0    1    0    1        turn of y:   p q
//	y lies at   p    q    p    q
//
// Carried values whose size is known before the run move as one slice of bytes,
// without looking at headers. Everything else takes the general way: see rotate
// and deliver.

// turnLimit bounds the table of one loop: rings are short, but nothing says so.
const turnLimit = 1 << 12

// turn is an arena slot with a place for every phase of its loop.
type turn struct {
	slot, bytes int
	offs        []int64 // by phase
}

// turnsOf splits the rotating slots of a loop into those with a table and the
// others.
func (p *Program) turnsOf(l *Loop) (turns []turn, rest []int) {
	room := turnLimit
	for _, s := range l.Rotate {
		sl := &p.Slots[s]
		_, sticky := p.stickyDigit[s]
		if sticky || len(sl.Levels) != 1 || sl.Bytes == 0 || room < l.Rotation.Ring {
			rest = append(rest, s)
			continue
		}
		room -= l.Rotation.Ring
		t := turn{s, sl.Bytes, make([]int64, l.Rotation.Ring)}
		for i := range t.offs {
			t.offs[i] = sl.Offsets[i%sl.Radix[0]]
		}
		turns = append(turns, t)
	}
	return turns, rest
}

// flat is the size of a carried value that moves as bytes alone; -1 if it does not.
func (p *Program) flat(c Carry) int {
	param, result := &p.Slots[c.Param], &p.Slots[c.Result]
	if !param.Static || !result.Static || param.Bytes != result.Bytes || param.DType == ndarray.String {
		return -1
	}
	return param.Bytes
}

// handOver takes hold of what the body leaves to the next iteration.
func (s *Session) handOver(l *Loop, st *loopState) {
	for i := range l.Carries {
		if r := l.Carries[i].Result; st.flat[i] >= 0 {
			st.next[i].data = s.heads[r].Data
		} else {
			st.next[i] = carry(s.vals[r])
		}
	}
}

// takeOver points the parameters at what the iteration before left, or at the
// initial values.
func (s *Session) takeOver(l *Loop, st *loopState, first bool) error {
	for i := range l.Carries {
		param := l.Carries[i].Param
		if n := st.flat[i]; n >= 0 && !first {
			s.heads[param].Data = st.next[i].data[:n:n]
			continue
		}
		if err := s.checkCarry(param, st.next[i]); err != nil {
			return err
		}
		s.deliver(param, st.next[i])
	}
	return nil
}
