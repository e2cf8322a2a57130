package layout

import (
	"context"
	"math"
	"slices"
)

// network is a flow network whose minimum cut is wanted. Vertices before the cut (on the
// side of the source) are blocked, those behind it plain; an edge u → v costs its capacity
// where u is blocked and v plain.
//
// Dinic's algorithm: while vertices can be reached from the source, push flow along shortest
// ways (E. A. Dinic, "Algorithm for solution of a problem of maximum flow in a network with
// power estimation", 1970). Networks here have a few edges for each node of a model.
type network struct {
	arcs  []arc   // i^1 is the reverse of i
	first []int32 // arc of each vertex, -1 for none

	level []int32
	queue []int32 // of vertices whose level is known
	next  []int32 // arc of each vertex that has not been tried
}

// arc is an edge in one direction.
type arc struct {
	room int64 // capacity that is left
	to   int32
	next int32 // of the same vertex, -1 for none
}

// The terminals.
const (
	blockedSide = 0
	plainSide   = 1
)

// forbidden is a capacity that no minimum cut crosses.
const forbidden = math.MaxInt64 / 4

func newNetwork() *network {
	return &network{first: []int32{-1, -1}}
}

// vertex adds a vertex.
func (f *network) vertex() int {
	f.first = append(f.first, -1)
	return len(f.first) - 1
}

// reserve makes room for so many further edges.
//
//go:noinline
func (f *network) reserve(edges int) { f.arcs = slices.Grow(f.arcs, 2*edges) }

// edge lets u blocked and v plain cost something.
func (f *network) edge(u, v int, cost float64) {
	f.capacity(u, v, int64(min(cost, forbidden/8)))
}

func (f *network) capacity(u, v int, c int64) {
	if len(f.arcs)+2 > cap(f.arcs) { // twice as many: append grows long lists by a quarter, and writes five times as much in all
		f.reserve(len(f.arcs)/2 + 1)
	}
	i := int32(len(f.arcs))
	f.arcs = append(f.arcs, arc{c, int32(v), f.first[u]}, arc{0, int32(u), f.first[v]})
	f.first[u], f.first[v] = i, i+1
}

// cut returns the cost of a minimum cut and which vertices are blocked: of all minimum cuts the
// one with the fewest.
func (f *network) cut(ctx context.Context) (cost int64, blocked []bool, err error) {
	for f.levels(ctx) {
		f.next = append(f.next[:0], f.first...)
		for {
			if err := ctx.Err(); err != nil {
				return 0, nil, err
			}
			pushed := f.push(blockedSide, forbidden)
			if pushed == 0 {
				break
			}
			cost += pushed
		}
	}
	blocked = make([]bool, len(f.first))
	for v, l := range f.level {
		blocked[v] = l >= 0
	}
	return cost, blocked, nil
}

// levels counts the edges from the source to each vertex; false if the sink is out of reach. Where the context ends it counts no further.
func (f *network) levels(ctx context.Context) bool {
	if f.level == nil {
		f.level, f.queue = make([]int32, len(f.first)), make([]int32, 0, len(f.first))
	}
	for i := range f.level {
		f.level[i] = -1
	}
	f.level[blockedSide] = 0
	f.queue = append(f.queue[:0], blockedSide)
	for k := 0; k < len(f.queue); k++ {
		if ctx.Err() != nil {
			return true
		}
		v := f.queue[k]
		for e := f.first[v]; e >= 0; e = f.arcs[e].next {
			if a := &f.arcs[e]; a.room > 0 && f.level[a.to] < 0 {
				f.level[a.to] = f.level[v] + 1
				f.queue = append(f.queue, a.to)
			}
		}
	}
	return f.level[plainSide] >= 0
}

// push sends up to most from u to the sink along one shortest way. Its depth is bounded by the
// length of that way, a few vertices for each node between two conversions.
func (f *network) push(u int32, most int64) int64 {
	if u == plainSide {
		return most
	}
	for ; f.next[u] >= 0; f.next[u] = f.arcs[f.next[u]].next {
		e := f.next[u]
		a := &f.arcs[e]
		if a.room <= 0 || f.level[a.to] != f.level[u]+1 {
			continue
		}
		if pushed := f.push(a.to, min(most, a.room)); pushed > 0 {
			a.room -= pushed
			f.arcs[e^1].room += pushed
			return pushed
		}
	}
	return 0
}
