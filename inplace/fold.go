package inplace

import (
	"slices"

	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/planner"
)

// The order of folding. Each step is taken if nothing clashes and the peak allows it,
// and can be taken back (see undo): what is tried later is measured on what is there.
//
//	1  alternatives    places that a merged value may come from: branches, loops
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

	same *contents
	load *load // by the classes as they are now
	// least is a bound for the most that is held at once, however one folds.
	least int64
	log   []undo
}

// undo is how one fold is taken back.
type undo struct {
	into, from   int // classes; from was emptied
	vars, held   int // what into had of each
	bytes        int64
	live         liveness.Set
	moved, shift int64 // into was moved by moved, from by shift
	was          Class // from
	window       int   // a value that became a window, -1 if none
}

// options is what can be folded.
type options struct {
	merge   bool
	overs   []over
	concats []joined
}

// Fold decides all folding for a timeline.
func Fold(t *liveness.Timeline, o Options) *Folding {
	c := options{merge: !o.NoMerge}
	if !o.NoInPlace {
		c.overs = overs(t)
		if o.NoSmaller {
			c.overs = slices.DeleteFunc(c.overs, func(p over) bool { return p.smaller })
		}
		if !o.NoConcat {
			c.concats = concatsOf(t)
		}
	}
	return improve(t, c, foldWith(t, c, nil))
}

// foldWith folds alternatives of control flow, results over operands of their
// size, operands inside concatenations, and results over larger operands.
// prescribed are choices for single results.
func foldWith(t *liveness.Timeline, o options, prescribed []choice) *Folding {
	f := newFolding(t)
	if o.merge {
		f.mergeAlternatives(t)
	}
	if prescribed == nil {
		f.least = f.leastHeld(t, o)
	}
	f.foldOperands(o.overs, prescribed)
	f.foldConcats(t, o.concats, prescribed)
	f.foldSmaller(t, o.overs)
	return f
}

func newFolding(t *liveness.Timeline) *Folding {
	f := &Folding{Of: make([]int, len(t.Vars)), Offset: make([]int64, len(t.Vars)), same: newContents(len(t.Vars)), load: newLoad(len(t.Steps) + 2)}
	for v, x := range t.Vars {
		f.Of[v] = -1
		if x.Kind == liveness.Block {
			f.Of[v] = len(f.Classes)
			c := Class{Vars: []int{v}, Bytes: x.Bytes, Live: t.Live[v]}
			f.Classes = append(f.Classes, c)
			f.load.put(c.Live, c.size())
		}
	}
	for v, x := range t.Vars {
		if x.Kind == liveness.Outside {
			continue
		}
		for _, r := range t.Roots(v) {
			f.Classes[f.Of[r]].hold(content{shown(&t.Layout, v), 0, t.Vars[r].Bytes, t.Own[v]})
		}
	}
	return f
}

// shown is the variable whose content a view shows: views are followed, blocks
// and merged values stand for themselves.
func shown(t *liveness.Layout, v int) int {
	for t.Vars[v].Kind == liveness.Pointer && !t.Vars[v].Phi && len(t.Vars[v].Sources) == 1 {
		v = t.Vars[v].Sources[0]
	}
	return v
}

// mergeAlternatives folds the places a merged value may come from: they hold it
// in turn, never at once.
func (f *Folding) mergeAlternatives(t *liveness.Timeline) {
	for v, x := range t.Vars {
		if x.Kind != liveness.Pointer || !x.Phi || len(x.Sources) < 2 {
			continue
		}
		roots := t.Roots(v)
		for i := range roots {
			for k := i + 1; k < len(roots); k++ {
				if t.Vars[roots[i]].Bytes == t.Vars[roots[k]].Bytes && f.try(roots[i], roots[k], 0, nil) {
					f.Merges++
				}
			}
		}
	}
}

// try places block b at by bytes after the start of block a, folding their
// classes, unless different contents would meet outside the excepted points. It
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
	u := undo{into: into, from: from, vars: len(x.Vars), held: len(x.held), bytes: x.Bytes, live: x.Live, was: *y, window: -1}
	f.load.put(x.Live, -x.size())
	f.load.put(y.Live, -y.size())
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
	x.absorb(y, shift)
	*y = Class{}
	f.load.put(x.Live, x.size())
	f.log = append(f.log, u)
}

// mark is a state of the folding that rewind goes back to.
func (f *Folding) mark() int { return len(f.log) }

// rewind takes back every fold made since a mark.
func (f *Folding) rewind(mark int) {
	for len(f.log) > mark {
		u := f.log[len(f.log)-1]
		f.log = f.log[:len(f.log)-1]
		x, y := &f.Classes[u.into], &f.Classes[u.from]
		f.load.put(x.Live, -x.size())
		*y = u.was
		x.Vars, x.held = x.Vars[:u.vars], x.held[:u.held]
		x.move(-u.moved)
		x.Bytes, x.Live = u.bytes, u.live
		for _, v := range x.Vars[:u.vars] {
			f.Offset[v] -= u.moved
		}
		for _, v := range y.Vars {
			f.Of[v] = u.from
			f.Offset[v] -= u.shift
		}
		if u.window >= 0 {
			f.same.forget(u.window)
		}
		f.load.put(x.Live, x.size())
		f.load.put(y.Live, y.size())
	}
}

// peak is the most bytes the classes need at one point: no plan is smaller.
func (f *Folding) peak() int64 { return f.load.need().peak }

// Problem states the placing of all classes, with offsets at multiples of
// align. ids[i] is the class of buffer i.
func (f *Folding) Problem(t *liveness.Timeline, name string, align int64) (p *planner.Problem, ids []int) {
	p = &planner.Problem{Name: name, Align: align}
	for c, cl := range f.Classes {
		if len(cl.Vars) == 0 {
			continue
		}
		hull, holes := cl.Live.Hull()
		b := planner.Buffer{Name: t.String(cl.Vars[0]), Size: roundUp(cl.Bytes, align), Lo: hull.Lo, Hi: hull.Hi}
		for _, h := range holes {
			b.Holes = append(b.Holes, planner.Range{Lo: h.Lo, Hi: h.Hi})
		}
		p.Buffers = append(p.Buffers, b)
		ids = append(ids, c)
	}
	return p, ids
}

// OffsetsIn carries a plan of [Folding.Problem] over to the timeline's blocks: by
// variable, where it begins in the arena, and whether it lies inside a larger class
// away from its start.
func (f *Folding) OffsetsIn(t *liveness.Timeline, ids []int, s *planner.Solution) (offsets []int64, inside []bool) {
	offsets, inside = make([]int64, len(t.Vars)), make([]bool, len(t.Vars))
	byClass := make([]int64, len(f.Classes))
	for i, id := range ids {
		byClass[id] = s.Offsets[i]
	}
	for v := range t.Vars {
		if cl := f.Of[v]; cl >= 0 {
			offsets[v], inside[v] = byClass[cl]+f.Offset[v], f.Offset[v] != 0
		}
	}
	return offsets, inside
}

func roundUp(n, a int64) int64 {
	if a <= 1 {
		return n
	}
	return (n + a - 1) / a * a
}
