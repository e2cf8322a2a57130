package slab

import (
	"slices"
	"testing"
)

func TestSlicesAreApart(t *testing.T) {
	var s Of[int]
	var all [][]int
	for n := range 300 {
		x := s.Make(n)
		if len(x) != n || cap(x) != n || slices.ContainsFunc(x, func(v int) bool { return v != 0 }) {
			t.Fatalf("%d elements: length %d, capacity %d, or not zero", n, len(x), cap(x))
		}
		for i := range x {
			x[i] = n
		}
		all = append(all, append(x, -1)[:n])
	}
	for n, x := range all {
		if slices.ContainsFunc(x, func(v int) bool { return v != n }) {
			t.Errorf("slice %d was written by another", n)
		}
	}
}

func TestManyObjectsTakeFewAllocations(t *testing.T) {
	got := testing.AllocsPerRun(10, func() {
		var s Of[[4]int]
		for range 10_000 {
			s.New()[0] = 1
		}
	})
	if got > 40 {
		t.Errorf("10000 objects took %v allocations", got)
	}
}

func TestCopy(t *testing.T) {
	var s Of[string]
	if got := s.Copy([]string{"a", "b"}); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("copied %v", got)
	}
	if s.Copy(nil) != nil {
		t.Error("the copy of nothing is not nil")
	}
}
