package planner

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/poset"
	"github.com/berth-onnx/berth/internal/rescue"
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
// Buffer y is after x when every head of y is reached from every tail of x by at least one edge; two buffers
// interfere when neither is after the other. A node that reads x and writes y therefore keeps them in separate bytes.
//
// Branches of an If that exclude each other may be put in sequence by edges from the last nodes of one to the first
// of the next: only one of them runs, so nothing is lost, and their buffers share memory.
//
// Source: NNC tensor allocation (exec-dep, head and tail of a block, "after").
type Partial struct {
	lives  []Life
	nodes  *poset.Order
	rows   []poset.Set // by buffer: those that interfere with it
	births []int
	first  []int // by buffer: the head of the lowest number
}

// NewPartial builds the order of a graph with nodes 0..nodes-1, which stand in one of their schedules: edges lead from a
// lower to a higher number. lives has one entry per buffer. It fails with a *ProblemError on other edges, on node numbers out
// of range, and on a live range without a head that reaches (or is) a tail.
func NewPartial(nodes int, edges [][2]int, lives []Life) (_ *Partial, err error) {
	defer rescue.Into(&err)
	order, err := poset.New(nodes, edges)
	if err != nil {
		return nil, &ProblemError{Buffer: -1, Reason: "has " + err.Error()}
	}
	o := &Partial{lives: lives, nodes: order}
	for i, l := range lives {
		if reason := o.checkLife(l); reason != "" {
			return nil, &ProblemError{Buffer: i, Reason: reason}
		}
		o.first = append(o.first, slices.Min(l.Heads))
		o.births = append(o.births, i)
		o.rows = append(o.rows, poset.NewSet(len(lives)))
	}
	slices.SortStableFunc(o.births, func(a, b int) int { return cmp.Compare(o.first[a], o.first[b]) })
	for k, a := range o.births {
		for _, b := range o.births[k+1:] { // a is not after b, whose first head does not come before that of a
			if !order.Follows(lives[b].Heads, lives[a].Tails) {
				o.rows[a].Add(b)
				o.rows[b].Add(a)
			}
		}
	}
	return o, nil
}

func (o *Partial) checkLife(l Life) string {
	if len(l.Heads) == 0 || len(l.Tails) == 0 {
		return "has no head or no tail node"
	}
	for _, v := range slices.Concat(l.Heads, l.Tails) {
		if v < 0 || v >= len(o.nodes.Succ) {
			return fmt.Sprintf("lives at node %d, which does not exist", v)
		}
	}
	for _, h := range l.Heads {
		if slices.ContainsFunc(l.Tails, func(t int) bool { return h == t || o.nodes.Before(h, t) }) {
			return ""
		}
	}
	return "has no head that comes before a tail"
}

// Len is the number of buffers.
func (o *Partial) Len() int { return len(o.lives) }

// Interfere reports whether neither buffer is after the other.
func (o *Partial) Interfere(a, b int) bool { return o.rows[a].Has(b) }

// Hops is the longest path from a tail of a to a head of b when b is after a, else 0.
func (o *Partial) Hops(a, b int) int {
	best := 0
	if o.rows[a].Has(b) || o.first[a] >= o.first[b] {
		return 0
	}
	for _, t := range o.lives[a].Tails {
		for _, h := range o.lives[b].Heads {
			best = max(best, o.nodes.Hops(t, h))
		}
	}
	return best
}
