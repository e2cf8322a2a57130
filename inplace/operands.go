package inplace

import (
	"context"
	"slices"
	"sort"

	"github.com/berth-onnx/berth/internal/slab"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ops"
)

// A result may go over an operand whose last use is where it is made. Where it may go
// over several, it matters which one is taken:
//
//	a ■■■■                 a lies in a slot of 4, b in one of 2 of its own:
//	b ■■                   c over a keeps 4 for as long as c lives,
//	c = add(a, b)          c over b keeps 2
//
// and an operand taken here can not be made inside a concatenation any more
// without taking the result with it. The one is taken that leaves the least
// memory held where the two live, then the least summed over time, then the
// first. What that rule can not see, a search over the choices at the peak
// finds; see best.go.
//
// A result smaller than the operand takes the operand's whole place with it, so
// it goes there only if the most that is held at once falls.

// over is a result that may be written over an operand at some steps.
type over struct {
	in, out int          // blocks
	points  liveness.Set // steps that read in and write out
	smaller bool
}

// choice is what a search prescribes for a result: the operand to try first.
type choice struct {
	out, in int
	none    bool // no operand at all
	joined  bool // out is a concatenation, in the operand not to be made inside it
}

// overs lists all pairs, in order of the steps, but for those of a list of many blocks and a result that vain reports. A nil vain reports
// none.
func overs(ctx context.Context, t *liveness.Layout, vain func(roots []int, out int) bool) []over {
	list := make([]over, 0, len(t.Steps))
	known := pairIndex{first: make([]int32, len(t.Vars))}
	var runs slab.Of[liveness.Range]
	var found []over
	for s := range t.Steps {
		if ctx.Err() != nil {
			break
		}
		found = overwritable(ctx, found[:0], t, s, vain)
		for i, o := range found {
			if i%64 == 63 && ctx.Err() != nil {
				break
			}
			point := liveness.Set(runs.Make(1))
			point[0] = liveness.Range{Lo: s, Hi: s + 1}
			at := known.find(list, o)
			if at < 0 {
				at = known.add(list, o)
				list = append(list, o)
			}
			list[at].points = list[at].points.Union(point)
		}
	}
	return list
}

// pairIndex finds a pair in a list of pairs. Those of one result mostly follow each other from the first on, where few are looked at
// one by one; a map holds the others.
type pairIndex struct {
	first []int32 // by result: the place of its first pair plus one, 0 for none
	other map[[2]int]int
}

const fewPairs = 8

// find is the place of a pair, -1 if it is not in the list.
func (x *pairIndex) find(list []over, o over) int {
	if x.first[o.out] == 0 {
		return -1
	}
	from := int(x.first[o.out]) - 1
	for i := from; i < min(from+fewPairs, len(list)) && list[i].out == o.out; i++ {
		if list[i].in == o.in {
			return i
		}
	}
	if at, ok := x.other[[2]int{o.in, o.out}]; ok {
		return at
	}
	return -1
}

// add notes the place of a pair that comes to the end of the list.
func (x *pairIndex) add(list []over, o over) int {
	at := len(list)
	if x.first[o.out] == 0 {
		x.first[o.out] = int32(at + 1)
		return at
	}
	from := int(x.first[o.out]) - 1
	if at < from+fewPairs && !slices.ContainsFunc(list[from:], func(p over) bool { return p.out != o.out }) {
		return at // find comes to it
	}
	if x.other == nil {
		x.other = map[[2]int]int{}
	}
	x.other[[2]int{o.in, o.out}] = at
	return at
}

// foldOperands folds results over operands of their size.
func (f *Folding) foldOperands(ctx context.Context, list []over, prescribed []choice) {
	var group []over
	for i := 0; i < len(list) && ctx.Err() == nil; i += len(group) {
		group = list[i:]
		for k := range group {
			if group[k].out != group[0].out {
				group = group[:k]
				break
			}
		}
		f.foldResult(ctx, group, prescribed)
	}
}

// foldResult folds one result over as many operands as it can (they may be
// alternatives), the best one first.
func (f *Folding) foldResult(ctx context.Context, group []over, prescribed []choice) {
	f.keep()
	left := f.left[:0]
	for _, o := range group {
		if !o.smaller {
			left = append(left, o)
		}
	}
	f.left = left // its memory serves the next result
	if k := slices.IndexFunc(prescribed, func(c choice) bool { return len(left) > 0 && c.out == left[0].out && !c.joined }); k >= 0 {
		c := prescribed[k]
		if c.none {
			return
		}
		sort.SliceStable(left, func(i, j int) bool { return rank(left[i].in == c.in) < rank(left[j].in == c.in) })
		f.foldFirst(&left, 0)
	}
	for len(left) > 0 && ctx.Err() == nil {
		best := 0
		if n := len(left); n > 1 && n <= manyOperands {
			best = f.cheapest(left)
		}
		f.foldFirst(&left, best)
	}
}

func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

func (f *Folding) foldFirst(left *[]over, i int) {
	o := (*left)[i]
	if i == 0 {
		*left = (*left)[1:]
	} else {
		*left = slices.Delete(*left, i, i+1)
	}
	if f.try(o.in, o.out, 0, o.points) {
		f.Folds++
	}
}

