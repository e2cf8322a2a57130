package program

import (
	"context"
)

// How often loops run in the replays of a check. With R the longest ring of any loop,
// all loops run t times, for each t from 0 to 2R+1; then, if there are several, a
// different number of times each time that one is entered. Branches are taken in up
// to four patterns.
//
//	all      outer t, inner t                     t times t bodies: too many in deep nests
//	focused  outer t, inner n, then               n is 3, 2 or 1
//	         outer n, inner t
//
// Iterations of nested loops multiply. Where a replay of t iterations everywhere would
// take too long, each loop in turn runs t times while the others run a few.

// tripCounts are the trip counts of one replay.
type tripCounts struct {
	all   int   // of every loop; negative: a different one each time
	focus *Loop // if not nil, the one loop that runs all times
	few   int   // how often the others run then
	most  int   // one more than the largest count if they differ
}

// mixed, and the numbers below it, ask for a trip count that differs each time a
// loop is entered: an inner loop that runs three times, then not at all.
const (
	mixed      = -1
	mixedKinds = 6
)

// Check replays the program for every pattern of trip counts and branches. It ends with
// the cause of the context if that ends before.
func Check(ctx context.Context, p *Program) error { return replays(ctx, p, nil) }

// replays replays the program in every pattern, with or without an eye on what
// other schedules could do.
func replays(ctx context.Context, p *Program, orders map[*Block]*order) error {
	patterns := 1
	p.Main.each(ctx, func(in *Instr) {
		if in.Kind == Branch {
			patterns = 4
		}
	})
	for _, t := range countsOf(ctx, p) {
		for pattern := range patterns {
			r := newReplay(ctx, p, t, pattern)
			if orders != nil {
				r.race = &races{orders: orders}
			}
			if err := r.main(); err != nil {
				return err
			}
		}
	}
	return nil
}

// countsOf lists the trip counts of all replays, or some of them once the context has ended.
func countsOf(ctx context.Context, p *Program) []tripCounts {
	var loops []*Loop
	rings, work := 0, 0
	p.Main.each(ctx, func(in *Instr) {
		work++
		if in.Loop != nil {
			loops = append(loops, in.Loop)
			rings = max(rings, in.Loop.Ring)
		}
	})
	if len(loops) == 0 {
		return []tripCounts{{all: 1}}
	}
	var out []tripCounts
	for t := range 2*rings + 2 {
		limit := max(replayWork, 2*(t+1)*work)
		if all := (tripCounts{all: t}); all.work(p.Main) <= limit {
			out = append(out, all)
			continue
		}
		for _, l := range loops {
			if ctx.Err() != nil {
				return out
			}
			if t <= 2*l.Ring+1 {
				out = append(out, focused(p, l, t, limit))
			}
		}
	}
	if len(loops) > 1 {
		most := 2*rings + 2
		for most > 2 && (tripCounts{all: most - 1}).work(p.Main) > max(replayWork, 2*most*work) {
			most--
		}
		for k := range mixedKinds {
			out = append(out, tripCounts{all: mixed - k, most: most})
		}
	}
	return out
}

// replayWork is how many instructions a replay may have in any case.
const replayWork = 1 << 13

// focused runs one loop t times and the others as often as the limit allows.
func focused(p *Program, l *Loop, t, limit int) tripCounts {
	c := tripCounts{all: t, focus: l, few: 3}
	for c.few > 1 && c.work(p.Main) > limit {
		c.few--
	}
	return c
}

// work is how many instructions a replay of a block has, or a large number.
func (c tripCounts) work(b *Block) int {
	n := len(b.Instrs)
	for i := range b.Instrs {
		in := &b.Instrs[i]
		inner := 0
		for _, body := range in.Bodies {
			inner = max(inner, c.work(body))
		}
		if in.Loop != nil {
			inner *= in.Loop.within(c.of(in.Loop))
		}
		n = min(n+inner, 1<<30)
	}
	return n
}

// of is how often a loop runs, before what is known of it limits that.
func (c tripCounts) of(l *Loop) int {
	if c.focus != nil && c.focus != l {
		return c.few
	}
	return c.all
}

// within limits a number of iterations to those that the loop can have.
func (l *Loop) within(trips int) int {
	return min(max(trips, l.MinTrips), l.MaxTrips)
}

// tripsNow is how often the loop entered now runs in this replay.
func (r *replay) tripsNow(l *Loop) int {
	if r.trips.all > mixed {
		return l.within(r.trips.of(l))
	}
	r.entered++
	h := uint32(r.entered)*2654435761 + uint32(-r.trips.all)*40503
	return l.within(int(h>>7) % r.trips.most)
}
