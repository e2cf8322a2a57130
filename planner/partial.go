package planner

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/poset"
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
	nodes  *poset.Order
	behind []bitset // by buffer: those that are after it
	births []int
}

// NewPartial builds the order of a graph with nodes 0..nodes-1; lives has one entry per buffer. It fails with a
// *ProblemError on a cycle, on node numbers out of range, and on a life without a head that reaches (or is) a tail.
func NewPartial(nodes int, edges [][2]int, lives []Life) (*Partial, error) {
	order, err := poset.New(nodes, edges)
	if err != nil {
		return nil, &ProblemError{Buffer: -1, Reason: "has " + err.Error()}
	}
	o := &Partial{lives: lives, nodes: order}
	for i, l := range lives {
		if reason := o.checkLife(l); reason != "" {
			return nil, &ProblemError{Buffer: i, Reason: reason}
		}
	}
	o.sortBehind()
	o.sortBirths()
	return o, nil
}

// sortBehind finds what is after each buffer: per node the buffers whose heads it all reaches, from the last node to the
// first, and of a buffer with several tails what all of them have.
func (o *Partial) sortBehind() {
	words := (len(o.lives) + 63) / 64
	born := make([][]int, len(o.nodes.Topo)) // buffers with one head, by head
	var many []int                           // the others
	for i, l := range o.lives {
		if len(l.Heads) == 1 {
			born[l.Heads[0]] = append(born[l.Heads[0]], i)
		} else {
			many = append(many, i)
		}
	}
	rows := make([]bitset, len(o.nodes.Topo))
	for _, u := range slices.Backward(o.nodes.Topo) {
		row := make(bitset, words)
		for _, v := range o.nodes.Succ[u] {
			row.join(rows[v])
			for _, i := range born[v] {
				row[i>>6] |= 1 << (i & 63)
			}
		}
		for _, i := range many {
			if !slices.ContainsFunc(o.lives[i].Heads, func(h int) bool { return !o.nodes.Before(int(u), h) }) {
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

func (o *Partial) checkLife(l Life) string {
	if len(l.Heads) == 0 || len(l.Tails) == 0 {
		return "has no head or no tail node"
	}
	for _, set := range [][]int{l.Heads, l.Tails} {
		for _, v := range set {
			if v < 0 || v >= len(o.nodes.Pos) {
				return fmt.Sprintf("lives at node %d, which does not exist", v)
			}
		}
	}
	for _, h := range l.Heads {
		for _, t := range l.Tails {
			if h == t || o.nodes.Before(h, t) {
				return ""
			}
		}
	}
	return "has no head that comes before a tail"
}

// sortBirths orders the buffers by the earliest head in the topological order.
func (o *Partial) sortBirths() {
	at := make([][]int, len(o.nodes.Pos))
	for i, l := range o.lives {
		first := o.nodes.Pos[l.Heads[0]]
		for _, h := range l.Heads {
			first = min(first, o.nodes.Pos[h])
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
		for _, h := range o.lives[b].Heads {
			best = max(best, o.nodes.Hops(t, h))
		}
	}
	return best
}

// has reports whether x is in the set.
func (b bitset) has(x int) bool { return x>>6 < len(b) && b[x>>6]>>(x&63)&1 == 1 }
