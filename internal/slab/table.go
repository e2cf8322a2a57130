package slab

// Table maps objects that have small numbers, the nodes or values of a graph, to what is known of them. Objects of several
// graphs may have the same number: the first of them has its place by number, the others are found by a map.
type Table[K comparable, V any] struct {
	at   []entry[K, V]
	rest map[K]V
}

type entry[K comparable, V any] struct {
	key K // zero: none yet
	of  V
}

// NewTable is a table for numbers below n, mostly.
func NewTable[K comparable, V any](n int) Table[K, V] {
	return Table[K, V]{at: make([]entry[K, V], n)}
}

// Get returns what is known of an object, which is not zero.
func (t *Table[K, V]) Get(number int, key K) (of V, ok bool) {
	if number < len(t.at) && t.at[number].key == key {
		return t.at[number].of, true
	}
	if t.rest != nil {
		of, ok = t.rest[key]
	}
	return of, ok
}

// Put says what is known of an object, which is not zero.
func (t *Table[K, V]) Put(number int, key K, of V) {
	var none K
	if number < len(t.at) {
		if e := &t.at[number]; e.key == key || e.key == none {
			*e = entry[K, V]{key, of}
			return
		}
	}
	if t.rest == nil {
		t.rest = map[K]V{}
	}
	t.rest[key] = of
}

// All calls f for what is known of each object, in no promised order.
func (t *Table[K, V]) All(f func(of V)) {
	var none K
	for i := range t.at {
		if t.at[i].key != none {
			f(t.at[i].of)
		}
	}
	for _, of := range t.rest {
		f(of)
	}
}
