package program

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// reserved is the most bytes that are taken in advance for a value that grows by a
// known amount, for as many iterations as may come. Beyond it memory doubles.
const reserved = 16 << 20

// room is the memory to begin with for limit pieces of size bytes.
func room(limit int64, size int) int {
	if size <= 0 || limit <= 0 || limit > int64(reserved/size) {
		return 0
	}
	return int(limit) * size
}

// openStacks prepares every stacked output before the first iteration: its
// arena place where the number of slices was known when compiling, else memory
// for as many slices as may come; where that is no number one would take in
// advance, memory that grows by doubling (a slice is then moved at most once on
// average).
func (s *Session) openStacks(l *Loop, st *loopState, limit int64) error {
	for k := range l.ScanOuts {
		o, sk := l.ScanOuts[k], &st.stacks[k]
		sk.items = sk.items[:0]
		if o.Out < 0 {
			continue
		}
		res := &s.p.Slots[o.Result]
		sk.slice = -1
		if res.Static {
			sk.slice = res.Bytes
		}
		switch {
		case s.p.Slots[o.Out].Static:
			sk.data = s.heads[o.Out].Data
		case sk.slice >= 0 && l.Iter < 0:
			if limit > 0 && int64(sk.slice) > math.MaxInt/limit {
				return fmt.Errorf("scan output %d: %w", k, ndarray.ErrSize)
			}
			bytes := sk.slice * int(limit)
			if err := ops.Room("a scan output", int64(bytes), s.p.maxMemory); err != nil {
				return err
			}
			sk.data = ndarray.AlignedBytes(bytes)
		case sk.slice >= 0:
			bytes := room(limit, sk.slice)
			if err := ops.Room("a scan output", int64(bytes), s.p.maxMemory); err != nil {
				return err
			}
			sk.data = ndarray.AlignedBytes(bytes)
		}
	}
	return nil
}

// position is where iteration t's slice goes in a stack of limit slices.
func position(reverse bool, t, limit int64) int64 {
	if reverse {
		return limit - 1 - t
	}
	return t
}

// placeSlices makes room for iteration t's slices and points the results that
// are written in place at it.
func (s *Session) placeSlices(l *Loop, st *loopState, t, limit int64) error {
	for k := range l.ScanOuts {
		o, sk, rot := l.ScanOuts[k], &st.stacks[k], &l.Rotation.ScanOuts[k]
		if o.Out < 0 || sk.slice < 0 {
			continue
		}
		at := position(rot.Reverse, t, limit)
		if err := sk.grow(at, s.p.maxMemory); err != nil {
			return fmt.Errorf("scan output %d: %w", k, err)
		}
		if rot.Window {
			s.heads[o.Made].Data = sk.data[at*int64(sk.slice) : (at+1)*int64(sk.slice) : (at+1)*int64(sk.slice)]
		}
	}
	return nil
}

// grow makes room for slice at, doubling.
func (sk *stack) grow(at, maxMemory int64) error {
	need := (at + 1) * int64(sk.slice)
	if need <= int64(len(sk.data)) {
		return nil
	}
	if need > math.MaxInt/4 {
		return ndarray.ErrSize
	}
	size := max(int(need), 2*len(sk.data), 4096)
	if err := ops.Room("a scan output", int64(size), maxMemory); err != nil {
		return err
	}
	more := ndarray.AlignedBytes(size)
	copy(more, sk.data)
	sk.data = more
	return nil
}

// push stores the slices of iteration t that were not written in place.
func (s *Session) push(l *Loop, st *loopState, t, limit int64) error {
	for k := range l.ScanOuts {
		o, sk, rot := l.ScanOuts[k], &st.stacks[k], &l.Rotation.ScanOuts[k]
		if o.Out < 0 || rot.Window {
			continue
		}
		a, ok := s.vals[o.Result].(*ndarray.Array)
		if !ok {
			return fmt.Errorf("scan output %d is no tensor", k)
		}
		if sk.slice < 0 || rot.Axis != 0 {
			if err := s.grown(); err != nil {
				return err
			}
			sk.items = append(sk.items, a.Clone())
			continue
		}
		at := position(rot.Reverse, t, limit) * int64(sk.slice)
		copy(sk.data[at:at+int64(sk.slice)], a.Data)
	}
	return nil
}

// closeStacks delivers the stacked outputs after trips iterations.
func (s *Session) closeStacks(in *Instr, st *loopState, trips int64) error {
	l := in.Loop
	for k := range l.ScanOuts {
		o, sk, rot := l.ScanOuts[k], &st.stacks[k], &l.Rotation.ScanOuts[k]
		if o.Out < 0 {
			continue
		}
		out := &s.p.Slots[o.Out]
		if sk.slice < 0 || rot.Axis != 0 {
			a, err := ops.Stack(sk.items, s.p.Slots[o.Result].Value.Type, rot.Axis, rot.Reverse)
			if err != nil {
				return ops.AtNode("run", in.Node, fmt.Errorf("scan output %d: %w", k, err))
			}
			if err := s.store(o.Out, a); err != nil {
				return ops.AtNode("run", in.Node, err)
			}
			continue
		}
		if out.Static {
			if int(trips) != out.Shape[rot.Axis] {
				return ops.AtNode("run", in.Node, fmt.Errorf("scan output %d has %d slices, planned %d", k, trips, out.Shape[rot.Axis]))
			}
			continue
		}
		shape := append([]int{int(trips)}, s.p.Slots[o.Result].Shape...)
		s.vals[o.Out] = &ndarray.Array{DType: s.p.Slots[o.Result].DType, Shape: shape, Data: sk.data[:trips*int64(sk.slice)]}
	}
	return nil
}

// store copies an array into a planned slot, or keeps it in a dynamic one.
func (s *Session) store(slot int, a *ndarray.Array) error {
	sl := &s.p.Slots[slot]
	if !sl.Static {
		s.vals[slot] = a
		return nil
	}
	if a.DType != sl.DType || len(a.Data) != sl.Bytes {
		return fmt.Errorf("value %q is %s, planned as %s", sl.Value.Name, a, sl.Value.Type)
	}
	copy(s.heads[slot].Data, a.Data)
	return nil
}
