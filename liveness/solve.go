package liveness

import (
	"slices"

	"github.com/berth-onnx/berth/ssa"
)

// From the lives of variables to the lives of bytes. A block must stay as long as
// anything that points to it, however many pointers lie between:
//
//	a  ■■■■■■               block               own life, by the dataflow equations
//	b      ■■■■■■■          view of a
//	c           ■■■■■■■     If: b or something else
//	a  ■■■■■■■■■■■■■■■■     where a's bytes are needed: its own life, b's and c's
//
// Pointers may lead around loops in circles, so lives are handed on along them until
// nothing changes; they only grow, and there are finitely many points.

// solve runs the dataflow equations over the steps and extends every block by
// the lives of the pointers that lead to it.
func (t *Timeline) solve() {
	f := &Flow{Blocks: t.Blocks, Vars: len(t.Vars), Uses: make([][]int, len(t.Steps)), Defs: make([][]int, len(t.Steps))}
	for i, s := range t.Steps {
		f.Uses[i] = present(s.In)
		f.Defs[i] = present(s.Out)
		if s.Scratch != None {
			f.Defs[i] = append(f.Defs[i], s.Scratch)
		}
	}
	t.Own = f.Solve()
	t.Live = make([]Set, len(t.Vars))
	copy(t.Live, t.Own)
	t.extend()
}

func present(ids []int) []int {
	var out []int
	for _, id := range ids {
		if id != None {
			out = append(out, id)
		}
	}
	return out
}

// extend adds each pointer's life to its sources until nothing changes: sources
// may be pointers themselves, in cycles where loops pass values around.
func (t *Timeline) extend() {
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
	for len(work) > 0 {
		v := work[0]
		work = work[1:]
		queued[v] = false
		for _, s := range t.Vars[v].Sources {
			u := t.Live[s].Union(t.Live[v])
			if !equalSets(u, t.Live[s]) {
				t.Live[s] = u
				push(s)
			}
		}
	}
}

func equalSets(a, b Set) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Roots returns the blocks a variable's bytes may belong to, ascending; for a
// block that is itself. A pointer to constants or inputs only has none. The list
// must not be changed.
func (t *Layout) Roots(v int) []int {
	if v == None {
		return nil
	}
	return t.roots[v]
}

// findRoots notes the roots of all variables of a finished layout.
func (t *Layout) findRoots() {
	t.roots = make([][]int, len(t.Vars))
	for v := range t.Vars {
		t.roots[v] = t.rootsOf(v)
	}
}

// rootsOf follows sources, which may lead around loops in circles, to the blocks.
func (t *Layout) rootsOf(v int) []int {
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
		if seen[x] {
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
	p := t.places[v]
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

// Shown is the variable whose content a view shows: views are followed, blocks and
// merged values stand for themselves.
func (t *Layout) Shown(v int) int {
	for t.Vars[v].Kind == Pointer && !t.Vars[v].Phi && len(t.Vars[v].Sources) == 1 {
		v = t.Vars[v].Sources[0]
	}
	return v
}
