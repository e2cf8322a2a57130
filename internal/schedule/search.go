package schedule

import (
	"container/heap"
	"context"
	"encoding/binary"
	"math"
	"slices"
)

// The search for the order of a cell that needs the least memory: states are sets
// of executed nodes, the price of a way to a state is the most memory any step on
// it needs, and the cheapest state is taken first (Dijkstra's algorithm with
// maximum for sum).
//
//	       ∅ 0
//	   ╭───┴───╮
//	 {a} 5   {b} 3 ◀ taken first       The price of what is taken never falls: it is
//	   ╰───┬───╯                       a lower bound for every order at any time, and
//	    {a,b} 5                        that of the full set is the answer.
//
// How a state was reached does not matter for what follows, so each is taken once.
// A state that is taken first makes all its safe moves (safemoves.go). Among equals
// the fullest is taken, then the one found first, so that the search runs like a
// depth-first one in the order of the graph until memory grows.
//
// Sources: B. Ahn et al., Ordering Chaos: Memory-Aware Scheduling of Irregularly
// Wired Neural Networks for Edge Devices (SERENITY), 2020, for dynamic programming
// over executed sets and cutting at single nodes; E. Kayaaslan et al., Scheduling
// series-parallel task graphs to minimize peak memory, 2018.

// found is the outcome of a search.
type found struct {
	order []int32 // nodes of the cell's model, best known
	peak  int64
	bound int64 // every order needs that much
	steps int64 // work done
	nodes int64 // states taken
	only  bool  // there is no other order
	laid  laying
}

// state is a set of executed nodes on the way to a full order.
type state struct {
	done   []uint64
	trail  []int32 // executed since parent
	parent int32
	count  int32 // executed in all
	price  int64 // most memory any step on the way needs
	live   int64
}

// searcher holds the states of one search.
type searcher struct {
	sim    *sim
	states []state
	best   map[string]int64 // lowest price of a set so far, -1 when taken
	queue  []int32
}

func newSearcher(s *sim) *searcher { return &searcher{sim: s, best: map[string]int64{}} }

// Len, Less, Swap, Push and Pop make the searcher a heap of its queued states.
func (q *searcher) Len() int { return len(q.queue) }

// Less takes the lower price, then the fuller state, then the older.
func (q *searcher) Less(a, b int) bool {
	x, y := &q.states[q.queue[a]], &q.states[q.queue[b]]
	switch {
	case x.price != y.price:
		return x.price < y.price
	case x.count != y.count:
		return x.count > y.count
	}
	return q.queue[a] < q.queue[b]
}

// Swap exchanges two queued states.
func (q *searcher) Swap(a, b int) { q.queue[a], q.queue[b] = q.queue[b], q.queue[a] }

// Push queues a state.
func (q *searcher) Push(x any) { q.queue = append(q.queue, x.(int32)) }

// Pop removes the last queued state.
func (q *searcher) Pop() any {
	last := q.queue[len(q.queue)-1]
	q.queue = q.queue[:len(q.queue)-1]
	return last
}

// add queues the state the simulation is in, unless its set is known at that price.
func (q *searcher) add(parent int32, price int64, trail []int32) {
	key := setKey(q.sim.done)
	if old, ok := q.best[key]; ok && old <= price {
		return
	}
	q.best[key] = price
	q.states = append(q.states, state{slices.Clone(q.sim.done), slices.Clone(trail), parent, int32(len(q.sim.trail)), price, q.sim.live})
	heap.Push(q, int32(len(q.states)-1))
}

// setKey is a set as a key of a map.
func setKey(set []uint64) string {
	key := make([]byte, 0, 8*len(set))
	for _, w := range set {
		key = binary.LittleEndian.AppendUint64(key, w)
	}
	return string(key)
}

// order is the way to a state.
func (q *searcher) order(k int32) []int32 {
	var runs [][]int32
	for ; k >= 0; k = q.states[k].parent {
		runs = append(runs, q.states[k].trail)
	}
	slices.Reverse(runs)
	return slices.Concat(runs...)
}

// search looks for an order of the model with the least peak, given one that is
// known. It need not be below floor, which is needed here or elsewhere anyway. It
// stops when the context ends or after about so many steps; what it has then is in
// the answer, unless the context ended while the known order of a large model was simulated. A peak at or below floor counts as proven, with itself as bound.
func search(ctx context.Context, m *model, known []int32, floor, steps int64) found {
	s := newSim(ctx, m)
	out := found{order: known, peak: s.peakOf(ctx, known)}
	out.bound = floor
	if out.peak <= out.bound || ctx.Err() != nil {
		out.bound = min(out.bound, out.peak)
		return out
	}
	keep := func(order []int32, peak int64) bool {
		if order != nil && peak < out.peak {
			out.order, out.peak = order, peak
		}
		return out.peak <= out.bound
	}
	done := keep(walk(ctx, s, out.bound, steps))
	if width := beamWidth(len(m.nodes), steps); !done && width > 1 {
		done = keep(beam(ctx, s, width, out.bound, steps/2))
	}
	if done {
		out.bound, out.steps = out.peak, s.steps
		return out
	}
	if s.steps+fewStates*int64(len(m.nodes)) > steps {
		out.steps = s.steps // a search would hardly begin
		return out
	}
	q := newSearcher(s)
	s.reset(nil)
	q.add(-1, out.bound, nil)
	q.run(ctx, &out, steps)
	out.steps = s.steps
	return out
}

// run takes states until the answer is proven or the work is used up.
func (q *searcher) run(ctx context.Context, out *found, steps int64) {
	s := q.sim
	for q.Len() > 0 {
		k := heap.Pop(q).(int32)
		at := q.states[k]
		if q.best[setKey(at.done)] != at.price {
			continue // reached at a lower price, or taken
		}
		out.bound = max(out.bound, at.price)
		if s.steps > steps || len(q.states) > min(maxStates, maxWords/len(at.done)) || out.nodes&63 == 63 && ctx.Err() != nil {
			return
		}
		out.nodes++
		q.best[setKey(at.done)] = math.MinInt64
		s.reset(at.done)
		from := len(s.trail)
		s.safeMoves(ctx, out.bound, steps)
		moves := slices.Clone(s.trail[from:])
		if len(s.trail) == len(s.m.nodes) {
			out.order, out.peak = append(q.order(k), moves...), at.price
			return
		}
		if len(moves) > 0 {
			key := setKey(s.done)
			if q.best[key] == math.MinInt64 {
				continue
			}
			q.best[key] = math.MinInt64
		}
		q.branch(ctx, k, moves, out)
	}
	if ctx.Err() == nil {
		out.bound = out.peak // nothing is left below
	}
}

// branch queues what can run next in the state the simulation is in.
func (q *searcher) branch(ctx context.Context, k int32, moves []int32, out *found) {
	s := q.sim
	base := len(s.trail)
	for _, n := range s.readyNodes() {
		if ctx.Err() != nil {
			return
		}
		if price := max(s.exec(n), out.bound); price < out.peak {
			q.add(k, price, append(moves[:len(moves):len(moves)], s.trail[base:]...))
		}
		s.rollback(base)
	}
}

// fewStates is how many states a search must be able to take to be worth beginning; each
// takes as many steps as there are nodes.
const fewStates = 32

// maxStates and maxWords bound the memory of one search: how many states there are,
// and the words of the sets of all of them.
const (
	maxStates = 1 << 18
	maxWords  = 1 << 24
)
