package liveness

import (
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"
)

// ExecDep is the partial order of a set of steps: what must run before what,
// whatever schedule is chosen.
//
//	     ┌─▶ 1 ─▶ 2 ─┐          Hop(0, 4) = 3, the longest way
//	0 ───┤           ├─▶ 4      Hop(1, 3) = 0: neither waits for the other
//	     └─▶ 3 ──────┘          heads of {1, 2, 3}: 1 3    tails: 2 3
//
// A block that is touched by a set of steps begins to live at one of its heads
// (those that no other of the set comes before) and ends at one of its tails; both
// are antichains. Block b is after a when every head of b comes after every tail of
// a, at another step: then the two can share bytes in every schedule, and when
// independent steps run at the same time.
//
// Source: L. Liu, NNC tensor allocation (exec-dep, head and tail of a block).
type ExecDep struct {
	succ  [][]int32
	topo  []int32    // in a topological order, lowest number first among equals
	pos   []int32    // position in topo
	after [][]uint64 // by step: the set of steps that come after it
	rows  []atomic.Pointer[[]int32]
}

// MaxSteps bounds the number of steps of a partial order: the sets of what comes
// after take its square in bits.
const MaxSteps = 1<<16 - 1

// NewExecDep orders steps 0 … n−1 by edges from a step to one that waits for it. A
// cycle, an edge to a step that does not exist, or more than [MaxSteps] steps are
// errors.
func NewExecDep(n int, edges [][2]int) (*ExecDep, error) {
	if n < 0 || n > MaxSteps {
		return nil, fmt.Errorf("liveness: %d steps are too many for a partial order; at most %d are supported: plan one schedule instead", n, MaxSteps)
	}
	d := &ExecDep{succ: make([][]int32, n), pos: make([]int32, n), after: make([][]uint64, n), rows: make([]atomic.Pointer[[]int32], n)}
	waits := make([]int, n)
	for _, e := range edges {
		if e[0] < 0 || e[0] >= n || e[1] < 0 || e[1] >= n {
			return nil, fmt.Errorf("liveness: the dependence %d → %d is outside the %d steps", e[0], e[1], n)
		}
		d.succ[e[0]] = append(d.succ[e[0]], int32(e[1]))
	}
	for u := range d.succ {
		slices.Sort(d.succ[u])
		d.succ[u] = slices.Compact(d.succ[u])
		for _, v := range d.succ[u] {
			waits[v]++
		}
	}
	if !d.sort(waits) {
		return nil, fmt.Errorf("liveness: the dependences have a cycle")
	}
	d.close()
	return d, nil
}

// sort fills topo; it reports whether there is no cycle.
func (d *ExecDep) sort(waits []int) bool {
	ready := make([]uint64, words(len(waits)))
	for v, w := range waits {
		if w == 0 {
			ready[v/64] |= 1 << (v % 64)
		}
	}
	for w := 0; w < len(ready); {
		if ready[w] == 0 {
			w++
			continue
		}
		u := w*64 + bits.TrailingZeros64(ready[w])
		ready[w] &= ready[w] - 1
		d.pos[u] = int32(len(d.topo))
		d.topo = append(d.topo, int32(u))
		for _, v := range d.succ[u] {
			if waits[v]--; waits[v] == 0 {
				ready[v/64] |= 1 << (v % 64)
				w = min(w, int(v)/64)
			}
		}
	}
	return len(d.topo) == len(waits)
}

// close fills after from the last step to the first.
func (d *ExecDep) close() {
	for k := len(d.topo) - 1; k >= 0; k-- {
		u := d.topo[k]
		set := make([]uint64, words(len(d.topo)))
		for _, v := range d.succ[u] {
			set[v/64] |= 1 << (v % 64)
			for w, x := range d.after[v] {
				set[w] |= x
			}
		}
		d.after[u] = set
	}
}

func words(n int) int { return (n + 63) / 64 }

// Before reports whether a comes before b in every schedule. No step is before
// itself.
func (d *ExecDep) Before(a, b int) bool { return d.after[a][b/64]>>(b%64)&1 == 1 }

// Hop is the number of edges of the longest way from a to b, 0 if b does not come
// after a. Rows are computed when first asked for.
func (d *ExecDep) Hop(a, b int) int {
	if !d.Before(a, b) {
		return 0
	}
	row := d.rows[a].Load()
	if row == nil {
		far := make([]int32, len(d.topo)) // by position
		for k := int(d.pos[a]); k < len(d.topo); k++ {
			u := d.topo[k]
			if int(u) != a && far[k] == 0 {
				continue // not reached
			}
			for _, v := range d.succ[u] {
				far[d.pos[v]] = max(far[d.pos[v]], far[k]+1)
			}
		}
		row = &far
		d.rows[a].Store(row)
	}
	return int((*row)[d.pos[b]])
}

// Heads returns the steps of a set that no other of the set comes before,
// ascending.
func (d *ExecDep) Heads(set []int) []int {
	covered := make([]uint64, words(len(d.topo))) // what comes after some step of the set
	for _, a := range set {
		if covered[a/64]>>(a%64)&1 == 1 {
			continue // so is what comes after it
		}
		for w, x := range d.after[a] {
			covered[w] |= x
		}
	}
	var out []int
	for _, a := range set {
		if covered[a/64]>>(a%64)&1 == 0 {
			out = append(out, a)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Tails returns the steps of a set that no other of the set comes after,
// ascending.
func (d *ExecDep) Tails(set []int) []int {
	all := make([]uint64, words(len(d.topo)))
	for _, a := range set {
		all[a/64] |= 1 << (a % 64)
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
// a, given the heads of b and the tails of a. One step, at, may be both; None is no
// step.
func (d *ExecDep) Follows(heads, tails []int, at int) bool {
	for _, t := range tails {
		for _, h := range heads {
			if !d.Before(t, h) && (t != h || t != at) {
				return false
			}
		}
	}
	return true
}