// cheapest is the candidate that costs least, the first of equals.
func (f *Folding) cheapest(list []over) int {
	out := &f.Classes[f.Of[list[0].out]]
	wide, differ := out.life.points, false
	for _, o := range list {
		c := &f.Classes[f.Of[o.in]]
		wide, differ = wide.Union(c.life.points), differ || c.size() != out.size()
	}
	if !differ {
		return 0 // every choice leaves as much
	}
	best, least := -1, price{}
	for i, o := range list {
		mark, before := f.mark(), f.areaOf(o.in)+f.areaOf(o.out)
		if !f.try(o.in, o.out, 0, o.points) {
			continue
		}
		p := price{f.load.over(wide), f.areaOf(o.out) - before}
		f.rewind(mark)
		if best < 0 || p.less(least) {
			best, least = i, p
		}
	}
	return max(best, 0)
}

// manyOperands is up to how many operands of one result the cheapest is looked for.
const manyOperands = 64

// price is what a fold costs: the most held then where the blocks concerned live,
// and how much it adds, summed over time.
type price struct{ held, area int64 }

func (p price) less(q price) bool { return p.held < q.held || p.held == q.held && p.area < q.area }

// areaOf is the size of a block's class times the points at which it lives.
func (f *Folding) areaOf(v int) int64 {
	c := &f.Classes[f.Of[v]]
	var points int64
	for _, r := range c.life.points {
		points += int64(r.Hi - r.Lo)
	}
	return c.size() * points
}

// foldSmaller folds results over larger operands for as long as that lowers the
// need. Only a fold at a step that holds the most can.
func (f *Folding) foldSmaller(ctx context.Context, list []over) {
	for again := true; again; {
		again = false
		for _, o := range list {
			if ctx.Err() != nil {
				return
			}
			if !o.smaller || f.Of[o.in] == f.Of[o.out] || !f.bare(o.in) || !f.bare(o.out) {
				continue
			}
			before := f.load.need()
			if f.load.over(o.points) < before.peak {
				continue
			}
			f.keep()
			mark := f.mark()
			if !f.try(o.in, o.out, 0, o.points) {
				continue
			}
			if !f.load.need().less(before) {
				f.rewind(mark)
				continue
			}
			f.Smaller++
			again = true
		}
	}
}

// bare reports whether a block's class is no larger than the block. Inside of
// another, an operand might not be aligned, and would cost nothing, which the
// bounds of package schedule do not reckon with.
func (f *Folding) bare(v int) bool { return f.Classes[f.Of[v]].Bytes == f.lay.Vars[v].Bytes }

// overwritable appends the blocks that step s may write over: in is read there
// through pairs with out only, and begins where out may begin.
func overwritable(ctx context.Context, out []over, t *liveness.Layout, s int, vain func(roots []int, out int) bool) []over {
	st := &t.Steps[s]
	if st.Border || st.Node == nil {
		return out
	}
	for k, pairs := range [2][]ops.Pair{ops.InPlacePairs(st.Node), ops.SmallerPairs(st.Node)} {
		if len(pairs) == 0 {
			continue
		}
		shared := sharedRoots(ctx, t, st, pairs)
		for i, a := range pairs {
			if i%64 == 63 && ctx.Err() != nil {
				return out
			}
			o := st.Out[a.Out]
			if o == liveness.None || t.Vars[o].Kind != liveness.Block {
				continue
			}
			bytes, ok := st.Node.In[a.In].Type.ByteSize()
			if !ok || (k == 0) != (int64(bytes) == t.Vars[o].Bytes) || int64(bytes) < t.Vars[o].Bytes {
				continue
			}
			roots := t.Roots(st.In[a.In])
			if len(roots) > manyRoots && vain != nil && vain(roots, o) {
				continue
			}
			for _, r := range roots {
				if r != o && t.Vars[r].Bytes == int64(bytes) && !shared[rootOf{r, a.Out}] {
					out = append(out, over{in: r, out: o, smaller: k == 1})
				}
			}
		}
	}
	return out
}

// rootOf is a block and a result position of one step.
type rootOf struct{ block, out int }

// sharedRoots lists blocks that a step also reads through an operand which the result
// must not be written over; fewer once the context has ended.
func sharedRoots(ctx context.Context, t *liveness.Layout, st *liveness.Step, pairs []ops.Pair) (shared map[rootOf]bool) {
	var set map[ops.Pair]bool
	if len(pairs) > manyPairs {
		set = make(map[ops.Pair]bool, len(pairs))
		for i, p := range pairs {
			if i%1024 == 1023 && ctx.Err() != nil {
				return nil
			}
			set[p] = true
		}
	}
	for out := range st.Out {
		for i, v := range st.In {
			if i%1024 == 1023 && ctx.Err() != nil {
				return shared
			}
			if p := (ops.Pair{In: i, Out: out}); set != nil && set[p] || set == nil && slices.Contains(pairs, p) {
				continue
			}
			for _, r := range t.Roots(v) {
				if shared == nil {
					shared = map[rootOf]bool{}
				}
				shared[rootOf{r, out}] = true
			}
		}
	}
	return shared
}

// manyRoots is from how many blocks on, which an operand may lie in, they are looked at together.
const manyRoots = 16

// manyPairs is from how many pairs on they are looked up in a set.
const manyPairs = 16
