package program

import (
	"slices"
	"unsafe"

	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
)

// What a session gives away and takes. Results lie in the session's memory until its next
// run, and a caller may hand them back as inputs of that run:
//
//	        ┌──────────── session ───────────────┐
//	inputs ─┼─▶ in memory of the session?        │
//	        │     a result of the last run: copy │──▶ results: in the arena, or copied where
//	        │     anything else: refused         │    they are an input, a constant, or the
//	        └────────────────────────────────────┘    bytes of another result
//
// So a run never overwrites what it still reads, constants (which lie in mapped files) are
// never given away, and whoever writes to a result changes nothing else. Places for copies
// are taken once.

// owned is what a session has of its own beside the arena to give and take values.
type owned struct {
	valid bool            // the results of the last run are what it left
	heads []ndarray.Array // by result: the header of a static one
	given [][]byte        // by result: memory for a copy
	taken [][]byte        // by parameter: memory for a copy
	kept  bool            // some of given or taken is there
	apart []bool          // by result: a place of the arena that no other result of known place has bytes of
	plain bool            // all are
}

func newOwned(p *Program) owned {
	o := owned{heads: make([]ndarray.Array, len(p.Main.Results)), given: make([][]byte, len(p.Main.Results)), taken: make([][]byte, len(p.Main.Params))}
	for i, r := range p.Main.Results {
		o.heads[i].Shape = slices.Clone(p.Slots[r].Shape)
	}
	o.apart = p.apartResults()
	o.plain = !slices.Contains(o.apart, false)
	return o
}

// overlap reports whether two pieces of memory have bytes in common.
func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	x, y := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
}

// holds reports whether part lies in whole.
func holds(whole, part []byte) bool {
	if len(whole) < len(part) || len(part) == 0 {
		return false
	}
	x, y := uintptr(unsafe.Pointer(&whole[0])), uintptr(unsafe.Pointer(&part[0]))
	return x <= y && y+uintptr(len(part)) <= x+uintptr(len(whole))
}

// intrudes reports whether bytes lie in memory of the session. stale says that they are no
// part of a result that is still what a run left.
func (s *Session) intrudes(b []byte) (inside, stale bool) {
	holder := s
	switch {
	case overlap(b, s.arena):
		if s.from != nil {
			holder = s.from.last
		}
	case !s.holdsPart(b):
		return false, false
	}
	if holder == nil || !holder.own.valid {
		return true, true
	}
	for i := range holder.own.heads {
		if holds(holder.own.heads[i].Data, b) {
			return true, false
		}
	}
	return true, true
}

// holdsPart reports whether bytes lie in memory that the session has beside the arena.
func (s *Session) holdsPart(b []byte) bool {
	if s.own.kept && (overlapsAny(s.own.given, b) || overlapsAny(s.own.taken, b)) {
		return true
	}
	for i := range s.states {
		if overlap(s.states[i].data, b) {
			return true
		}
	}
	for i := range s.kept {
		if overlap(s.kept[i].data, b) {
			return true
		}
	}
	return false
}

func overlapsAny(all [][]byte, b []byte) bool {
	return slices.ContainsFunc(all, func(m []byte) bool { return overlap(m, b) })
}

// errStale is what is said of an input in overwritten memory.
func errStale(sl *Slot) error {
	return &InputError{sl.Value.Name, "memory of the caller's or a result of the last run", "memory of the session that holds no result any more; copy results that are needed for longer"}
}

// staticInput returns the bytes of parameter i, copied where they lie in the session's memory.
func (s *Session) staticInput(i int, sl *Slot, a *ndarray.Array) ([]byte, error) {
	data := a.Data[:sl.Bytes:sl.Bytes]
	inside, stale := s.intrudes(data)
	switch {
	case stale:
		return nil, errStale(sl)
	case inside:
		return s.keep(&s.own.taken[i], data)
	case !a.Aligned():
		own, err := s.clone(a)
		if err != nil {
			return nil, err
		}
		return own.Data, nil
	}
	return data, nil
}

