package planner

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// Life is where a buffer lives in a graph of nodes: Heads are the nodes that may be the first to touch it, Tails the
// nodes that may be the last. Both are sets because branches of a graph have no order among each other.
type Life struct{ Heads, Tails []int }

// Partial is the order of every schedule of a graph at once: a plan made under it stays valid when independent nodes
// run in another order or at the same time.
//
//	      n1 --> n2 --.          a: head n0, tails n1 n3      b: head n2, tail n4
//	n0 --<             >-- n4    b is born at n2, which n3 may precede or follow: they interfere
//	      n3 ---------'          c: head n4, tail n4          c is after a: n4 follows n1 and n3
//
// Buffer y is after x when every head of y is reached from every tail of x by at least one edge. A node that
// reads x and writes y therefore keeps them apart.
//
// Branches of an If that exclude each other may be put in sequence by edges from the last nodes of one to the first
// of the next: only one of them runs, so nothing is lost, and their buffers share memory.
//
// Source: NNC tensor allocation (exec-dep, head and tail of a block, "after").
type Partial struct {
	lives  []Life
	topo   []int32 // nodes in a topological order
	pos    []int32 // position of each node in topo
	succ   [][]int32
	behind []bitset // by buffer: those that are after it
	births []int
	hops   []atomic.Pointer[[]uint16] // longest paths from a node, made when first asked for
}

// maxPartialNodes keeps path lengths in 16 bits and each matrix of what comes after what at half a gigabyte.
const maxPartialNodes = 1<<16 - 1

// NewPartial builds the order of a graph with nodes 0..nodes-1; lives has one entry per buffer. It fails with a
// *ProblemError on a cycle, on node numbers out of range, and on a life without a head that reaches (or is) a tail.
func NewPartial(nodes int, edges [][2]int, lives []Life) (*Partial, error) {
	if nodes < 0 || nodes > maxPartialNodes {
		return nil, &ProblemError{Buffer: -1, Reason: fmt.Sprintf("has a graph of %d nodes; at most %d are supported", nodes, maxPartialNodes)}
	}
	o := &Partial{lives: lives, pos: make([]int32, nodes), succ: make([][]int32, nodes), hops: make([]atomic.Pointer[[]uint16], nodes)}
	if err := o.sortNodes(edges); err != nil {
		return nil, err
	}
	reach := o.closePaths()
	for i, l := range lives {
		if reason := o.checkLife(l, reach); reason != "" {
			return nil, &ProblemError{Buffer: i, Reason: reason}
		}
	}
	o.sortBehind(reach)
	o.sortBirths()
	return o, nil
}

// sortNodes finds a topological order, smallest number first among what is ready.
func (o *Partial) sortNodes(edges [][2]int) error {
	n := len(o.pos)
	waits := make([]int32, n)
	for _, e := range edges {
		if e[0] < 0 || e[0] >= n || e[1] < 0 || e[1] >= n {
			return &ProblemError{Buffer: -1, Reason: fmt.Sprintf("has an edge %d -> %d outside its %d nodes", e[0], e[1], n)}
		}
		o.succ[e[0]] = append(o.succ[e[0]], int32(e[1]))
		waits[e[1]]++
	}
	ready := newRankSet(n)
	for v, w := range waits {
		if w == 0 {
			ready.add(v)
		}
	}
	for u := ready.first(); u >= 0; u = ready.first() {
		ready.remove(u)
		o.pos[u] = int32(len(o.topo))
		o.topo = append(o.topo, int32(u))
		for _, v := range o.succ[u] {
			if waits[v]--; waits[v] == 0 {
				ready.add(int(v))
			}
		}
	}
	if len(o.topo) < n {
		return &ProblemError{Buffer: -1, Reason: "has a graph with a cycle"}
	}
	return nil
}

// closePaths works from the last node to the first; reach[u] has v when there is a path u -> v of at least one edge.
func (o *Partial) closePaths() []bitset {
	reach := make([]bitset, len(o.topo))
	for k := len(o.topo) - 1; k >= 0; k-- {
		u := o.topo[k]
		row := make(bitset, (len(o.topo)+63)/64)
		for _, v := range o.succ[u] {
			row[v>>6] |= 1 << (v & 63)
			row.join(reach[v])
		}
		reach[u] = row
	}
	return reach
}

