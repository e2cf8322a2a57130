package program

import (
	"slices"
	"unsafe"

	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
)

// Memory of values whose size is known only while running. The buffer of a kernel's result
// serves a later result when no live value aliases it, so that a run takes about as much as
// its largest live set, not the sum of all results:
//
//	result ──last use──▶ does another value alias the buffer? ──no──▶ free list ──▶ result
//	                                                          └─yes─▶ kept until its last use
//
// Only a session's slots are searched for aliases. So nothing is recycled in programs with
// loops, whose state holds values too, or while a sequence, an optional or a map is live.

// recycler is the free list of a session.
type recycler struct {
	owned map[*byte]int // the buffers that results were given, by address: their size
	free  [][]byte      // the longest free first
	held  int           // bytes of owned buffers in use
	most  int           // the most of them in this run
	spare int           // bytes of free ones
}

// smallBuffer is the size in bytes from which on buffers are kept.
const smallBuffer = 4 << 10

// take returns n bytes of any content: the smallest free buffer that is large enough and
// not twice as large, else new memory, which is asked for.
func (r *recycler) take(n int, memory ndarray.Budget) ([]byte, error) {
	if r == nil || n < smallBuffer {
		return newBytes("a result", n, memory)
	}
	best := -1
	for i, b := range r.free {
		if len(b) >= n && len(b) < 2*n && (best < 0 || len(b) < len(r.free[best])) {
			best = i
		}
	}
	var b []byte
	if best >= 0 {
		b = r.takeOut(best)
	} else {
		var err error
		if b, err = newBytes("a result", n, memory); err != nil {
			return nil, err
		}
	}
	if r.owned == nil {
		r.owned = map[*byte]int{}
	}
	r.owned[&b[0]] = len(b)
	r.held += len(b)
	r.most = max(r.most, r.held)
	return b[:n:n], nil
}

// newBytes takes n bytes of any content from a budget.
func newBytes(what string, n int, memory ndarray.Budget) ([]byte, error) {
	if err := memory.Ask(what, int64(n)); err != nil {
		return nil, err
	}
	return sysmem.Uncleared(n), nil
}

// begin starts a run. Buffers still in use, the results of the run before, belong to the caller.
func (r *recycler) begin() {
	if len(r.owned) > 0 {
		clear(r.owned)
	}
	r.held, r.most = 0, 0
}

// Forget drops the results of the last run, once no caller has the slice of them: fresh ones are the caller's alone.
func (s *Session) Forget() {
	clear(s.outs)
	s.recycled.begin()
}

// drop empties a slot. The buffer of its value is free if no other slot aliases it. At most
// as many bytes are free as were ever in use at once.
func (s *Session) drop(slot int) {
	a, ok := s.vals[slot].(*ndarray.Array)
	s.vals[slot] = nil
	if !ok || a == nil || len(a.Data) < smallBuffer || s.p.states > 0 || len(s.kept) > 0 {
		return
	}
	r := &s.recycled
	base := unsafe.SliceData(a.Data)
	size := r.owned[base]
	if size == 0 || s.isAliased(base, size) {
		return
	}
	delete(r.owned, base)
	r.held -= size
	r.free = append(r.free, unsafe.Slice(base, size))
	r.spare += size
	for r.spare > r.most {
		r.takeOut(0)
	}
}

// takeOut takes a buffer off the free list.
func (r *recycler) takeOut(i int) []byte {
	b := r.free[i]
	r.free = slices.Delete(r.free, i, i+1)
	r.spare -= len(b)
	return b
}

// isAliased reports whether some value may lie in the size bytes from base on.
func (s *Session) isAliased(base *byte, size int) bool {
	from := uintptr(unsafe.Pointer(base))
	for _, v := range s.vals {
		switch x := v.(type) {
		case nil:
		case *ndarray.Array:
			if p := uintptr(unsafe.Pointer(unsafe.SliceData(x.Data))); p < from+uintptr(size) && from < p+uintptr(len(x.Data)) {
				return true
			}
		default:
			return true
		}
	}
	return false
}
