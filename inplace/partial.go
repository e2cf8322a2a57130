package inplace

import (
	"cmp"
	"context"
	"fmt"
	"slices"

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
// As in a timeline, blocks hold contents: the block's own value, and parameters and
// merged results that may lie there. Two contents may share bytes if they are the
// same, or if all that touches the one comes before all that touches the other, or
// if only one of them is ever made (branches of an If). They may share the one step
// that reads the first and writes the second in place.
//
// Source: L. Liu, NNC tensor allocation (heads, tails and "after" of a block).

// Parallel is a graph folded for every schedule at once. Its classes are the
// buffers of a [planner.Problem] under a partial order.
type Parallel struct {
	Layout  *liveness.Concurrent
	Windows bool // parts of an operand are windows of it, not copies
	Folds   int  // results written over operands
	Merges  int  // alternatives that share
	Concats int  // operands made inside the result

	classes  []sharedClass
	of       []int // class by variable; -1 for variables that own no bytes
	offset   []int64
	over     []int // by block: the block it was folded over in place, or None
	contents [][]lying
	same     *contents
	inPlace  map[pair]int // the step that reads the one block and may write the other over it
}

// pair is a block that is read and one that may be written over it.
type pair struct{ in, out int }

// sharedClass is a set of blocks with fixed places relative to each other.
type sharedClass struct {
	blocks []int
	tips   []int // blocks that no other was folded over
	bytes  int64
}

// lying is a content of a block, and the first and last steps that touch it.
type lying struct {
	value        int
	heads, tails []int
}

// LayParallel lays a graph out without an order and folds it, in a few ways: slices
// and splits as windows of their operand or as copies; operands of concatenations
// inside the results wherever that is right, or nowhere; or first of all as [Fold]
// does for the order the nodes stand in. Taken is what must have the least memory live
// at once (the planner's lower bound; of equals, what a greedy planner places in the
// least). Of the options, AnyOrder is implied.
func LayParallel(g *ssa.Graph, lo liveness.Options, o Options) (*Parallel, error) {
	var best *Parallel
	var least *planner.Solution
	for _, windows := range []bool{true, false} {
		lo.Windows = windows
		c, err := liveness.BuildConcurrent(g, lo)
		if err != nil {
			return nil, err
		}
		guides, err := guidesFor(g, c, lo, o)
		if err != nil {
			return nil, err
		}
		for _, by := range guides {
			f := foldParallel(c, o, by)
			f.Windows = windows
			p, err := f.Problem("", 64)
			if err != nil {
				return nil, err
			}
			plan, err := planner.GreedySize{}.Plan(context.Background(), p)
			if err != nil {
				return nil, err
			}
			if least == nil || cmp.Or(cmp.Compare(plan.LowerBound, least.LowerBound), cmp.Compare(plan.ArenaBytes, least.ArenaBytes)) < 0 {
				best, least = f, plan
			}
		}
		if lo.CopyViews || !hasWindows(&c.Layout) {
			break // copies would be the same
		}
	}
	return best, nil
}

// joint is a result and an operand that may lie in one place.
type joint struct{ operand, result *ssa.Value }

// guide says which operands are made inside the results of concatenations, and which
// operands results are written over first of all.
type guide struct{ concats, overs map[joint]bool }

// guidesFor lists the ways of folding to try.
func guidesFor(g *ssa.Graph, c *liveness.Concurrent, lo liveness.Options, o Options) ([]guide, error) {
	if o.NoInPlace {
		return []guide{{}}, nil
	}
	all := guide{concats: map[joint]bool{}}
	if !o.NoConcat {
		for _, u := range allWindows(&c.Layout) {
			all.concats[joint{c.Vars[u.operand].Value, c.Vars[u.result].Value}] = true
		}
	}
	ordered, err := guideInOrder(g, lo, o)
	if err != nil || len(all.concats) == 0 {
		return []guide{all, ordered}, err
	}
	return []guide{all, ordered, {}}, nil
}

// guideInOrder folds for the order that the nodes stand in and says what it did.
func guideInOrder(g *ssa.Graph, lo liveness.Options, o Options) (guide, error) {
	out := guide{map[joint]bool{}, map[joint]bool{}}
	lo.Scratch = nil
	t, err := liveness.Build(g, lo)
	if err != nil {
		return out, err
	}
	f := Fold(t, o)
	together := func(a, b int, by int64) bool { return f.Of[a] == f.Of[b] && f.Offset[a] == f.Offset[b]+by }
	for _, u := range allWindows(&t.Layout) {
		if together(u.operand, u.result, u.by) {
			out.concats[joint{t.Vars[u.operand].Value, t.Vars[u.result].Value}] = true
		}
	}
	for s := range t.Steps {
		for _, x := range overwritable(&t.Layout, s) {
			if together(x.in, x.out, 0) {
				out.overs[joint{t.Vars[x.in].Value, t.Vars[x.out].Value}] = true
			}
		}
	}
	return out, nil
}

// allWindows lists the operands that could be made inside results of concatenations.
func allWindows(l *liveness.Layout) (uses []windowUse) {
	for _, st := range l.Steps {
		if !st.Border && st.Node != nil {
			uses = append(uses, windowsAt(l, st)...)
		}
	}
	return uses
}

// foldParallel decides all folding for a layout.
func foldParallel(c *liveness.Concurrent, o Options, by guide) *Parallel {
	n := len(c.Vars)
	f := &Parallel{Layout: c, of: make([]int, n), offset: make([]int64, n), over: make([]int, n), contents: make([][]lying, n),
		same: newContents(n), inPlace: map[pair]int{}}
	for v, x := range c.Vars {
		f.of[v], f.over[v] = -1, liveness.None
		if x.Kind == liveness.Block {
			f.of[v] = len(f.classes)
			f.classes = append(f.classes, sharedClass{[]int{v}, []int{v}, x.Bytes})
		}
	}
	f.fill()
	if !o.NoMerge {
		f.mergeAlternatives()
	}
	if !o.NoInPlace {
		f.foldOperands(by.overs, o.NoSmaller)
		f.foldConcats(by.concats)
	}
	return f
}

// fill notes what may lie in each block.
func (f *Parallel) fill() {
	c := f.Layout
	touches := map[pair][]int{} // by content and block
	var order []pair
	for v, x := range c.Vars {
		if x.Kind == liveness.Outside || len(c.Touches[v]) == 0 {
			continue
		}
		for _, r := range c.RootsOf(v) {
			k := pair{shown(&c.Layout, v), r}
			if _, known := touches[k]; !known {
				order = append(order, k)
			}
			touches[k] = append(touches[k], c.Touches[v]...)
		}
	}
	for _, k := range order {
		t := touches[k]
		f.contents[k.out] = append(f.contents[k.out], lying{k.in, c.Deps.Heads(t), c.Deps.Tails(t)})
	}
}

// mergeAlternatives folds the places of one size that a merged value may come from.
func (f *Parallel) mergeAlternatives() {
	c := f.Layout
	for v, x := range c.Vars {
		if x.Kind != liveness.Pointer || !x.Phi || len(x.Sources) < 2 {
			continue
		}
		roots := c.RootsOf(v)
		for i, a := range roots {
			for _, b := range roots[i+1:] {
				if c.Vars[a].Bytes == c.Vars[b].Bytes && c.Places(a) == c.Places(b) && f.try(a, b, 0) {
					f.Merges++
				}
			}
		}
	}
}

// foldOperands folds results over operands wherever the operator allows it, first
// those asked for: only these over operands that are larger.
func (f *Parallel) foldOperands(first map[joint]bool, noSmaller bool) {
	c := f.Layout
	var order []over
	for at := range c.Steps {
		for _, p := range overwritable(&c.Layout, at) {
			order = append(order, p)
			f.inPlace[pair{p.in, p.out}] = at
		}
	}
	asked := func(p over) bool { return first[joint{c.Vars[p.in].Value, c.Vars[p.out].Value}] }
	order = slices.DeleteFunc(order, func(p over) bool { return p.smaller && (noSmaller || !asked(p)) })
	slices.SortStableFunc(order, func(a, b over) int { return rank(asked(a)) - rank(asked(b)) })
	for _, p := range order {
		if p.smaller && (!f.bare(p.in) || !f.bare(p.out)) || c.Places(p.in) != c.Places(p.out) || !f.try(p.in, p.out, 0) {
			continue
		}
		f.Folds++
		if !p.smaller && f.over[p.out] == liveness.None && f.follows(p.in, p.out) {
			f.over[p.out] = p.in
			x := &f.classes[f.of[p.out]]
			x.tips = slices.DeleteFunc(x.tips, func(b int) bool { return b == p.in })
		}
	}
}

// bare reports whether a block's class is no larger than the block; inside of another
// it might not be aligned.
func (f *Parallel) bare(v int) bool { return f.classes[f.of[v]].bytes == f.Layout.Vars[v].Bytes }

// foldConcats makes operands of concatenations inside the results, larger results
// first. Only what lies in one place can be a window of something else.
func (f *Parallel) foldConcats(joined map[joint]bool) {
	c := f.Layout
	uses := allWindows(&c.Layout)
	slices.SortStableFunc(uses, func(a, b windowUse) int {
		return int(min(1, max(-1, c.Vars[b.result].Bytes-c.Vars[a.result].Bytes)))
	})
	for _, u := range uses {
		if !joined[joint{c.Vars[u.operand].Value, c.Vars[u.result].Value}] || c.Places(u.operand) != 1 || c.Places(u.result) != 1 || f.of[u.operand] == f.of[u.result] {
			continue
		}
		fresh, ok := f.same.window(u.operand, u.result, u.by)
		if ok && f.try(u.result, u.operand, u.by) {
			f.Concats++
		} else if fresh {
			f.same.forget(u.operand)
		}
	}
}

// try places block b at by bytes after the start of block a, folding their classes,
// unless different contents would meet. It reports whether a new fold was made.
func (f *Parallel) try(a, b int, by int64) bool {
	ca, cb := f.of[a], f.of[b]
	shift := f.offset[a] + by - f.offset[b]
	if ca == cb {
		return false
	}
	if ca > cb { // keep the older class
		ca, cb, shift = cb, ca, -shift
	}
	if f.clash(ca, cb, shift) {
		return false
	}
	x, y := &f.classes[ca], &f.classes[cb]
	if shift < 0 {
		for _, v := range x.blocks {
			f.offset[v] -= shift
		}
		x.bytes -= shift
		shift = 0
	}
	for _, v := range y.blocks {
		f.of[v] = ca
		f.offset[v] += shift
	}
	x.bytes = max(x.bytes, y.bytes+shift)
	x.blocks = append(x.blocks, y.blocks...)
	x.tips = append(x.tips, y.tips...)
	*y = sharedClass{}
	return true
}

// clash reports whether two classes, y's origin shift bytes after x's, would hold
// different contents in the same bytes that may be needed at once. What comes after
// a block comes after all that it was folded over: then those need no look.
func (f *Parallel) clash(x, y int, shift int64) bool {
	vars := f.Layout.Vars
	for _, b := range f.classes[y].blocks {
		at := f.offset[b] + shift
		for _, tip := range f.classes[x].tips {
			for a := tip; a != liveness.None; a = f.over[a] {
				if at >= f.offset[a]+vars[a].Bytes || f.offset[a] >= at+vars[b].Bytes {
					break // so do those below
				}
				if f.meet(a, b, at-f.offset[a]) {
					return true
				}
				if f.follows(a, b) {
					break
				}
			}
		}
	}
	return false
}

// meet reports whether different contents of blocks a and b, by bytes apart, may be
// needed at once.
func (f *Parallel) meet(a, b int, by int64) bool {
	c := f.Layout
	if c.Exclusive(a, b) {
		return false
	}
	aThenB, bThenA := liveness.None, liveness.None
	if by == 0 {
		if at, ok := f.inPlace[pair{a, b}]; ok {
			aThenB = at
		}
		if at, ok := f.inPlace[pair{b, a}]; ok {
			bThenA = at
		}
	}
	for _, x := range f.contents[a] {
		for _, y := range f.contents[b] {
			if !f.same.agree(x.value, 0, y.value, by) && !c.Deps.Follows(y.heads, x.tails, aThenB) && !c.Deps.Follows(x.heads, y.tails, bThenA) {
				return true
			}
		}
	}
	return false
}

// follows reports whether every content of b comes after every content of a; b may
// be written in place over a.
func (f *Parallel) follows(a, b int) bool {
	at, ok := f.inPlace[pair{a, b}]
	if !ok {
		at = liveness.None
	}
	for _, x := range f.contents[a] {
		for _, y := range f.contents[b] {
			if !f.Layout.Deps.Follows(y.heads, x.tails, at) {
				return false
			}
		}
	}
	return true
}

// Problem states the placing of the classes for every schedule at once: its order is
// a [planner.Partial], and Lo and Hi are the lives in the order of the layout. What
// loops hand on has a buffer for each of its places. Sizes are rounded up to align,
// which must be positive.
func (f *Parallel) Problem(name string, align int64) (*planner.Problem, error) {
	p := &planner.Problem{Name: name, Align: align}
	var lives []planner.Life
	for _, cl := range f.classes {
		if len(cl.blocks) == 0 {
			continue
		}
		var touches []int
		for _, b := range cl.blocks {
			for _, x := range f.contents[b] {
				touches = append(append(touches, x.heads...), x.tails...)
			}
		}
		slices.Sort(touches)
		touches = slices.Compact(touches)
		life := planner.Life{Heads: f.Layout.Deps.Heads(touches), Tails: f.Layout.Deps.Tails(touches)}
		first := cl.blocks[0]
		for range f.Layout.Places(first) {
			p.Buffers = append(p.Buffers, planner.Buffer{Name: f.Layout.String(first), Size: roundUp(cl.bytes, align),
				Lo: touches[0], Hi: touches[len(touches)-1] + 1})
			lives = append(lives, life)
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
	offsets, inside = make([]int64, len(t.Vars)), make([]bool, len(t.Vars))
	base := make([]int, len(f.classes)) // first buffer of each class
	next := 0
	for i, cl := range f.classes {
		base[i] = next
		if len(cl.blocks) > 0 {
			next += f.Layout.Places(cl.blocks[0])
		}
	}
	put := func(v, block, place int) {
		offsets[v] = s.Offsets[base[f.of[block]]+place] + f.offset[block]
		inside[v] = f.offset[block] != 0
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

// placeOf turns an index into places with one radix per loop into that of places
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

// ParallelProblem states the placing of a graph so that a plan holds for every
// schedule and for schedules that run independent nodes at once; see [LayParallel]
// and [Parallel.Problem]. Types must be inferred.
func ParallelProblem(g *ssa.Graph, align int64) (*planner.Problem, error) {
	f, err := LayParallel(g, liveness.Options{}, Options{})
	if err != nil {
		return nil, err
	}
	return f.Problem(g.Name, align)
}