// keep copies bytes to a place that is taken once and then kept.
func (s *Session) keep(place *[]byte, data []byte) ([]byte, error) {
	if cap(*place) < len(data) {
		b, err := newBytes("a copy of an input or result", len(data), s.p.memory)
		if err != nil {
			return nil, err
		}
		*place, s.own.kept = b, true
	}
	*place = append((*place)[:0], data...)
	return *place, nil
}

// input returns the value of a parameter of unknown shape, with copies of what lies in the
// session's memory or is not aligned.
func (s *Session) input(sl *Slot, v ndarray.Value) (ndarray.Value, error) {
	return s.replaced(v, func(a *ndarray.Array) (*ndarray.Array, error) {
		inside, stale := s.intrudes(a.Data)
		switch {
		case stale:
			return nil, errStale(sl)
		case inside || !a.Aligned():
			return s.clone(a)
		}
		return a, nil
	})
}

// replaced returns a value with others in place of its arrays: the value itself where they all stay.
func (s *Session) replaced(v ndarray.Value, by func(*ndarray.Array) (*ndarray.Array, error)) (ndarray.Value, error) {
	switch x := v.(type) {
	case *ndarray.Array:
		return s.replacedArray(x, by)
	case *ndarray.Sequence:
		return s.replacedItems(x, by)
	case *ndarray.Optional:
		if x.Value == nil {
			return v, nil
		}
		own, err := s.replaced(x.Value, by)
		if err != nil || own == x.Value {
			return v, err
		}
		return &ndarray.Optional{Value: own}, nil
	case *ndarray.Map:
		keys, err := s.replacedArray(x.Keys, by)
		if err != nil {
			return nil, err
		}
		values, err := s.replaced(x.Values, by)
		return &ndarray.Map{Keys: keys, Values: values}, err
	case *ndarray.Sparse:
		values, err := s.replacedArray(x.Values, by)
		if err != nil {
			return nil, err
		}
		indices, err := s.replacedArray(x.Indices, by)
		return &ndarray.Sparse{Shape: x.Shape, Values: values, Indices: indices}, err
	}
	return v, nil
}

func (s *Session) replacedArray(a *ndarray.Array, by func(*ndarray.Array) (*ndarray.Array, error)) (*ndarray.Array, error) {
	if a == nil {
		return nil, nil
	}
	return by(a)
}

// replacedItems is replaced for a sequence, which is copied if an item is.
func (s *Session) replacedItems(x *ndarray.Sequence, by func(*ndarray.Array) (*ndarray.Array, error)) (ndarray.Value, error) {
	shared := x
	for i, it := range x.Items {
		if i%lookSlices == 0 && s.ctx.Err() != nil {
			return nil, s.ctx.Err()
		}
		own, err := s.replaced(it, by)
		if err != nil {
			return nil, err
		}
		if own == it {
			continue
		}
		if x == shared {
			x = &ndarray.Sequence{Elem: x.Elem, Items: slices.Clone(x.Items)}
		}
		x.Items[i] = own
	}
	return x, nil
}

// results returns the values of the main block's results; the slice is reused. Those of
// known shape lie in the session's memory, unless fresh ones are wanted, others always in
// memory of their own.
func (s *Session) results(fresh bool) ([]ndarray.Value, error) {
	for i, r := range s.p.Main.Results {
		var err error
		switch {
		case s.p.keeps && s.Keeps(i):
			s.outs[i], s.own.heads[i].Data = nil, nil
		case s.p.Slots[r].Kind == SlotDynamic || s.p.Slots[r].DType == ndarray.String || !s.p.Slots[r].Static:
			s.outs[i], err = s.givenValue(s.vals[r])
		case fresh:
			s.own.heads[i].Data = nil
			s.outs[i], err = s.clone(&s.heads[r])
		default:
			h := &s.own.heads[i]
			if h.DType, h.Data = s.heads[r].DType, s.heads[r].Data; !slices.Equal(h.Shape, s.heads[r].Shape) { // changed by the caller, to one of another array, say
				h.Shape = slices.Clone(s.heads[r].Shape)
			}
			s.outs[i] = h
		}
		if err != nil {
			return nil, err
		}
	}
	if !fresh && !s.own.plain {
		return s.outs, s.separate()
	}
	return s.outs, nil
}

