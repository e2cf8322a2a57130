package inplace

import (
	"context"
	"runtime"
	"slices"

	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/slab"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/planner"
)

// The order of folding. Each step is taken if nothing clashes and the peak allows it,
// and can be taken back (see undo): what is tried later is measured on what is there.
//
//	1  alternatives    slots that a merged value may come from: branches, loops
//	2  operands        a result over an operand of its size            operands.go
//	3  concatenations  operands made inside their result               concat.go
//	4  smaller         a result over a larger operand                  operands.go
//	5  improvement     single choices at the peak changed, all again   best.go
//
// Sources: the in-place attribute of the memory optimization transpiler (step 2);
// NNC tensor allocation, which folds an operand into a result where the operator
// allows it and is the operand's only last reader (steps 1 and 2). Here lives and
// contents decide, not the number of readers.

// Options switches kinds of folding off, for comparisons.
type Options struct {
	NoInPlace bool // no result over an operand
	NoMerge   bool // no sharing between alternatives of control flow
	NoConcat  bool // no operand made inside the result it is copied to
	NoSmaller bool // no result over an operand that is larger

	// Bound is known to be needed in any order of the nodes, however they are folded: a folding
	// that needs no more is not improved.
	Bound int64
}

// Folding says which class each block belongs to, and where in it.
type Folding struct {
	Classes []Class // folded-away ones are empty (no Vars)
	Of      []int   // class by variable; -1 for variables that own no bytes
	Offset  []int64 // where the variable begins inside its class
	Folds   int     // results written over operands
	Merges  int     // alternatives that share
	Concats int     // operands made inside the result
	Smaller int     // results written over larger operands

	lay   *liveness.Layout
	times times
	same  *contents
	shows shows
	tries int   // pairs of alternatives tried
	load  *load // by the classes as they are now; nil without an order
	// least is a bound for the most that is held at once, however one folds.
	least int64
	log   []undo
	left  []over // of one result, see foldResult
}

// undo is how one fold is taken back.
type undo struct {
	into, from   int       // classes; from was emptied
	vars         int       // how many into had
	held         []content // and what lay in it
	inTurn       int
	swapped      bool // the contents of both lie where those of from were
	bytes        int64
	life         life
	moved, shift int64 // into was moved by moved, from by shift
	was          Class // from
	window       int   // a value that became a window, -1 if none
}

// options is what can be folded.
type options struct {
	merge   bool
	overs   []over
	concats []joined
	bound   int64
}

// Fold decides all folding for a timeline. When the context ends before, less is folded.
func Fold(ctx context.Context, t *liveness.Timeline, o Options) *Folding {
	c := options{merge: !o.NoMerge, bound: o.Bound}
	if len(t.Steps) < manySteps || runtime.GOMAXPROCS(0) == 1 {
		c.find(ctx, t, o)
		return improve(ctx, t, c, foldWith(ctx, t, c, nil))
	}
	found := make(chan error, 1)
	rescue.Go(func() {
		var err error
		defer func() { found <- err }()
		defer rescue.Into(&err)
		c.find(ctx, t, o)
	})
	f := foldingOf(ctx, t)
	if err := <-found; err != nil {
		panic(err)
	}
	return improve(ctx, t, c, f.with(ctx, t, c, nil))
}

// manySteps is from how many steps on the pairs that may share bytes are found while every block is given a class.
const manySteps = 1 << 14

// find lists the pairs that may share bytes.
func (c *options) find(ctx context.Context, t *liveness.Timeline, o Options) {
	if o.NoInPlace {
		return
	}
	c.overs = overs(ctx, &t.Layout, vain(ctx, t))
	if o.NoSmaller {
		c.overs = slices.DeleteFunc(c.overs, func(p over) bool { return p.smaller })
	}
	if !o.NoConcat {
		c.concats = concatsOf(ctx, &t.Layout)
	}
}

// foldWith folds alternatives of control flow, results over operands of their
// size, operands inside concatenations, and results over larger operands.
// prescribed are choices for single results.
func foldWith(ctx context.Context, t *liveness.Timeline, o options, prescribed []choice) *Folding {
	return foldingOf(ctx, t).with(ctx, t, o, prescribed)
}

// with folds blocks that have each a class of its own.
func (f *Folding) with(ctx context.Context, t *liveness.Timeline, o options, prescribed []choice) *Folding {
	if o.merge {
		f.mergeAlternatives(ctx, func(a, b int) bool { return true })
	}
	if prescribed == nil && Tried(t) {
		f.least = max(f.leastHeld(ctx, t, o), o.bound)
	}
	f.foldOperands(ctx, o.overs, prescribed)
	f.foldConcats(ctx, t, o.concats, prescribed)
	f.foldSmaller(ctx, o.overs)
	return f
}

// newFolding gives every block a class of its own.
func newFolding(ctx context.Context, l *liveness.Layout, when times) *Folding {
	f := &Folding{Classes: make([]Class, 0, len(l.Vars)), Of: make([]int, len(l.Vars)), Offset: make([]int64, len(l.Vars)), lay: l, times: when, same: newContents(len(l.Vars))}
	var ids slab.Of[int]
	for v := range l.Vars {
		x := &l.Vars[v]
		f.Of[v] = -1
		if x.Kind == liveness.Block {
			f.Of[v] = len(f.Classes)
			f.Classes = append(f.Classes, Class{Vars: ids.Make(1), Bytes: x.Bytes})
			f.Classes[f.Of[v]].Vars[0] = v
		}
	}
	f.shows = showsOf(ctx, l, when)
	f.holdAll(ctx)
	for i := range f.Classes {
		if ctx.Err() != nil {
			break
		}
		c := &f.Classes[i]
		c.life = when.all(c.Vars[0], c.held)
	}
	return f
}

