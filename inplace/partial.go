package inplace

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/berth-onnx/berth/alias"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
)

// Folding without an order. A plan that holds for every schedule, and when
// independent nodes run at once, may only share bytes where that is right in all of
// them:
//
//	a ─▶ relu ─▶ r            relu may write over a: nothing else reads it
//	a ─▶ relu ─▶ r
//	└──▶ exp ──▶ e            neither may: whichever is last is not known
//	a ─▶ exp ─▶ e ─▶ add ─▶ s
//	└────────────────▲        add may write over a: exp surely ran before
//
// The classes, their contents and the steps of folding are those of one order; what
// differs is when two contents interfere (times.go), and that nothing can be weighed by
// what is held at a point. So a few ways of folding are tried whole, and the planner's
// lower bound decides between them.
//
// Source: L. Liu, NNC tensor allocation (heads, tails and "after" of a block).

// Parallel is a graph folded for every schedule at once. Its classes are the
// buffers of a [planner.Problem] under a partial order.
type Parallel struct {
	*Folding
	Layout  *liveness.Concurrent
	Windows bool // parts of an operand are windows of it, not copies
}

// LayParallel lays a graph out without an order and folds it, in a few ways: slices
// and splits as windows of their operand or as copies; operands of concatenations
// inside the results wherever that is right, or nowhere; or first of all as [Fold]
// does for the order the nodes stand in. Taken is what must have the least memory live
// at once (the planner's lower bound; of equals, what a greedy planner packs into the
// least). Of the options, AnyOrder is implied.
func LayParallel(ctx context.Context, g *ssa.Graph, lo liveness.Options, o Options) (_ *Parallel, err error) {
	defer rescue.Into(&err)
	var best *Parallel
	var least *planner.Solution
	for _, windows := range []bool{true, false} {
		lo.Windows = windows
		c, err := liveness.BuildConcurrent(ctx, g, lo)
		if err != nil {
			return nil, err
		}
		guides, err := guidesFor(ctx, g, c, lo, o)
		if err != nil {
			return nil, err
		}
		for _, by := range guides {
			f := &Parallel{foldParallel(ctx, c, o, by), c, windows}
			if err := ctx.Err(); err != nil {
				return nil, err // folding has stopped somewhere
			}
			p, err := f.Problem(ctx, "")
			if err != nil {
				return nil, err
			}
			plan, err := planner.GreedySize{}.Plan(ctx, p)
			if err != nil {
				return nil, err
			}
			if least == nil || cmp.Or(cmp.Compare(plan.LowerBound, least.LowerBound), cmp.Compare(plan.ArenaBytes, least.ArenaBytes)) < 0 {
				best, least = f, plan
			}
		}
		if lo.CopyViews || !alias.HasParts(g) {
			break // copies would be the same
		}
	}
	return best, ctx.Err()
}

// joint is a result and an operand that may lie in one slot.
type joint struct{ operand, result *ssa.Value }

func jointOf(l *liveness.Layout, operand, result int) joint {
	return joint{l.Vars[operand].Value, l.Vars[result].Value}
}

// guide says which operands are made inside the results of concatenations, and which
// operands results are written over first of all.
type guide struct{ concats, overs map[joint]bool }

// guidesFor lists the ways of folding to try.
func guidesFor(ctx context.Context, g *ssa.Graph, c *liveness.Concurrent, lo liveness.Options, o Options) ([]guide, error) {
	if o.NoInPlace {
		return []guide{{}}, nil
	}
	all := guide{concats: map[joint]bool{}}
	if !o.NoConcat {
		for _, u := range allWindows(ctx, &c.Layout) {
			all.concats[jointOf(&c.Layout, u.operand, u.result)] = true
		}
	}
	ordered, err := guideInOrder(ctx, g, lo, o)
	if err != nil || len(all.concats) == 0 {
		return []guide{all, ordered}, err
	}
	return []guide{all, ordered, {}}, nil
}

// guideInOrder folds for the order that the nodes stand in and says what it did.
func guideInOrder(ctx context.Context, g *ssa.Graph, lo liveness.Options, o Options) (guide, error) {
	out := guide{map[joint]bool{}, map[joint]bool{}}
	lo.Scratch = nil
	t, err := liveness.Build(ctx, g, lo)
	if err != nil {
		return out, err
	}
	f := Fold(ctx, t, o)
	together := func(a, b int, by int64) bool { return f.Of[a] == f.Of[b] && f.Offset[a] == f.Offset[b]+by }
	for _, u := range allWindows(ctx, &t.Layout) {
		if together(u.operand, u.result, u.by) {
			out.concats[jointOf(&t.Layout, u.operand, u.result)] = true
		}
	}
	for _, x := range overs(ctx, &t.Layout, nil) {
		if together(x.in, x.out, 0) {
			out.overs[jointOf(&t.Layout, x.in, x.out)] = true
		}
	}
	return out, nil
}

// allWindows lists the operands that could be made inside results of concatenations,
// largest result first.
func allWindows(ctx context.Context, l *liveness.Layout) (uses []windowUse) {
	for _, c := range concatsOf(ctx, l) {
		uses = append(uses, c.uses...)
	}
	return uses
}

