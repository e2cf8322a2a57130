package onnxexport

import "fmt"

// names makes names that are unique in a graph and all graphs around it. Bodies of different nodes may use the same ones.
type names struct {
	taken  map[string]bool
	parent *names
}

func newNames(parent *names) *names { return &names{map[string]bool{}, parent} }

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
	for k := 1; name == "" || s.has(name); k++ {
		name = fmt.Sprintf("%s_%d", want, k)
	}
	s.taken[name] = true
	return name
}
