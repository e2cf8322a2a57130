package inplace

import (
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/planner"
)

// Options switches kinds of folding off, for comparisons.
type Options struct {
	NoInPlace bool // no result over an operand
	NoMerge   bool // no sharing between alternatives of control flow
	NoConcat  bool // no operand made inside the result it is copied to
}

// Folding says which class each block belongs to, and where in it.
type Folding struct {
	Classes []Class // folded-away ones are empty (no Vars)
	Of      []int   // class by variable; -1 for variables that own no bytes
	Offset  []int64 // where the variable begins inside its class
	Folds   int     // results written over operands
	Merges  int     // alternatives that share
	Concats int     // operands made inside the result

	same *contents
}

// Fold decides all folding for a timeline, steps in order.
func Fold(t *liveness.Timeline, o Options) *Folding {
	f := newFolding(t)
	if !o.NoMerge {
		f.mergeAlternatives(t)
	}
	if !o.NoInPlace {
		f.foldOperands(t)
		if !o.NoConcat {
			f.foldConcats(t)
		}
	}
	return f
}

func newFolding(t *liveness.Timeline) *Folding {
	f := &Folding{Of: make([]int, len(t.Vars)), Offset: make([]int64, len(t.Vars)), same: newContents(len(t.Vars))}
	for v, x := range t.Vars {
		f.Of[v] = -1
		if x.Kind == liveness.Block {
			f.Of[v] = len(f.Classes)
			f.Classes = append(f.Classes, Class{Vars: []int{v}, Bytes: x.Bytes, Live: t.Live[v]})
		}
	}
	for v, x := range t.Vars {
		if x.Kind == liveness.Outside {
			continue
		}
		for _, r := range t.Roots(v) {
			f.Classes[f.Of[r]].hold(content{shown(t, v), 0, t.Vars[r].Bytes, t.Own[v]})
		}
	}
	return f
}

// shown is the variable whose content a view shows: views are followed, blocks
// and merged values stand for themselves.
func shown(t *liveness.Timeline, v int) int {
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

type pair struct{ in, out int }

// foldOperands folds results over operands wherever the operator allows it.
func (f *Folding) foldOperands(t *liveness.Timeline) {
	var order []pair
	points := map[pair][]int{}
	for s := range t.Steps {
		for _, p := range overwritable(t, s) {
			if points[p] == nil {
				order = append(order, p)
			}
			points[p] = append(points[p], s)
		}
	}
	for _, p := range order {
		if f.try(p.in, p.out, 0, liveness.Points(points[p]...)) {
			f.Folds++
		}
	}
}

// overwritable lists the blocks that step s may write over: in is read there
// through in-place pairs with out only, and has out's size.
func overwritable(t *liveness.Timeline, s int) []pair {
	st := t.Steps[s]
	if st.Border || st.Node == nil {
		return nil
	}
	allowed := ops.InPlacePairs(st.Node)
	if len(allowed) == 0 {
		return nil
	}
	var out []pair
	for _, a := range allowed {
		o := st.Out[a.Out]
		if o == liveness.None || t.Vars[o].Kind != liveness.Block {
			continue
		}
		bytes, ok := st.Node.In[a.In].Type.ByteSize()
		if !ok || int64(bytes) != t.Vars[o].Bytes {
			continue
		}
		for _, r := range t.Roots(st.In[a.In]) {
			if r != o && t.Vars[r].Bytes == int64(bytes) && onlyThrough(t, st, r, a.Out, allowed) {
				out = append(out, pair{r, o})
			}
		}
	}
	return out
}

// onlyThrough reports whether every operand whose bytes may be block r forms an
// in-place pair with result k.
func onlyThrough(t *liveness.Timeline, st liveness.Step, r, k int, allowed []ops.Pair) bool {
	for i, v := range st.In {
		reads := false
		for _, x := range t.Roots(v) {
			reads = reads || x == r
		}
		if !reads {
			continue
		}
		ok := false
		for _, a := range allowed {
			ok = ok || a.In == i && a.Out == k
		}
		if !ok {
			return false
		}
	}
	return true
}

// try places block b at by bytes after the start of block a, folding their
// classes, unless different contents would meet outside the excepted points. It
// reports whether a new fold was made.
func (f *Folding) try(a, b int, by int64, except liveness.Set) bool {
	ca, cb := f.Of[a], f.Of[b]
	shift := f.Offset[a] + by - f.Offset[b] // of b's class against a's
	if ca == cb {
		return false
	}
	if ca > cb { // keep the older class
		ca, cb, shift = cb, ca, -shift
	}
	x, y := &f.Classes[ca], &f.Classes[cb]
	if f.clash(x, y, shift, except) {
		return false
	}
	if shift < 0 {
		for _, v := range x.Vars {
			f.Offset[v] -= shift
		}
		x.move(-shift)
		shift = 0
	}
	for _, v := range y.Vars {
		f.Of[v] = ca
		f.Offset[v] += shift
	}
	y.move(shift)
	x.absorb(y)
	*y = Class{}
	return true
}

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

func roundUp(n, a int64) int64 {
	if a <= 1 {
		return n
	}
	return (n + a - 1) / a * a
}
