package inplace

import (
	"slices"

	"github.com/berth-onnx/berth/liveness"
)

// When memory is needed, as folding sees it. In one order that is a set of time
// points; without an order, the first and last of the steps that touch it:
//
//	one order      a  ■■■■          b    ■■■■      they interfere at points 2 and 3
//	               0 1 2 3 4 5                     except {2, 3}: they do not
//	any order      b does not interfere with a if in every order each step that touches b
//	               first comes after each that touches a last
//
// The excepted steps read the one and write the other in place.

// life is when something is needed; which of the two it is depends on the times.
type life struct {
	points liveness.Set
	steps  *touched
}

// touched says which steps touch something.
type touched struct {
	heads, tails []int // those that no other comes before, or after
	// alone are steps that are all that touches some part of it: a result that
	// nobody reads, say. Nothing else may be written there at that step.
	alone []int
}

// times knows when live ranges interfere.
type times interface {
	// of is the live range of a variable itself, pointers to it not counted.
	of(v int) life
	// all is the live range of a block that holds some contents.
	all(block int, held []content) life
	union(a, b life) life
	// meet reports whether two may be needed at once, but for the excepted steps.
	meet(a, b life, except liveness.Set) bool
	// exclusive reports whether two blocks never hold anything at once for a reason
	// that their live ranges do not show.
	exclusive(a, b int) bool
}

// oneOrder are the times of a timeline.
type oneOrder struct{ *liveness.Timeline }

func (t oneOrder) of(v int) life                   { return life{points: t.Own[v]} }
func (t oneOrder) all(block int, _ []content) life { return life{points: t.Live[block]} }
func (t oneOrder) union(a, b life) life {
	return life{points: a.points.Union(b.points)}
}
func (t oneOrder) meet(a, b life, except liveness.Set) bool {
	return a.points.Meets(b.points, except)
}
func (t oneOrder) exclusive(a, b int) bool { return false }

// anyOrder are the times of a layout without an order.
type anyOrder struct{ *liveness.Concurrent }

func (c anyOrder) of(v int) life {
	t := &touched{heads: c.Deps.Heads(c.Touches[v]), tails: c.Deps.Tails(c.Touches[v])}
	if len(c.Touches[v]) == 1 {
		t.alone = c.Touches[v]
	}
	return life{steps: t}
}

func (c anyOrder) all(_ int, held []content) life {
	out := life{steps: &touched{}}
	for _, h := range held {
		out = c.union(out, *h.life)
	}
	return out
}

func (c anyOrder) union(a, b life) life {
	return life{steps: &touched{
		heads: c.Deps.Heads(slices.Concat(a.steps.heads, b.steps.heads)),
		tails: c.Deps.Tails(slices.Concat(a.steps.tails, b.steps.tails)),
		alone: slices.Concat(a.steps.alone, b.steps.alone),
	}}
}

func (c anyOrder) meet(a, b life, except liveness.Set) bool {
	return !c.follows(b, a, except) && !c.follows(a, b, except)
}

// follows reports whether b is needed only after a in every order.
func (c anyOrder) follows(b, a life, except liveness.Set) bool {
	var shared []int
	for _, r := range except {
		for at := r.Lo; at < r.Hi; at++ {
			if !slices.Contains(a.steps.alone, at) {
				shared = append(shared, at)
			}
		}
	}
	return c.Deps.Follows(b.steps.heads, a.steps.tails, shared...)
}

func (c anyOrder) exclusive(a, b int) bool { return c.Exclusive(a, b) }
