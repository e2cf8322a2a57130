package schedule

import (
	"cmp"
	"context"
	"slices"
	"sort"
)

// beam builds an order step by step, keeping only the best few beginnings: those
// that have needed the least so far, then those that leave the least in use. With
// width one it is a greedy order. Its peak is only an upper bound; it serves where
// the search does not end, and lets the search drop what can not be better.
//
//	{}          ─▶  {a} {b} {c}       the cheapest two go on
//	{a} {b}     ─▶  {a b} {a c} {b d}    equal sets are one
//	{a b} {b d} ─▶  …
//
// Steps are safe moves for what is needed anyway, and then one node.
//
// It gives up, with a nil order, when the context ends or after so many steps.
func beam(ctx context.Context, s *sim, width int, floor, steps int64) ([]int32, int64) {
	steps += s.steps
	s.reset(nil)
	layer := []state{{done: slices.Clone(s.done), parent: -1, price: floor, live: s.live}}
	for ctx.Err() == nil && s.steps < steps {
		var next []state
		seen := map[string]int{}
		for i := range layer {
			at := &layer[i]
			s.reset(at.done)
			base := len(s.trail)
			s.safeMoves(ctx, max(at.price, floor), steps)
			if len(s.trail) == len(s.m.nodes) {
				return append(slices.Clone(at.trail), s.trail[base:]...), at.price
			}
			next = grow(ctx, s, at, base, next, seen)
		}
		sort.SliceStable(next, func(i, j int) bool { return next[i].compare(next[j]) < 0 })
		layer = next[:min(width, len(next))]
	}
	return nil, 0
}

// compare orders beginnings: the lower price first, then what is live, then the longer one.
func (a state) compare(b state) int {
	return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.live, b.live), cmp.Compare(b.count, a.count))
}

// walk is the beam of width one, without going back to the beginning at every step: it is for graphs for which that
// takes too long.
func walk(ctx context.Context, s *sim, floor, steps int64) ([]int32, int64) {
	steps += s.steps
	s.reset(nil)
	price := floor
	for ctx.Err() == nil && s.steps < steps {
		s.safeMoves(ctx, price, steps)
		if len(s.trail) == len(s.m.nodes) {
			return slices.Clone(s.trail), price
		}
		var best state
		pick, mark := int32(-1), len(s.trail)
		for _, n := range s.readyNodes() {
			if ctx.Err() != nil {
				return nil, 0
			}
			next := state{price: max(price, s.exec(n)), live: s.live, count: int32(len(s.trail))}
			if pick < 0 || next.compare(best) < 0 {
				pick, best = n, next
			}
			s.rollback(mark)
		}
		s.exec(pick)
		price = best.price
	}
	return nil, 0
}

// grow appends the states one node further than the one the simulation is in,
// whose steps since at are s.trail[base:].
func grow(ctx context.Context, s *sim, at *state, base int, next []state, seen map[string]int) []state {
	mark := len(s.trail)
	for _, n := range s.readyNodes() {
		if ctx.Err() != nil {
			break
		}
		price := max(at.price, s.exec(n))
		key := setKey(s.done)
		k, old := seen[key]
		if !old || price < next[k].price {
			x := state{done: slices.Clone(s.done), trail: append(slices.Clone(at.trail), s.trail[base:]...), parent: -1,
				count: int32(len(s.trail)), price: price, live: s.live}
			if old {
				next[k] = x
			} else {
				seen[key] = len(next)
				next = append(next, x)
			}
		}
		s.rollback(mark)
	}
	return next
}

// beamWidth is how many beginnings of so many nodes to keep, so that the beam takes
// a small part of the work allowed.
func beamWidth(nodes int, steps int64) int {
	return int(min(max(steps/4/int64(nodes*nodes+1), 1), 32))
}
