package program

import (
	"slices"

	"github.com/berth-onnx/berth/alias"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Values that grow. A loop that appends to what it carries,
//
//	cache <= Concat(cache, row)
//
// or a model that is given its cache and gives it back longer, would copy all of
// the cache each time. Instead the cache lies in a buffer with room behind it, and
// only the new rows are written:
//
//	trip 1   ■■■■□□□□□□□□        the old cache is the first part of the new one,
//	trip 2   ■■■■■■□□□□□□        so it stays readable for whoever still reads it
//	trip 3   ■■■■■■■■□□□□
//	         └ used ┘
//
// Whoever appends to anything but the whole used part (a branch gave up the last
// rows, say) gets a buffer of its own, so that nothing another value shows is ever
// written again. The room is taken once, for as many rows as may still come, where
// the number of iterations is bounded; else it doubles.

// grow says that an instruction appends to a value that a loop carries.
type grow struct {
	state, carry int // the loop's state, and which carried value is appended to
}

// buffer is the memory of a growing value.
type buffer struct {
	data []byte
	used int
}

// holds reports whether an array is the used part of the buffer.
func (b *buffer) holds(a []byte) bool {
	return b.used > 0 && len(a) == b.used && &a[0] == &b.data[0]
}

// findGrowth marks the concatenations of a loop's body whose first operand is a
// carried parameter and whose result is its next value.
func findGrowth(l *Loop, body *Block) {
	next := map[*ssa.Node]int{}
	for i, c := range l.Rotation.Carries {
		r := alias.Identical(c.Result)
		if r.Def == nil || r.Def.Op != "Concat" || r.Def.Domain != "" || r.Type.IsStatic() || alias.Identical(r.Def.In[0]) != c.Param {
			continue
		}
		next[r.Def] = i
	}
	body.each(func(in *Instr) {
		if i, ok := next[in.Node]; ok && in.Dynamic {
			in.grow = &grow{state: l.state, carry: i}
		}
	})
}

// appendTo runs a concatenation that grows a value; false if it is none that can be
// run so.
func (s *Session) appendTo(in *Instr) (done bool, err error) {
	old, more, ok := s.pieces(in)
	if !ok {
		return false, nil
	}
	n := 0
	for _, a := range more {
		n += len(a.Data)
	}
	st := &s.loops[in.grow.state]
	b := &st.grown[in.grow.carry]
	if !b.holds(old.Data) || b.used+n > len(b.data) {
		want := len(old.Data) + max(room(st.left, n), n)
		if b.used > 0 || want == len(old.Data)+n { // not the first time, or nobody knows how much more
			want = max(want, 2*len(old.Data))
		}
		if err := ops.Room("a growing value", int64(want), s.p.maxMemory); err != nil {
			return false, err
		}
		*b = buffer{ndarray.AlignedBytes(want), len(old.Data)}
		s.moved += int64(copy(b.data, old.Data))
	}
	at := b.used
	for _, a := range more {
		at += copy(b.data[at:], a.Data)
	}
	b.used = at
	shape := slices.Clone(old.Shape)
	axis := concatAxis(in.Node, len(shape))
	for _, a := range more {
		shape[axis] += a.Shape[axis]
	}
	s.vals[in.Out[0]] = &ndarray.Array{DType: old.DType, Shape: shape, Data: b.data[:at:at]}
	return true, nil
}

// pieces returns the operands of a concatenation whose bytes come one behind the
// other in the result.
func (s *Session) pieces(in *Instr) (old *ndarray.Array, more []*ndarray.Array, ok bool) {
	for i, slot := range in.In {
		if slot < 0 {
			return nil, nil, false
		}
		a, isArray := s.vals[slot].(*ndarray.Array)
		if !isArray || a == nil || a.Str != nil || a.DType == ndarray.String {
			return nil, nil, false
		}
		if i == 0 {
			old = a
		} else {
			more = append(more, a)
		}
	}
	axis := concatAxis(in.Node, old.Rank())
	if axis < 0 {
		return nil, nil, false
	}
	for _, d := range old.Shape[:axis] {
		if d != 1 {
			return nil, nil, false
		}
	}
	for _, a := range more {
		if a.DType != old.DType || len(a.Shape) != len(old.Shape) {
			return nil, nil, false
		}
		for k := range a.Shape {
			if k != axis && a.Shape[k] != old.Shape[k] {
				return nil, nil, false
			}
		}
	}
	return old, more, true
}

// concatAxis is the axis of a concatenation of tensors of some rank, -1 if it has
// none.
func concatAxis(n *ssa.Node, rank int) int {
	axis, err := ops.NormAxis(ops.Int(n, "axis"), rank)
	if err != nil {
		return -1
	}
	return axis
}

// Moved is how many bytes of growing values the last run copied: in loops to make
// room for more, the first time a value is appended to and when nobody could say in
// advance how large it gets; of caches (see [Cache]) for readers that want them in
// one piece.
func (s *Session) Moved() int64 { return s.moved }
