package inplace

import (
	"context"
	"slices"

	"github.com/berth-onnx/berth/internal/slab"
	"github.com/berth-onnx/berth/liveness"
)

// Which values may lie where, and the slots that merged values may come from.
//
// In a chain of loops, each of which may run not at all, a value may lie in a slot of any loop before it. So variables with
// the same roots are seen together, by the list that they share, and of two lists one of which holds the other, only
// the pairs that are not in both are tried:
//
//	o1 = a | b              a b
//	o2 = o1 | c             a b c       a and b have been tried: what clashed then clashes now, since classes only grow
//	x = f(o2) while c is    c clashes with all in the list at once: x may lie in any of them
//	kept for something

// shows knows the values that variables show.
type shows struct {
	lives  []*life        // by value: where it is needed, whichever variable shows it
	order  []int          // the values that lie in blocks, as variables show them first
	byList map[*int][]int // by the list of roots, where it has several: the values that may lie there
}

func showsOf(ctx context.Context, l *liveness.Layout, when times) shows {
	s := shows{lives: make([]*life, len(l.Vars)), byList: map[*int][]int{}}
	var lives slab.Of[life]
	for v := range l.Vars {
		if v%64 == 0 && ctx.Err() != nil {
			break
		}
		roots := l.Roots(v)
		if len(roots) == 0 {
			continue
		}
		value := l.Shown(v)
		if at := s.lives[value]; at != nil {
			*at = when.union(*at, when.of(v))
			continue
		}
		s.lives[value] = lives.New()
		*s.lives[value] = when.of(v)
		s.order = append(s.order, value)
		if len(roots) > 1 {
			s.byList[&roots[0]] = append(s.byList[&roots[0]], value)
		}
	}
	return s
}

// needed reports whether a value that may lie in any block of a list is needed at a time at which a block's own content is: the block
// can then not be folded with another of the list.
func (s *shows) needed(when times, roots []int, block int, except liveness.Set) bool {
	own := s.lives[block]
	return own != nil && slices.ContainsFunc(s.byList[&roots[0]], func(v int) bool { return v != block && when.meet(*s.lives[v], *own, except) })
}

// vain reports that a result clashes with every block of a list that it might be written over: something that may lie in any of them is
// needed while the result is, not only at the steps that write it.
func vain(ctx context.Context, t *liveness.Timeline) func(roots []int, out int) bool {
	var s shows
	var written []liveness.Set
	return func(roots []int, out int) bool {
		if written == nil {
			s, written = showsOf(ctx, &t.Layout, oneOrder{t}), make([]liveness.Set, len(t.Vars))
			for at, st := range t.Steps {
				for _, v := range st.Out {
					if v != liveness.None && t.Vars[v].Kind == liveness.Block {
						written[v] = written[v].Union(liveness.Set{{Lo: at, Hi: at + 1}})
					}
				}
			}
		}
		return t.Vars[out].Bytes > 0 && s.needed(oneOrder{t}, roots, out, written[out])
	}
}

// holdAll notes what may lie in each class of one block.
func (f *Folding) holdAll(ctx context.Context) {
	many := make([]int, len(f.Classes))
	for _, v := range f.shows.order {
		for _, r := range f.lay.Roots(v) {
			many[f.Of[r]]++
		}
	}
	var held slab.Of[content]
	for i, n := range many {
		f.Classes[i].held = held.Make(n)[:0]
	}
	for i, v := range f.shows.order {
		if i%64 == 0 && ctx.Err() != nil {
			return
		}
		for _, r := range f.lay.Roots(v) {
			c := &f.Classes[f.Of[r]]
			c.held = append(c.held, content{v, r, 0, f.lay.Vars[r].Bytes, f.shows.lives[v]})
		}
	}
}

// mergeAlternatives folds the places a merged value may come from, as far as they
// are alike: they hold it in turn, never at once.
func (f *Folding) mergeAlternatives(ctx context.Context, alike func(a, b int) bool) {
	tried := map[*int]bool{}
	for v := range f.lay.Vars {
		if ctx.Err() != nil {
			return
		}
		x := &f.lay.Vars[v]
		roots := f.lay.Roots(v)
		if x.Kind != liveness.Pointer || !x.Phi || len(x.Sources) < 2 || len(roots) < 2 || tried[&roots[0]] {
			continue
		}
		f.mergeRoots(ctx, roots, f.triedBefore(v, tried), alike)
		tried[&roots[0]] = true
	}
}

// triedBefore is the longest list within a variable's roots of which all pairs have been tried.
func (f *Folding) triedBefore(v int, tried map[*int]bool) (list []int) {
	roots := f.lay.Roots(v)
	seen := map[int]bool{v: true}
	for work := []int{v}; len(work) > 0; {
		x := work[len(work)-1]
		work = work[:len(work)-1]
		for _, s := range f.lay.Vars[x].Sources {
			switch r := f.lay.Roots(s); {
			case len(r) == 0:
			case &r[0] == &roots[0] && !seen[s]:
				seen[s] = true
				work = append(work, s)
			case len(r) > len(list) && &r[0] != &roots[0] && tried[&r[0]]:
				list = r
			}
		}
	}
	return list
}

// mergeRoots tries the pairs of a list that are not in another one, which it holds; not all once the context has ended.
func (f *Folding) mergeRoots(ctx context.Context, roots, before []int, alike func(a, b int) bool) {
	_, ordered := f.times.(oneOrder)
	var all, added []int // those that may fold at all
	isNew := make([]bool, 0, len(roots))
	for _, r := range roots {
		if ctx.Err() != nil {
			return
		}
		old := len(before) > 0 && before[0] == r
		if old {
			before = before[1:]
		}
		if !old && ordered && f.lay.Vars[r].Bytes > 0 && f.shows.needed(f.times, roots, r, nil) {
			continue
		}
		all, isNew = append(all, r), append(isNew, !old)
		if !old {
			added = append(added, r)
		}
	}
	if len(added) == 0 {
		return
	}
	for i, a := range all {
		if ctx.Err() != nil {
			return
		}
		with := all[i+1:]
		if !isNew[i] {
			for len(added) > 0 && added[0] < a {
				added = added[1:]
			}
			with = added
		}
		for _, b := range with {
			if f.lay.Vars[a].Bytes != f.lay.Vars[b].Bytes || !alike(a, b) {
				continue
			}
			f.tries++
			if f.try(a, b, 0, nil) {
				f.Merges++
			}
		}
	}
}
