package liveness

import "slices"

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
// block that is itself. A pointer to constants or inputs only has none.
func (t *Layout) Roots(v int) []int {
	if v == None {
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
