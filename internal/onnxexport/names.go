package onnxexport

import "fmt"

// names makes names that are unique in a graph and all graphs around it. Bodies of different nodes may use the same ones.
type names struct {
	taken  map[string]bool
	last   map[string]int // by name: all up to this number behind it are taken
	parent *names
}

func newNames(parent *names) *names { return &names{map[string]bool{}, map[string]int{}, parent} }

func (s *names) has(name string) bool {
	for ; s != nil; s = s.parent {
		if s.taken[name] {
			return true
		}
	}
	return false
}

// fresh takes a name, with a number behind it if it is taken already.
func (s *names) fresh(want string) string {
	name := want
	if name == "" || s.has(name) {
		k := 1
		for p := s; p != nil; p = p.parent {
			k = max(k, p.last[want]+1)
		}
		for name = fmt.Sprintf("%s_%d", want, k); s.has(name); name = fmt.Sprintf("%s_%d", want, k) {
			k++
		}
		s.last[want] = k
	}
	s.taken[name] = true
	return name
}