// foldParallel decides all folding for a layout. Only what lies in as many slots can
// share them, and only what lies in one can be a window of something else. Results go
// over larger operands only where the guide has it.
func foldParallel(ctx context.Context, c *liveness.Concurrent, o Options, by guide) *Folding {
	f := newFolding(ctx, &c.Layout, anyOrder{c})
	alike := func(a, b int) bool { return c.Places(a) == c.Places(b) }
	if !o.NoMerge {
		f.mergeAlternatives(ctx, alike)
	}
	if o.NoInPlace || ctx.Err() != nil {
		return f
	}
	asked := func(p over) bool { return by.overs[jointOf(&c.Layout, p.in, p.out)] }
	list := slices.DeleteFunc(overs(ctx, &c.Layout, nil), func(p over) bool { return !alike(p.in, p.out) || p.smaller && (o.NoSmaller || !asked(p)) })
	sort.SliceStable(list, func(i, j int) bool { return rank(asked(list[i])) < rank(asked(list[j])) })
	points := map[joint]liveness.Set{}
	for _, p := range list {
		points[jointOf(&c.Layout, p.in, p.out)] = p.points
	}
	for _, p := range list {
		if ctx.Err() != nil {
			return f
		}
		back := points[jointOf(&c.Layout, p.out, p.in)] // around a loop, the one may go over the other and back
		if (!p.smaller || f.bare(p.in) && f.bare(p.out)) && f.try(p.in, p.out, 0, p.points.Union(back)) {
			f.Folds++
		}
	}
	for _, u := range allWindows(ctx, &c.Layout) {
		if ctx.Err() != nil {
			return f
		}
		if by.concats[jointOf(&c.Layout, u.operand, u.result)] && c.Places(u.operand) == 1 && c.Places(u.result) == 1 && f.place(u) {
			f.Concats++
		}
	}
	return f
}

// Problem states the placing of the classes for every schedule at once: its order is
// a [planner.Partial], and Lo and Hi are the lives in the order of the layout. What
// loops pass on has a buffer for each of its slots. When the context ends before, its error is returned.
func (f *Parallel) Problem(ctx context.Context, name string) (_ *planner.Problem, err error) {
	defer rescue.Into(&err)
	p := &planner.Problem{Name: name, Align: Align}
	var lives []planner.Life
	for i := range f.Classes {
		cl := &f.Classes[i]
		if len(cl.Vars) == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s := cl.life.steps
		b := planner.Buffer{Name: f.Layout.String(cl.Vars[0]), Size: cl.size(), Lo: slices.Min(s.heads), Hi: slices.Max(s.tails) + 1}
		for range f.Layout.Places(cl.Vars[0]) {
			p.Buffers = append(p.Buffers, b)
			lives = append(lives, planner.Life{Heads: s.heads, Tails: s.tails})
		}
	}
	order, err := planner.NewPartial(len(f.Layout.Steps), f.Layout.Edges, lives)
	if err != nil {
		return nil, err
	}
	p.Order = order
	return p, nil
}

// OffsetsIn carries a plan of [Parallel.Problem] over to the blocks of a timeline of
// the same graph, which must be built with AnyOrder and the same views: by variable,
// where it begins in the arena, and whether it lies inside a larger class away from
// its start.
func (f *Parallel) OffsetsIn(t *liveness.Timeline, s *planner.Solution) (offsets []int64, inside []bool, err error) {
	defer rescue.Into(&err)
	offsets, inside = make([]int64, len(t.Vars)), make([]bool, len(t.Vars))
	base := make([]int, len(f.Classes)) // first buffer of each class
	next := 0
	for i, cl := range f.Classes {
		base[i] = next
		if len(cl.Vars) > 0 {
			next += f.Layout.Places(cl.Vars[0])
		}
	}
	put := func(v, block, place int) {
		offsets[v] = s.Offsets[base[f.Of[block]]+place] + f.Offset[block]
		inside[v] = f.Offset[block] != 0
	}
	workspace := map[*ssa.Node]int{}
	for _, st := range f.Layout.Steps {
		if st.Scratch != liveness.None {
			workspace[st.Node] = st.Scratch
		}
	}
	for _, st := range t.Steps {
		if st.Scratch != liveness.None {
			put(st.Scratch, workspace[st.Node], 0)
		}
	}
	for b, x := range f.Layout.Vars {
		if x.Kind != liveness.Block || x.Value == nil {
			continue
		}
		pl := t.PlacesOf(x.Value)
		if pl == nil || len(pl.Radix) != len(f.Layout.Radix[b]) {
			return nil, nil, fmt.Errorf("inplace: value %q is not laid out in time as it is without", x.Value.Name)
		}
		for i, v := range pl.Vars {
			place, ok := placeOf(i, pl.Radix, f.Layout.Radix[b])
			if !ok {
				return nil, nil, fmt.Errorf("inplace: value %q has other places in time than without", x.Value.Name)
			}
			put(v, b, place)
		}
	}
	return offsets, inside, nil
}

// placeOf turns an index into slots with one radix per loop into that of slots
// which leave some loops out (radix 1).
func placeOf(i int, radix, kept []int) (place int, ok bool) {
	unit := 1
	for d := len(radix) - 1; d >= 0; d-- {
		if kept[d] > 1 {
			if kept[d] != radix[d] {
				return 0, false
			}
			place += i % radix[d] * unit
			unit *= kept[d]
		}
		i /= radix[d]
	}
	return place, true
}
