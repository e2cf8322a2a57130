package liveness

import (
	"math/bits"
	"slices"
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
func (f *Flow) Solve() []Set {
	words := (f.Vars + 63) / 64
	nb := len(f.Blocks)
	in, out := newBits(nb, words), newBits(nb, words)
	use, def := newBits(nb, words), newBits(nb, words)
	for b, blk := range f.Blocks {
		for s := blk.Hi - 1; s >= blk.Lo; s-- {
			for _, v := range f.Defs[s] {
				def[b].set(v)
				use[b].clear(v)
			}
			for _, v := range f.Uses[s] {
				use[b].set(v)
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for b := nb - 1; b >= 0; b-- {
			for _, s := range f.Blocks[b].Succ {
				out[b].or(in[s])
			}
			for w := range words {
				if n := use[b][w] | out[b][w]&^def[b][w]; n != in[b][w] {
					in[b][w] = n
					changed = true
				}
			}
		}
	}
	return f.ranges(out)
}

// ranges turns live-out sets into point sets. It walks the blocks from the last
// to the first with the set of variables that are live, and looks only at those
// in which that set and what lives out of the next block on the way differ: a
// variable that lives through many blocks costs nothing there.
func (f *Flow) ranges(out []bitset) []Set {
	live := make([]Set, f.Vars)
	end := make([]int, f.Vars) // exclusive end of the open run, 0 = not live
	order := make([]int, len(f.Blocks))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return f.Blocks[b].Lo - f.Blocks[a].Lo })
	now := newBits(1, (f.Vars+63)/64)[0] // live at the point from
	from := 0
	emit := func(v, lo int) {
		live[v] = append(live[v], Range{lo, end[v]})
		end[v] = 0
		now.clear(v)
	}
	open := func(v, hi int) {
		if end[v] == 0 {
			end[v] = hi
			now.set(v)
		}
	}
	for _, b := range order {
		blk := f.Blocks[b]
		if from != blk.Hi {
			now.each(func(v int) { emit(v, from) })
		}
		now.without(out[b]).each(func(v int) { emit(v, blk.Hi) })
		out[b].without(now).each(func(v int) { open(v, blk.Hi) })
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
	now.each(func(v int) { emit(v, from) })
	for v := range live {
		live[v] = normalize(live[v])
	}
	return live
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

type bitset []uint64

func newBits(n, words int) []bitset {
	all := make([]uint64, n*words)
	out := make([]bitset, n)
	for i := range out {
		out[i] = all[i*words : (i+1)*words]
	}
	return out
}

func (b bitset) set(i int)   { b[i/64] |= 1 << (i % 64) }
func (b bitset) clear(i int) { b[i/64] &^= 1 << (i % 64) }
func (b bitset) or(c bitset) {
	for i := range b {
		b[i] |= c[i]
	}
}

// without is what is in b and not in c.
func (b bitset) without(c bitset) bitset {
	d := make(bitset, len(b))
	for i := range b {
		d[i] = b[i] &^ c[i]
	}
	return d
}

func (b bitset) each(f func(int)) {
	for w, x := range b {
		for x != 0 {
			f(w*64 + bits.TrailingZeros64(x))
			x &= x - 1
		}
	}
}
