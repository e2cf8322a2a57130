// Package slab cuts small objects and slices from larger pieces of memory: a graph of many nodes then costs the allocator
// one call for hundreds of them. A piece lives as long as anything cut from it, so that only objects of one structure
// should share pieces. Tables hold what is known of numbered objects.
package slab

// Of hands out objects of one type. The zero value is ready; it is for one goroutine.
type Of[T any] struct {
	free []T
	size int // elements of the last piece
}

// first and most are the elements of the first piece and of the largest.
const (
	first = 8
	most  = 512
)

// New returns a zero object.
func (s *Of[T]) New() *T { return &s.Make(1)[0] }

// Make returns a slice of n zero elements. Its capacity is n: appending to it moves it out of the piece.
func (s *Of[T]) Make(n int) []T {
	if n == 0 {
		return nil
	}
	if n > len(s.free) {
		if n > most/4 {
			return make([]T, n)
		}
		s.size = min(max(2*s.size, first, 2*n), most)
		s.free = make([]T, s.size)
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	return out
}

// Copy returns a copy of a slice, nil for an empty one.
func (s *Of[T]) Copy(of []T) []T {
	out := s.Make(len(of))
	copy(out, of)
	return out
}
