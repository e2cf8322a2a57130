package liveness

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/berth-onnx/berth/internal/poset"
)

// The equations over sets of variables by block, without the tree: the oracle for [Flow.Solve]. Its sets take memory that
// grows with the square of the program.

// blocks is a control-flow graph. A block is a run of steps with one way in and one way out.
type blocks struct {
	Flow
	Blocks []block
}

type block struct {
	Lo, Hi int
	Succ   []int
}

func blocksOf(f *Flow) *blocks {
	b := &blocks{Flow: *f}
	b.arm(f.Main)
	return b
}

// arm adds the blocks of an arm and returns the first and the last.
func (f *blocks) arm(a *Arm) (first, last int) {
	open := func(lo int) int {
		f.Blocks = append(f.Blocks, block{Lo: lo})
		return len(f.Blocks) - 1
	}
	flow := func(from, to int) { f.Blocks[from].Succ = append(f.Blocks[from].Succ, to) }
	first = open(a.Lo)
	last = first
	for _, k := range a.Forks {
		enter := last
		f.Blocks[enter].Hi = k.lo()
		var heads, tails []int
		for _, inner := range k.Arms {
			h, t := f.arm(inner)
			heads, tails = append(heads, h), append(tails, t)
		}
		last = open(k.hi())
		for i := range heads {
			flow(tails[i], last)
			if k.Loop {
				flow(tails[i], heads[k.next(i)])
			}
			if !k.Loop || i == 0 {
				flow(enter, heads[i])
			}
		}
		if k.Skip {
			flow(enter, last)
		}
	}
	f.Blocks[last].Hi = a.Hi
	return first, last
}

func (f *blocks) solve() []Set {
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
		for b := nb - 1; b >= 0; b-- {
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
	return f.ranges(out)
}

// newSets makes an empty set of variables for every block.
func (f *blocks) newSets() []poset.Set {
	out := make([]poset.Set, len(f.Blocks))
	for i := range out {
		out[i] = poset.NewSet(f.Vars)
	}
	return out
}

// ranges turns live-out sets into point sets.
func (f *blocks) ranges(out []poset.Set) []Set {
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

// randomArm draws an arm that begins at a step.
func randomArm(r *rand.Rand, lo, depth int) *Arm {
	a := &Arm{Lo: lo}
	at := lo + 1 + r.IntN(3)
	for range r.IntN(4) {
		if depth == 0 {
			break
		}
		f := &Fork{Loop: r.IntN(2) == 0}
		for range 1 + r.IntN(4) {
			inner := randomArm(r, at, depth-1)
			f.Arms, at = append(f.Arms, inner), inner.Hi
		}
		f.Again, f.Skip = r.IntN(len(f.Arms)), f.Loop && r.IntN(2) == 0
		a.Forks = append(a.Forks, f)
		at += 1 + r.IntN(3)
	}
	a.Hi = at
	return a
}

func TestSolveAgreesWithTheEquations(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 7))
		f := &Flow{Main: randomArm(r, 0, 3), Vars: 1 + r.IntN(6)}
		f.Uses, f.Defs = make([][]int, f.Main.Hi), make([][]int, f.Main.Hi)
		for s := range f.Main.Hi {
			for v := range f.Vars {
				switch r.IntN(12) {
				case 0:
					f.Uses[s] = append(f.Uses[s], v)
				case 1:
					f.Defs[s] = append(f.Defs[s], v)
				}
			}
		}
		assert.Equal(t, blocksOf(f).solve(), f.Solve(), "seed %d", seed)
	}
}
