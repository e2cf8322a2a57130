package liveness

import (
	"context"
	"slices"

	"github.com/berth-onnx/berth/internal/poset"
)

// Flow is a control-flow graph over steps. Each step is one time point; a block
// is a run of steps with one way in and one way out.
//
//	        ┌──────────┐
//	        │ 0 … 4    │ entry
//	        └────┬─────┘
//	    ┌────────▼───────┐
//	┌──▶│ 5 … 8   body   │──┐   an edge back: what the next iteration
//	│   └────────┬───────┘  │   reads is live over it
//	└────────────┘          │
//	        ┌──────────┐◀───┘
//	        │ 9 …      │ exit
//	        └──────────┘
type Flow struct {
	Blocks []FlowBlock
	Uses   [][]int // by step: the variables it reads
	Defs   [][]int // by step: the variables it writes
	Vars   int     // number of variables
}

// FlowBlock is the run of steps [Lo, Hi) and the blocks that can follow.
type FlowBlock struct {
	Lo, Hi int
	Succ   []int
}

// Solve computes where every variable is live: the points from each definition
// to each use it reaches, both included. It solves the classic equations
//
//	out[b] = ∪ in[s] over successors s
//	in[b]  = use[b] ∪ (out[b] − def[b])
//
// over bit sets by block, repeating in reverse order until nothing changes, and
// then walks each block once backwards. A variable that is written and never
// read is live at the point that writes it and the one after, so that it is seen
// to meet everything that outlives the step.
//
// Source: A. Appel, Modern Compiler Implementation, chapter 10; the memory
// optimization transpiler's design uses the same equations.
func (f *Flow) Solve() []Set { return f.solve(context.Background()) }

// solve is Solve until the context ends; then the answer is of no use.
func (f *Flow) solve(ctx context.Context) []Set {
	nb := len(f.Blocks)
	in, out := f.newSets(), f.newSets()
	use, def := f.newSets(), f.newSets()
	for b, blk := range f.Blocks {
		for s := blk.Hi - 1; s >= blk.Lo; s-- {
			for _, v := range f.Defs[s] {
				def[b].Add(v)
				use[b].Remove(v)
			}
			for _, v := range f.Uses[s] {
				use[b].Add(v)
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for b := nb - 1; b >= 0 && ctx.Err() == nil; b-- {
			for _, s := range f.Blocks[b].Succ {
				out[b].Join(in[s])
			}
			for w := range in[b] {
				if n := use[b][w] | out[b][w]&^def[b][w]; n != in[b][w] {
					in[b][w] = n
					changed = true
				}
			}
		}
	}
	return f.ranges(ctx, out)
}

// newSets makes an empty set of variables for every block.
func (f *Flow) newSets() []poset.Set {
	out := make([]poset.Set, len(f.Blocks))
	for i := range out {
		out[i] = poset.NewSet(f.Vars)
	}
	return out
}

// ranges turns live-out sets into point sets. It walks the blocks from the last
// to the first with the set of variables that are live, and looks only at those
// in which that set and what lives out of the next block on the way differ: a
// variable that lives through many blocks costs nothing there.
func (f *Flow) ranges(ctx context.Context, out []poset.Set) []Set {
	live := make([]Set, f.Vars)
	end := make([]int, f.Vars) // exclusive end of the open run, 0 = not live
	order := make([]int, len(f.Blocks))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return f.Blocks[b].Lo - f.Blocks[a].Lo })
	now := poset.NewSet(f.Vars) // live at the point from
	from := 0
	emit := func(v, lo int) {
		live[v] = append(live[v], Range{lo, end[v]})
		end[v] = 0
		now.Remove(v)
	}
	open := func(v, hi int) {
		if end[v] == 0 {
			end[v] = hi
			now.Add(v)
		}
	}
	for _, b := range order {
		if ctx.Err() != nil {
			break
		}
		blk := f.Blocks[b]
		if from != blk.Hi {
			now.Each(func(v int) { emit(v, from) })
		}
		without(now, out[b]).Each(func(v int) { emit(v, blk.Hi) })
		without(out[b], now).Each(func(v int) { open(v, blk.Hi) })
		for s := blk.Hi - 1; s >= blk.Lo; s-- {
			for _, v := range f.Defs[s] {
				open(v, min(s+2, blk.Hi))
				emit(v, s)
			}
			for _, v := range f.Uses[s] {
				open(v, s+1)
			}
		}
		from = blk.Lo
	}
	now.Each(func(v int) { emit(v, from) })
	for v := range live {
		live[v] = normalize(live[v])
	}
	return live
}

// without is what is in a and not in b.
func without(a, b poset.Set) poset.Set {
	out := slices.Clone(a)
	for w := range out {
		out[w] &^= b[w]
	}
	return out
}

// normalize sorts runs and merges those that touch.
func normalize(s Set) Set {
	slices.SortFunc(s, func(a, b Range) int { return a.Lo - b.Lo })
	out := s[:0]
	for _, r := range s {
		if k := len(out) - 1; k >= 0 && r.Lo <= out[k].Hi {
			out[k].Hi = max(out[k].Hi, r.Hi)
		} else if r.Lo < r.Hi {
			out = append(out, r)
		}
	}
	return out
}
