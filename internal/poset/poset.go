// Package poset is the partial order of a set of steps: what must run before what,
// whatever schedule is chosen.
//
//	     ┌─▶ 1 ─▶ 2 ─┐          Hops(0, 4) = 3, the longest path
//	0 ───┤           ├─▶ 4      Hops(1, 3) = 0: neither waits for the other
//	     └─▶ 3 ──────┘          heads of {1, 2, 3}: 1 3    tails: 2 3
//
// A block that is touched by a set of steps begins to live at one of its heads
// (those that no other of the set comes before) and ends at one of its tails; both
// are antichains. Block b is after a when every head of b comes after every tail of
// a, at another step: then the two can share bytes in every schedule, and when
// independent steps run at the same time.
//
// Source: L. Liu, NNC tensor allocation (exec-dep, head and tail of a block).
package poset

import (
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"
)

// Order is a partial order of steps 0 … n−1, which stand in one of their schedules.
type Order struct {
	Succ [][]int // the steps that wait for a step

	after []Set // by step: what comes after it
	rows  []atomic.Pointer[[]uint16]
}

// Max bounds the number of steps: what comes after each takes its square in bits,
// and lengths of paths 16 bits.
const Max = 1<<16 - 1

// New orders steps 0 … n−1 by edges from a step to a later one that waits for it. An
// edge that does not lead to a later step, or more than [Max] steps, are errors.
func New(n int, edges [][2]int) (*Order, error) {
	if n < 0 || n > Max {
		return nil, fmt.Errorf("a graph of %d nodes; at most %d are supported", n, Max)
	}
	d := &Order{Succ: make([][]int, n), after: make([]Set, n), rows: make([]atomic.Pointer[[]uint16], n)}
	for _, e := range edges {
		if e[0] < 0 || e[1] >= n {
			return nil, fmt.Errorf("an edge %d → %d outside its %d nodes", e[0], e[1], n)
		}
		if e[0] >= e[1] {
			return nil, fmt.Errorf("an edge %d → %d that does not lead to a later node", e[0], e[1])
		}
		d.Succ[e[0]] = append(d.Succ[e[0]], e[1])
	}
	for u := n - 1; u >= 0; u-- {
		d.after[u] = NewSet(n)
		for _, v := range d.Succ[u] {
			if !d.after[u].Has(v) {
				d.after[u].Add(v)
				d.after[u].Join(d.after[v])
			}
		}
	}
	return d, nil
}

// Before reports whether a comes before b in every schedule. No step is before
// itself.
func (d *Order) Before(a, b int) bool { return d.after[a].Has(b) }

// Hops is the number of edges of the longest path from a to b, 0 if b does not come
// after a. Rows are computed when first asked for.
func (d *Order) Hops(a, b int) int {
	if !d.Before(a, b) {
		return 0
	}
	row := d.rows[a].Load()
	if row == nil {
		far := make([]uint16, len(d.Succ)-a) // by step, from a on
		for k := range far {
			if k > 0 && far[k] == 0 {
				continue // not reached
			}
			for _, v := range d.Succ[a+k] {
				far[v-a] = max(far[v-a], far[k]+1)
			}
		}
		row = &far
		d.rows[a].Store(row)
	}
	return int((*row)[b-a])
}

// Heads returns the steps of a set that no other of the set comes before,
// ascending.
func (d *Order) Heads(set []int) []int {
	covered := NewSet(len(d.Succ)) // what comes after some step of the set
	for _, a := range set {
		if !covered.Has(a) { // else so is what comes after it
			covered.Join(d.after[a])
		}
	}
	return without(set, covered.Has)
}

// Tails returns the steps of a set that no other of the set comes after,
// ascending.
func (d *Order) Tails(set []int) []int {
	all := NewSet(len(d.Succ))
	for _, a := range set {
		all.Add(a)
	}
	return without(set, func(a int) bool { return d.after[a].meets(all) })
}

// without returns the steps of a set that drop does not report, ascending.
func without(set []int, drop func(step int) bool) []int {
	out := slices.DeleteFunc(slices.Clone(set), drop)
	slices.Sort(out)
	return slices.Compact(out)
}

// Follows reports whether in every schedule all steps of b come after all steps of
// a, given the heads of b and the tails of a. Steps of shared may be both.
func (d *Order) Follows(heads, tails []int, shared ...int) bool {
	for _, t := range tails {
		for _, h := range heads {
			if !d.Before(t, h) && (t != h || !slices.Contains(shared, t)) {
				return false
			}
		}
	}
	return true
}

// Set is a set of small numbers.
type Set []uint64

// NewSet is an empty set for numbers below n.
func NewSet(n int) Set { return make(Set, (n+63)/64) }

// Has reports whether x is in the set.
func (s Set) Has(x int) bool { return s[x>>6]>>(x&63)&1 == 1 }

// Add adds x.
func (s Set) Add(x int) { s[x>>6] |= 1 << (x & 63) }

// Remove takes x out.
func (s Set) Remove(x int) { s[x>>6] &^= 1 << (x & 63) }

// Join adds the members of another set of the same range.
func (s Set) Join(other Set) {
	for w, x := range other {
		s[w] |= x
	}
}

// meets reports whether two sets of the same range share a member.
func (s Set) meets(other Set) bool {
	for w, x := range other {
		if s[w]&x != 0 {
			return true
		}
	}
	return false
}

// Each visits the members, ascending.
func (s Set) Each(fn func(x int)) {
	for w, x := range s {
		for ; x != 0; x &= x - 1 {
			fn(w<<6 + bits.TrailingZeros64(x))
		}
	}
}

// Len is the number of members.
func (s Set) Len() (n int) {
	for _, x := range s {
		n += bits.OnesCount64(x)
	}
	return n
}