// sortBehind finds what is after each buffer: per node the buffers whose heads it all reaches, from the last node to the
// first, and of a buffer with several tails what all of them have.
func (o *Partial) sortBehind(reach []bitset) {
	words := (len(o.lives) + 63) / 64
	born := make([][]int, len(o.topo)) // buffers with one head, by head
	var many []int                     // the others
	for i, l := range o.lives {
		if len(l.Heads) == 1 {
			born[l.Heads[0]] = append(born[l.Heads[0]], i)
		} else {
			many = append(many, i)
		}
	}
	rows := make([]bitset, len(o.topo))
	for k := len(o.topo) - 1; k >= 0; k-- {
		u := o.topo[k]
		row := make(bitset, words)
		for _, v := range o.succ[u] {
			row.join(rows[v])
			for _, i := range born[v] {
				row[i>>6] |= 1 << (i & 63)
			}
		}
		for _, i := range many {
			if !slices.ContainsFunc(o.lives[i].Heads, func(h int) bool { return !reach[u].has(h) }) {
				row[i>>6] |= 1 << (i & 63)
			}
		}
		rows[u] = row
	}
	o.behind = make([]bitset, len(o.lives))
	for i, l := range o.lives {
		o.behind[i] = rows[l.Tails[0]]
		if len(l.Tails) == 1 {
			continue
		}
		row := slices.Clone(rows[l.Tails[0]])
		for _, t := range l.Tails[1:] {
			for w := range row {
				row[w] &= rows[t][w]
			}
		}
		o.behind[i] = row
	}
}

// join adds the members of another set of the same range.
func (b bitset) join(other bitset) {
	for w, x := range other {
		b[w] |= x
	}
}

func (o *Partial) checkLife(l Life, reach []bitset) string {
	if len(l.Heads) == 0 || len(l.Tails) == 0 {
		return "has no head or no tail node"
	}
	for _, set := range [][]int{l.Heads, l.Tails} {
		for _, v := range set {
			if v < 0 || v >= len(o.pos) {
				return fmt.Sprintf("lives at node %d, which does not exist", v)
			}
		}
	}
	for _, h := range l.Heads {
		for _, t := range l.Tails {
			if h == t || reach[h].has(t) {
				return ""
			}
		}
	}
	return "has no head that comes before a tail"
}

// sortBirths orders the buffers by the earliest head in the topological order.
func (o *Partial) sortBirths() {
	at := make([][]int, len(o.pos))
	for i, l := range o.lives {
		first := o.pos[l.Heads[0]]
		for _, h := range l.Heads {
			first = min(first, o.pos[h])
		}
		at[first] = append(at[first], i)
	}
	for _, list := range at {
		o.births = append(o.births, list...)
	}
}

// Len is the number of buffers.
func (o *Partial) Len() int { return len(o.lives) }

// Births lists the buffers in the order in which one valid schedule creates them.
func (o *Partial) Births() []int { return o.births }

// Interfere reports whether neither buffer is after the other.
func (o *Partial) Interfere(a, b int) bool { return !o.after(a, b) && !o.after(b, a) }

// after reports whether every head of b follows every tail of a.
func (o *Partial) after(a, b int) bool { return o.behind[a].has(b) }

// Hops is the longest path from a tail of a to a head of b when b is after a, else 0.
func (o *Partial) Hops(a, b int) int {
	if !o.after(a, b) {
		return 0
	}
	best := 0
	for _, t := range o.lives[a].Tails {
		row := o.longest(t)
		for _, h := range o.lives[b].Heads {
			best = max(best, int(row[o.pos[h]-o.pos[t]]))
		}
	}
	return best
}

// longest gives the longest path from u to every node at or behind it in the topological order, indexed by distance
// in that order; 0 where there is no path.
func (o *Partial) longest(u int) []uint16 {
	if row := o.hops[u].Load(); row != nil {
		return *row
	}
	base := o.pos[u]
	row := make([]uint16, len(o.topo)-int(base))
	for k := range row {
		v := o.topo[int(base)+k]
		if k > 0 && row[k] == 0 {
			continue
		}
		for _, w := range o.succ[v] {
			d := o.pos[w] - base
			row[d] = max(row[d], row[k]+1)
		}
	}
	o.hops[u].Store(&row)
	return row
}

// has reports whether x is in the set.
func (b bitset) has(x int) bool { return x>>6 < len(b) && b[x>>6]>>(x&63)&1 == 1 }

// first is the smallest member, or -1.
func (s *rankSet) first() int {
	if s.level[0][0]&1 == 1 {
		return 0
	}
	return s.after(0)
}
