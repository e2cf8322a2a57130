package program

import (
	"slices"
	"unsafe"

	"github.com/berth-onnx/berth/ndarray"
)

// Memory of values whose size is known only while running. What a kernel's result lay in
// is taken for a later result when nothing shows it any more, so that a run takes about
// as much as it holds at once, not all that it ever computes:
//
//	result ──freed──▶ does another value lie in the same bytes? ──no──▶ free list ──▶ result
//	                                                            └─yes─▶ left to the last of them
//
// It is done where a session's slots are all that holds values: not beside loops, whose
// state holds some, and not while a sequence, an optional or a map is alive.

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
// not twice as large, else new memory.
func (r *recycler) take(n int) []byte {
	if r == nil || n < smallBuffer {
		return ndarray.AlignedBytes(n)
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
		b = ndarray.AlignedBytes(n)
	}
	if r.owned == nil {
		r.owned = map[*byte]int{}
	}
	r.owned[&b[0]] = len(b)
	r.held += len(b)
	r.most = max(r.most, r.held)
	return b[:n:n]
}

// begin starts a run: what the one before left in use, its results, is not taken back.
func (r *recycler) begin() {
	clear(r.owned)
	r.held, r.most = 0, 0
}

// drop empties a slot. The buffer of its value is free if no other slot shows it; of free
// buffers no more are kept than were ever in use.
func (s *Session) drop(slot int) {
	a, ok := s.vals[slot].(*ndarray.Array)
	s.vals[slot] = nil
	if !ok || a == nil || len(a.Data) < smallBuffer || s.p.states > 0 || len(s.kept) > 0 {
		return
	}
	r := &s.recycled
	base := unsafe.SliceData(a.Data)
	size := r.owned[base]
	if size == 0 || s.shown(base, size) {
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

// shown reports whether some value may lie in size bytes from base on.
func (s *Session) shown(base *byte, size int) bool {
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
