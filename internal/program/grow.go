package program

import (
	"context"
	"slices"

	"github.com/berth-onnx/berth/alias"
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Values that grow. A loop that appends to a carried value,
//
//	cache <= Concat(cache, row)
//
// would copy all of the cache in each iteration. Instead the cache lies in a buffer
// with room behind it, and only the new rows are written:
//
//	iteration 1   ■■■■□□□□□□□□        the old cache is the first part of the new one
//	iteration 2   ■■■■■■□□□□□□        and stays readable
//	iteration 3   ■■■■■■■■□□□□
//	              └ used ┘
//
// Appending to anything but the whole used part (a branch dropped the last rows, say)
// takes a new buffer, so that bytes another value may alias are never written again.
// Where the number of iterations is bounded, the buffer has room for all rows that may
// still come; else it doubles.

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
func findGrowth(ctx context.Context, l *Loop, carries []alias.Carry, body *Block) {
	next := map[*ssa.Node]int{}
	for i, c := range carries {
		r := alias.Identical(c.Result)
		if r.Def == nil || r.Def.Op != "Concat" || r.Def.Domain != "" || r.Type.IsStatic() || alias.Identical(r.Def.In[0]) != c.Param {
			continue
		}
		next[r.Def] = i
	}
	body.each(ctx, func(in *Instr) {
		if i, ok := next[in.Node]; ok && in.Dynamic {
			in.grow = &grow{state: l.state, carry: i}
		}
	})
}

// appendTo runs a concatenation in a growing buffer; false if its operands do not allow that.
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
		if b.used > 0 || want == len(old.Data)+n { // not the first time, or the number of iterations is not known
			want = max(want, 2*len(old.Data))
		}
		if err := s.p.memory.Ask("a growing value", int64(want)); err != nil {
			return false, err
		}
		*b = buffer{sysmem.Uncleared(want), len(old.Data)}
		if err := sysmem.Copy(s.ctx, b.data, old.Data); err != nil {
			return false, err
		}
		s.moved += int64(len(old.Data))
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

// pieces returns the operands of a concatenation whose bytes are contiguous in the result.
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
	if axis < 0 || slices.ContainsFunc(old.Shape[:axis], func(d int) bool { return d != 1 }) {
		return nil, nil, false
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

// Moved is how many bytes of growing values the last run copied: in loops into new
// buffers, the first time a value is appended to and when its final size was not known
// in advance; of caches (see [Cache]) for readers that need them contiguous.
func (s *Session) Moved() int64 { return s.moved }
