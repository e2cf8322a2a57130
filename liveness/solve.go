package liveness

import (
	"context"
	"slices"

	"github.com/berth-onnx/berth/internal/slab"
	"github.com/berth-onnx/berth/ssa"
)

// From the live ranges of variables to the live ranges of bytes. A block must stay as long as
// anything that points to it, however many pointers lie between:
//
//	a  ■■■■■■               block               own live range, by the dataflow equations
//	b      ■■■■■■■          view of a
//	c           ■■■■■■■     If: b or something else
//	a  ■■■■■■■■■■■■■■■■     where a's bytes are needed: its own live range, b's and c's
//
// Pointers may lead around loops in circles, so live ranges are passed on along them until
// nothing changes; they only grow, and there are finitely many points.

// solve runs the dataflow equations over the steps and extends every block by
// the live ranges of the pointers that lead to it. A workspace is no variable of the
// equations: it is live at the steps of its node, in each copy of the loops around it, and
// at no other, so it shares its bytes with what the next step makes.
func (t *Timeline) solve(ctx context.Context, main *Arm) error {
	f := &Flow{Main: main, Vars: len(t.Vars), Uses: make([][]int, len(t.Steps)), Defs: make([][]int, len(t.Steps))}
	var ids slab.Of[int]
	for i, s := range t.Steps {
		if i%1024 == 1023 && ctx.Err() != nil {
			return ctx.Err()
		}
		f.Uses[i] = present(&ids, s.In)
		f.Defs[i] = present(&ids, s.Out)
	}
	if t.Own = f.solve(ctx); ctx.Err() != nil {
		return ctx.Err()
	}
	for i, s := range t.Steps {
		if s.Scratch != None {
			t.Own[s.Scratch] = t.Own[s.Scratch].Union(Set{{i, i + 1}})
		}
	}
	t.Live = make([]Set, len(t.Vars))
	copy(t.Live, t.Own)
	t.extend(ctx)
	return ctx.Err()
}

// present lists the variables of a step without the absent ones; it is the list given where none is.
func present(ids *slab.Of[int], list []int) []int {
	if !slices.Contains(list, None) {
		return list
	}
	out := ids.Make(len(list))[:0]
	for _, id := range list {
		if id != None {
			out = append(out, id)
		}
	}
	return out
}

// extend adds each pointer's live range to its sources until nothing changes: sources
// may be pointers themselves, in cycles where loops pass values around.
func (t *Timeline) extend(ctx context.Context) {
	work := make([]int, 0, len(t.Vars))
	queued := make([]bool, len(t.Vars))
	push := func(v int) {
		if len(t.Vars[v].Sources) > 0 && !queued[v] {
			queued[v] = true
			work = append(work, v)
		}
	}
	for v := len(t.Vars) - 1; v >= 0; v-- {
		push(v)
	}
	for len(work) > 0 && ctx.Err() == nil {
		v := work[0]
		work = work[1:]
		queued[v] = false
		for _, s := range t.Vars[v].Sources {
			u := t.Live[s].Union(t.Live[v])
			if !slices.Equal(u, t.Live[s]) {
				t.Live[s] = u
				push(s)
			}
		}
	}
}

// Roots returns the blocks a variable's bytes may belong to, ascending; for a
// block that is itself. A pointer to constants or inputs only has none. The list
// must not be changed. Variables that share a list have it from the same first element on; no two lists do otherwise.
func (t *Layout) Roots(v int) []int {
	if v == None {
		return nil
	}
	return t.roots[v]
}

// shownBy follows views to a variable whose answer is known, or that is no view.
func (t *Layout) shownBy(v int) int {
	at := v
	for t.Vars[at].Kind == Pointer && !t.Vars[at].Phi && len(t.Vars[at].Sources) == 1 {
		if at = t.Vars[at].Sources[0]; at < v {
			return t.shown[at]
		}
	}
	return at
}

// rootsOf follows sources, which may lead around loops in circles, to the blocks; not to all once the context has ended. A chain of
// loops that may run not at all makes one step for each of them.
func (t *Layout) rootsOf(ctx context.Context, v int) []int {
	if v == None {
		return nil
	}
	if x := &t.Vars[v]; len(x.Sources) == 0 {
		if x.Kind == Block {
			return []int{v}
		}
		return nil
	}
	seen := map[int]bool{}
	var out []int
	var visit func(int)
	visit = func(x int) {
		if seen[x] || len(seen)%1024 == 1023 && ctx.Err() != nil {
			return
		}
		seen[x] = true
		if t.Vars[x].Kind == Block {
			out = append(out, x)
		}
		for _, s := range t.Vars[x].Sources {
			visit(s)
		}
	}
	visit(v)
	slices.Sort(out)
	return out
}

// BlocksOf returns the blocks that the bytes of a value may belong to, in all the
// copies of the loops around it, ascending; none if it has no variable.
func (t *Layout) BlocksOf(v *ssa.Value) []int {
	p := t.PlacesOf(v)
	if p == nil {
		return nil
	}
	var out []int
	for _, id := range p.Vars {
		out = append(out, t.Roots(id)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Shown follows views to the variable whose content they show. Blocks and merged
// values are returned as they are.
func (t *Layout) Shown(v int) int { return t.shown[v] }
