// Package poset is the partial order of a set of steps: what must run before what,
// whatever schedule is chosen.
//
//	     ┌─▶ 1 ─▶ 2 ─┐          Hops(0, 4) = 3, the longest way
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

// Order is a partial order of steps 0 … n−1.
type Order struct {
	Succ [][]int32 // the steps that wait for a step, ascending
	Topo []int32   // a topological order, lowest number first among equals
	Pos  []int32   // position in Topo

	after []Set // by step: what comes after it
	rows  []atomic.Pointer[[]uint16]
}

// Max bounds the number of steps: what comes after each takes its square in bits,
// and lengths of ways 16 bits.
const Max = 1<<16 - 1

// New orders steps 0 … n−1 by edges from a step to one that waits for it. A cycle, an
// edge to a step that does not exist, or more than [Max] steps are errors.
func New(n int, edges [][2]int) (*Order, error) {
	if n < 0 || n > Max {
		return nil, fmt.Errorf("a graph of %d nodes; at most %d are supported", n, Max)
	}
	d := &Order{Succ: make([][]int32, n), Pos: make([]int32, n), after: make([]Set, n), rows: make([]atomic.Pointer[[]uint16], n)}
	waits := make([]int, n)
	for _, e := range edges {
		if e[0] < 0 || e[0] >= n || e[1] < 0 || e[1] >= n {
			return nil, fmt.Errorf("an edge %d → %d outside its %d nodes", e[0], e[1], n)
		}
		d.Succ[e[0]] = append(d.Succ[e[0]], int32(e[1]))
	}
	for u := range d.Succ {
		slices.Sort(d.Succ[u])
		d.Succ[u] = slices.Compact(d.Succ[u])
		for _, v := range d.Succ[u] {
			waits[v]++
		}
	}
	if !d.sort(waits) {
		return nil, fmt.Errorf("a graph with a cycle")
	}
	d.close()
	return d, nil
}

// sort fills Topo; it reports whether there is no cycle.
func (d *Order) sort(waits []int) bool {
	ready := NewSet(len(waits))
	for v, w := range waits {
		if w == 0 {
			ready.Add(v)
		}
	}
	for w := 0; w < len(ready); {
		if ready[w] == 0 {
			w++
			continue
		}
		u := w*64 + bits.TrailingZeros64(ready[w])
		ready[w] &= ready[w] - 1
		d.Pos[u] = int32(len(d.Topo))
		d.Topo = append(d.Topo, int32(u))
		for _, v := range d.Succ[u] {
			if waits[v]--; waits[v] == 0 {
				ready.Add(int(v))
				w = min(w, int(v)/64)
			}
		}
	}
	return len(d.Topo) == len(waits)
}

// close fills after from the last step to the first.
func (d *Order) close() {
	for _, u := range slices.Backward(d.Topo) {
		d.after[u] = NewSet(len(d.Topo))
		for _, v := range d.Succ[u] {
			d.after[u].Add(int(v))
			d.after[u].Join(d.after[v])
		}
	}
}

// Before reports whether a comes before b in every schedule. No step is before
// itself.
func (d *Order) Before(a, b int) bool { return d.after[a].Has(b) }

// Hops is the number of edges of the longest way from a to b, 0 if b does not come
// after a. Rows are computed when first asked for.
func (d *Order) Hops(a, b int) int {
	if !d.Before(a, b) {
		return 0
	}
	row, base := d.rows[a].Load(), d.Pos[a]
	if row == nil {
		far := make([]uint16, len(d.Topo)-int(base)) // by position after a
		for k := range far {
			if k > 0 && far[k] == 0 {
				continue // not reached
			}
			for _, v := range d.Succ[d.Topo[int(base)+k]] {
				far[d.Pos[v]-base] = max(far[d.Pos[v]-base], far[k]+1)
			}
		}
		row = &far
		d.rows[a].Store(row)
	}
	return int((*row)[d.Pos[b]-base])
}

// Heads returns the steps of a set that no other of the set comes before,
// ascending.
func (d *Order) Heads(set []int) []int {
	covered := NewSet(len(d.Topo)) // what comes after some step of the set
	for _, a := range set {
		if !covered.Has(a) { // else so is what comes after it
			covered.Join(d.after[a])
		}
	}
	var out []int
	for _, a := range set {
		if !covered.Has(a) {
			out = append(out, a)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Tails returns the steps of a set that no other of the set comes after,
// ascending.
func (d *Order) Tails(set []int) []int {
	all := NewSet(len(d.Topo))
	for _, a := range set {
		all.Add(a)
	}
	var out []int
next:
	for _, a := range set {
		for w, x := range d.after[a] {
			if x&all[w] != 0 {
				continue next
			}
		}
		out = append(out, a)
	}
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

// Join adds the members of another set of the same range.
func (s Set) Join(other Set) {
	for w, x := range other {
		s[w] |= x
	}
}
