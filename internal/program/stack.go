package program

import (
	"fmt"
	"math"

	"github.com/berth-onnx/berth/internal/ops/control"
	"github.com/berth-onnx/berth/ndarray"
)

// Stacked outputs of Loop and Scan. Where the size of a slice is known, slices lie one behind the other in one
// piece of memory, and the body writes them there if it can; others are collected and joined at the end:
//
//	number of slices known when compiling   the output's arena offset
//	known when the loop starts              memory for all of them
//	else                                    memory that doubles: a slice is moved at most once on average

// stack is the memory of one stacked output while its loop runs.
type stack struct {
	data  []byte          // the slices in order
	slice int             // bytes of one slice, -1 when its shape is not known
	items []ndarray.Value // slices to be joined at the end
}

// reserved is the most bytes that are allocated in advance for a value that grows by a
// known amount, for as many iterations as may come. Beyond it memory doubles.
const reserved = 16 << 20

// room is the memory to begin with for limit pieces of size bytes.
func room(limit int64, size int) int {
	if size <= 0 || limit <= 0 || limit > int64(reserved/size) {
		return 0
	}
	return int(limit) * size
}

// openStacks prepares every stacked output before the first iteration.
func (s *Session) openStacks(l *Loop, st *loopState, limit int64) error {
	for k := range l.ScanOuts {
		o, sk := &l.ScanOuts[k], &st.stacks[k]
		sk.data, sk.items, sk.slice = nil, sk.items[:0], -1
		if o.Out < 0 {
			continue
		}
		if res := &s.p.Slots[o.Result]; res.Static {
			sk.slice = res.Bytes
		}
		if s.p.Slots[o.Out].Static {
			sk.data = s.heads[o.Out].Data
			continue
		}
		if sk.slice < 0 {
			continue
		}
		bytes := room(limit, sk.slice)
		if l.Iter < 0 { // a Scan: the limit is the number of iterations
			if limit > 0 && int64(sk.slice) > math.MaxInt/limit {
				return fmt.Errorf("scan output %d: %w", k, ndarray.ErrSize)
			}
			bytes = sk.slice * int(limit)
		}
		if err := sk.enlarge(bytes, s.p.memory); err != nil {
			return err
		}
	}
	return nil
}

// position is the index of the slice of iteration t among limit slices.
func position(reverse bool, t, limit int64) int64 {
	if reverse {
		return limit - 1 - t
	}
	return t
}

// placeSlices makes room for iteration t's slices and points the values that the body
// writes there at it.
func (s *Session) placeSlices(l *Loop, st *loopState, t, limit int64) error {
	for k := range l.ScanOuts {
		o, sk := &l.ScanOuts[k], &st.stacks[k]
		if o.Out < 0 || sk.slice < 0 {
			continue
		}
		at := position(o.Reverse, t, limit)
		if err := sk.grow(at, s.p.memory); err != nil {
			return fmt.Errorf("scan output %d: %w", k, err)
		}
		if o.Made >= 0 {
			s.heads[o.Made].Data = sk.data[at*int64(sk.slice) : (at+1)*int64(sk.slice) : (at+1)*int64(sk.slice)]
		}
	}
	return nil
}

// grow makes room for slice at, doubling.
func (sk *stack) grow(at int64, memory ndarray.Budget) error {
	need := (at + 1) * int64(sk.slice)
	switch {
	case need <= int64(len(sk.data)):
		return nil
	case need > math.MaxInt/4:
		return ndarray.ErrSize
	}
	return sk.enlarge(max(int(need), 2*len(sk.data), 4096), memory)
}

// enlarge moves the slices to memory of a larger size.
func (sk *stack) enlarge(size int, memory ndarray.Budget) error {
	more, err := newBytes("a scan output", size, memory)
	if err != nil {
		return err
	}
	copy(more, sk.data)
	sk.data = more
	return nil
}

// push stores the slices of iteration t that the body did not write in place.
func (s *Session) push(l *Loop, st *loopState, t, limit int64) error {
	for k := range l.ScanOuts {
		o, sk := &l.ScanOuts[k], &st.stacks[k]
		if o.Out < 0 || o.Made >= 0 {
			continue
		}
		a, ok := s.vals[o.Result].(*ndarray.Array)
		if !ok {
			return fmt.Errorf("scan output %d is no tensor", k)
		}
		if sk.slice < 0 || o.Axis != 0 {
			item, err := s.clone(a)
			if err != nil {
				return err
			}
			sk.items = append(sk.items, item)
			continue
		}
		at := position(o.Reverse, t, limit) * int64(sk.slice)
		if err := s.copyBytes(sk.data[at:at+int64(sk.slice)], a.Data); err != nil {
			return err
		}
	}
	return nil
}

// closeStacks delivers the stacked outputs after trips iterations.
func (s *Session) closeStacks(l *Loop, st *loopState, trips int64) error {
	for k := range l.ScanOuts {
		o, sk := &l.ScanOuts[k], &st.stacks[k]
		if o.Out < 0 {
			continue
		}
		out, res := &s.p.Slots[o.Out], &s.p.Slots[o.Result]
		switch {
		case sk.slice < 0 || o.Axis != 0:
			a, err := control.Stack(s.p.memory, sk.items, res.Value.Type, o.Axis, o.Reverse)
			if err != nil {
				return fmt.Errorf("scan output %d: %w", k, err)
			}
			if err := s.store(o.Out, a); err != nil {
				return err
			}
		case !out.Static:
			shape := append([]int{int(trips)}, res.Shape...)
			s.vals[o.Out] = &ndarray.Array{DType: res.DType, Shape: shape, Data: sk.data[:trips*int64(sk.slice)]}
		case int(trips) != out.Shape[o.Axis]:
			return fmt.Errorf("scan output %d has %d slices, planned %d", k, trips, out.Shape[o.Axis])
		}
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
	return s.copyBytes(s.heads[slot].Data, a.Data)
}
