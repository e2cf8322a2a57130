package slab

import "testing"

func TestTable(t *testing.T) {
	type object struct{ number int }
	var all []*object
	for range 3 { // three graphs with the same numbers, the table being for the first ones of each
		for i := range 20 {
			all = append(all, &object{i})
		}
	}
	table := NewTable[*object, int](10)
	for i, o := range all {
		if _, ok := table.Get(o.number, o); ok {
			t.Fatalf("object %d is known before it was put", i)
		}
		table.Put(o.number, o, -1)
		table.Put(o.number, o, i)
	}
	sum := 0
	for i, o := range all {
		if got, ok := table.Get(o.number, o); !ok || got != i {
			t.Errorf("object %d: %d, %v", i, got, ok)
		}
		sum += i
	}
	table.All(func(i int) { sum -= i })
	if sum != 0 {
		t.Errorf("all objects together differ by %d", sum)
	}
}