// separate copies static results that are no place of the arena of their own.
func (s *Session) separate() error {
	for i := range s.own.heads {
		h := &s.own.heads[i]
		if s.outs[i] != h || len(h.Data) == 0 {
			continue
		}
		apart := s.inArena(h.Data)
		for j := 0; apart && j < len(s.own.heads); j++ {
			apart = j == i || s.own.apart[i] && s.own.apart[j] || !overlap(h.Data, s.own.heads[j].Data)
		}
		if !apart {
			own, err := s.keep(&s.own.given[i], h.Data)
			if err != nil {
				return err
			}
			h.Data = own
		}
	}
	return nil
}

// givenValue is a value of unknown shape as a result: memory that a kernel's result was given
// in this run is the caller's now, anything else is copied.
func (s *Session) givenValue(v ndarray.Value) (ndarray.Value, error) {
	switch x := v.(type) {
	case *strided:
		a, err := s.whole(x)
		if err == nil {
			s.moved += int64(len(a.Data))
		}
		return a, err
	case *ndarray.Array:
		if x == nil {
			return v, nil
		}
		if base := unsafe.SliceData(x.Data); len(x.Data) > 0 && s.recycled.owned[base] > 0 {
			delete(s.recycled.owned, base)
			return newHeader(x.DType, x.Shape, x.Data), nil
		}
		return s.clone(x)
	}
	return ndarray.CloneIn(s.ctx, s.p.memory, v)
}

// clone copies an array, if there is room.
func (s *Session) clone(a *ndarray.Array) (*ndarray.Array, error) {
	if a == nil || a.DType == ndarray.String {
		v, err := ndarray.CloneIn(s.ctx, s.p.memory, a)
		if err != nil {
			return nil, err
		}
		return v.(*ndarray.Array), nil
	}
	data, err := newBytes("a copy of a value", len(a.Data), s.p.memory)
	if err != nil {
		return nil, err
	}
	return newHeader(a.DType, a.Shape, data), s.copyBytes(data, a.Data)
}

// copyBytes is copy, which ends when the context of the run does.
func (s *Session) copyBytes(dst, src []byte) error {
	if s.device != nil {
		n := min(len(dst), len(src))
		return s.device.Copy(dst[:n], src[:n])
	}
	return sysmem.Copy(s.ctx, dst, src)
}

// apartResults marks results that lie in places of the arena which no others of those have bytes of.
func (p *Program) apartResults() []bool {
	out := make([]bool, len(p.Main.Results))
	at := make([]int, 0, len(out))
	for i, r := range p.Main.Results {
		if sl := &p.Slots[r]; sl.Kind == SlotArena && sl.Static {
			at = append(at, i)
			out[i] = len(sl.Offsets) == 1
		}
	}
	slot := func(i int) *Slot { return &p.Slots[p.Main.Results[i]] }
	slices.SortFunc(at, func(a, b int) int { return int(slot(a).Offsets[0] - slot(b).Offsets[0]) })
	end, last := int64(-1), -1
	for _, i := range at {
		from, n := slot(i).Offsets[0], int64(slot(i).Bytes)
		if from < end {
			out[i], out[last] = false, false
		}
		if from+n > end {
			end, last = from+n, i
		}
	}
	return out
}

// Bytes is the memory that the session holds between runs, without a shared arena.
func (s *Session) Bytes() int64 {
	n := cap(s.work) + s.recycled.spare
	if s.from == nil {
		n += len(s.arena)
	}
	if s.own.kept {
		n += capOf(s.own.given) + capOf(s.own.taken)
	}
	for i := range s.states {
		n += len(s.states[i].data)
	}
	for i := range s.kept {
		n += len(s.kept[i].data)
	}
	return int64(n)
}

func capOf(all [][]byte) (n int) {
	for _, b := range all {
		n += cap(b)
	}
	return n
}