// foldingOf is a folding for one order, which knows what is held at every point.
func foldingOf(ctx context.Context, t *liveness.Timeline) *Folding {
	f := newFolding(ctx, &t.Layout, oneOrder{t})
	f.load = newLoad(len(t.Steps) + 2)
	for i := range f.Classes {
		if ctx.Err() != nil {
			break
		}
		f.load.put(&f.Classes[i], 1)
	}
	return f
}

// try puts block b at by bytes after the start of block a, folding their
// classes, unless different contents would interfere outside the excepted points. It
// reports whether a new fold was made.
func (f *Folding) try(a, b int, by int64, except liveness.Set) bool {
	ca, cb, shift := f.origins(a, b, by)
	if ca == cb || f.clash(&f.Classes[ca], &f.Classes[cb], shift, except) {
		return false
	}
	f.join(ca, cb, shift)
	return true
}

// origins returns the classes of two blocks, the older one first, and how far
// the second's origin lies after the first's if b is placed by bytes after a.
func (f *Folding) origins(a, b int, by int64) (older, other int, shift int64) {
	ca, cb := f.Of[a], f.Of[b]
	shift = f.Offset[a] + by - f.Offset[b]
	if ca > cb {
		return cb, ca, -shift
	}
	return ca, cb, shift
}

// join makes one class of two and notes how to part them.
func (f *Folding) join(into, from int, shift int64) {
	x, y := &f.Classes[into], &f.Classes[from]
	u := undo{into: into, from: from, vars: len(x.Vars), held: x.held, inTurn: x.inTurn, bytes: x.Bytes, life: x.life, was: *y, window: -1}
	alike := shift == 0 && x.size() == y.size()
	if alike { // where both live, one of them is held less
		f.load.takeBoth(x, y)
	} else {
		f.load.put(x, -1)
		f.load.put(y, -1)
	}
	if shift < 0 {
		for _, v := range x.Vars {
			f.Offset[v] -= shift
		}
		x.move(-shift)
		u.moved, shift = -shift, 0
	}
	for _, v := range y.Vars {
		f.Of[v] = into
		f.Offset[v] += shift
	}
	u.shift = shift
	u.swapped = x.absorb(y, shift, f.times.union(x.life, y.life))
	*y = Class{}
	if !alike {
		f.load.put(x, 1)
	}
	f.log = append(f.log, u)
}

// keep forgets how to take back what has been folded so far.
func (f *Folding) keep() { f.log = f.log[:0] }

// mark is a state of the folding that rewind goes back to.
func (f *Folding) mark() int { return len(f.log) }

// rewind takes back every fold made since a mark.
func (f *Folding) rewind(mark int) {
	for len(f.log) > mark {
		u := f.log[len(f.log)-1]
		f.log = f.log[:len(f.log)-1]
		x, y := &f.Classes[u.into], &f.Classes[u.from]
		f.load.put(x, -1)
		*y = u.was
		x.Vars, x.held, x.inTurn = x.Vars[:u.vars], u.held, u.inTurn
		if u.swapped {
			shiftAll(y.held, -u.shift)
		}
		if u.moved != 0 {
			x.move(-u.moved)
			for _, v := range x.Vars {
				f.Offset[v] -= u.moved
			}
		}
		x.Bytes, x.life = u.bytes, u.life
		for _, v := range y.Vars {
			f.Of[v] = u.from
			f.Offset[v] -= u.shift
		}
		if u.window >= 0 {
			f.same.forget(u.window)
		}
		f.load.put(x, 1)
		f.load.put(y, 1)
	}
}

// Peak is the most bytes the classes need at one point: no plan is smaller.
func (f *Folding) Peak() int64 { return f.load.need().peak }

// Problem states the placing of all classes. ids[i] is the class of buffer i. When the context ends before, its error is returned.
func (f *Folding) Problem(ctx context.Context, name string) (p *planner.Problem, ids []int, err error) {
	defer rescue.Into(&err)
	used := 0
	for c := range f.Classes {
		used += min(len(f.Classes[c].Vars), 1)
	}
	p, ids = &planner.Problem{Name: name, Align: Align, Buffers: make([]planner.Buffer, 0, used)}, make([]int, 0, used)
	for c := range f.Classes {
		cl := &f.Classes[c]
		if len(cl.Vars) == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		hull, holes := cl.life.points.Hull()
		b := planner.Buffer{Name: f.lay.String(cl.Vars[0]), Size: cl.size(), Lo: hull.Lo, Hi: hull.Hi}
		for _, h := range holes {
			b.Holes = append(b.Holes, planner.Range{Lo: h.Lo, Hi: h.Hi})
		}
		p.Buffers = append(p.Buffers, b)
		ids = append(ids, c)
	}
	return p, ids, nil
}

// OffsetsIn carries a plan of [Folding.Problem] over to the timeline's blocks: by
// variable, where it begins in the arena, and whether it lies inside a larger class
// away from its start.
func (f *Folding) OffsetsIn(ids []int, s *planner.Solution) (offsets []int64, inside []bool) {
	offsets, inside = make([]int64, len(f.Of)), make([]bool, len(f.Of))
	byClass := make([]int64, len(f.Classes))
	for i, id := range ids {
		byClass[id] = s.Offsets[i]
	}
	for v, cl := range f.Of {
		if cl >= 0 {
			offsets[v], inside[v] = byClass[cl]+f.Offset[v], f.Offset[v] != 0
		}
	}
	return offsets, inside
}

// Align is the alignment of every block in the arena: a cache line, and the widest
// vector register.
const Align = 64

// Round is the size that a block takes in the arena.
func Round(n int64) int64 { return (n + Align - 1) &^ (Align - 1) }
