package liveness

import (
	"context"
	"slices"
)

// The roots of all variables. Sources lead around loops in circles, and all variables of a circle have the same roots: those
// of what leads into it. So components that are strongly connected are found, each after those that its sources lie in:
//
//	x ◀── p ◀─▶ q ──▶ y        p and q are one component, with the roots of x and y
//
// Variables with equal roots share one list where one is a source of the other: in a chain of loops, each of which may
// not run at all, there is a list for each loop, not for each variable.
//
// Source: R. Tarjan, Depth-first search and linear graph algorithms, 1972.

// rootFinder finds the roots of the variables of a layout.
type rootFinder struct {
	ctx   context.Context
	t     *Layout
	seen  []int32 // by variable: when it was met, from 1 on
	low   []int32 // by variable: the earliest met that it leads back to
	done  []bool
	own   []int // of which the lists of single blocks are cut
	count int32
	stack []int
}

// findRoots notes the roots of all variables of a finished layout.
func (t *Layout) findRoots(ctx context.Context) error {
	n := len(t.Vars)
	t.roots, t.shown = make([][]int, n), make([]int, n)
	f := &rootFinder{ctx: ctx, t: t, seen: make([]int32, n), low: make([]int32, n), done: make([]bool, n), own: make([]int, n)}
	for v := range t.Vars {
		if v%1024 == 0 && ctx.Err() != nil {
			break
		}
		t.shown[v] = t.shownBy(v)
		switch s := t.Vars[v].Sources; {
		case f.done[v]:
		case len(s) == 1 && f.done[s[0]] && t.Vars[v].Kind != Block:
			t.roots[v], f.done[v] = t.roots[s[0]], true
		default:
			f.visit(v)
		}
	}
	return ctx.Err()
}

// visit finds the roots of a variable and of all that it leads to, or returns to the one that is part of the same component.
// It looks at the context where several lists may meet.
func (f *rootFinder) visit(v int) {
	if len(f.t.Vars[v].Sources) > 1 && f.ctx.Err() != nil {
		return
	}
	f.count++
	f.seen[v], f.low[v] = f.count, f.count
	at := len(f.stack)
	f.stack = append(f.stack, v)
	for _, s := range f.t.Vars[v].Sources {
		switch {
		case f.done[s]:
		case f.seen[s] == 0:
			f.visit(s)
			f.low[v] = min(f.low[v], f.low[s])
		default:
			f.low[v] = min(f.low[v], f.seen[s])
		}
	}
	if f.low[v] == f.seen[v] {
		f.finish(f.stack[at:])
		f.stack = f.stack[:at]
	}
}

// finish gives the variables of a component their roots.
func (f *rootFinder) finish(component []int) {
	var lists [][]int
	seen := map[*int]bool{} // a circle may have any number of sources
	add := func(list []int) {
		if len(list) > 0 && !seen[&list[0]] {
			seen[&list[0]] = true
			lists = append(lists, list)
		}
	}
	for _, v := range component {
		if f.t.Vars[v].Kind == Block {
			f.own[v] = v
			add(f.own[v : v+1 : v+1])
		}
		for _, s := range f.t.Vars[v].Sources {
			if f.done[s] {
				add(f.t.roots[s])
			}
		}
	}
	roots := union(lists)
	for _, v := range component {
		f.t.roots[v], f.done[v] = roots, true
	}
}

// union is the union of ascending lists: the longest of them where it holds the others.
func union(lists [][]int) []int {
	var longest, more []int
	for _, l := range lists {
		if len(l) > len(longest) {
			longest = l
		}
	}
	for _, l := range lists {
		if &l[0] == &longest[0] {
			continue
		}
		for _, v := range l {
			if _, in := slices.BinarySearch(longest, v); !in {
				more = append(more, v)
			}
		}
	}
	if len(more) == 0 {
		return longest
	}
	slices.Sort(more)
	more = slices.Compact(more)
	out := make([]int, 0, len(longest)+len(more))
	for _, v := range longest {
		for len(more) > 0 && more[0] < v {
			out, more = append(out, more[0]), more[1:]
		}
		out = append(out, v)
	}
	return append(out, more...)
}
