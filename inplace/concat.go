package inplace

import (
	"context"
	"slices"
	"sort"

	"github.com/berth-onnx/berth/alias"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ssa"
)

// A concatenation along the outermost axis that matters is free when its
// operands are made inside its result:
//
//	p ■■■■                         p at r+0
//	q      ■■■■■■                  q at r+64      one class, nothing is copied
//	r ■■■■■■■■■■                   r = concat(p, q)
//
// The price is that all of r is taken from the first operand's birth on. So each
// concatenation is tried, and kept only if the memory that must be live at once
// does not grow by it.

// windowUse is one operand block made inside one result block.
type windowUse struct {
	operand, result int
	by              int64
}

// joined is a concatenation and the operands that could be made inside its result.
type joined struct {
	node *ssa.Node
	uses []windowUse
}

// concatsOf lists the concatenations of a program, largest result first.
func concatsOf(ctx context.Context, t *liveness.Layout) []joined {
	var list []joined
	at := map[*ssa.Node]int{}
	seen := map[windowUse]bool{}
	for _, st := range t.Steps {
		if ctx.Err() != nil {
			break
		}
		for _, u := range windowsAt(t, st) {
			i, ok := at[st.Node]
			if !ok {
				i = len(list)
				at[st.Node] = i
				list = append(list, joined{node: st.Node})
			}
			if !seen[u] {
				seen[u] = true
				list[i].uses = append(list[i].uses, u)
			}
		}
	}
	sort.SliceStable(list, func(i, j int) bool {
		x, _ := list[i].node.Out[0].Type.ByteSize()
		y, _ := list[j].node.Out[0].Type.ByteSize()
		return x > y
	})
	return list
}

// foldConcats tries every concatenation: with all operands in the result, or, if
// less must be live at once then, with those that come to be last.
func (f *Folding) foldConcats(ctx context.Context, t *liveness.Timeline, list []joined, prescribed []choice) {
	for _, c := range list {
		if ctx.Err() != nil {
			return
		}
		if len(prescribed) > 0 {
			c.uses = slices.DeleteFunc(slices.Clone(c.uses), func(u windowUse) bool {
				return slices.Contains(prescribed, choice{out: u.result, in: u.operand, none: true, joined: true})
			})
		}
		f.keep()
		before, mark := f.load.need(), f.mark()
		made, all := f.placeAll(ctx, c.uses), f.load.need()
		if made > 0 && f.load.over(f.Classes[f.Of[c.uses[0].result]].life.points) == all.peak { // it is part of the peak
			f.rewind(mark)
			made = f.placeLast(ctx, t, c.uses)
			if all.peak <= before.peak && !f.load.need().less(all) {
				f.rewind(mark)
				made = f.placeAll(ctx, c.uses)
			}
		}
		f.Concats += made
	}
}

func (f *Folding) placeAll(ctx context.Context, uses []windowUse) (made int) {
	for _, u := range uses {
		if ctx.Err() == nil && f.place(u) {
			made++
		}
	}
	return made
}

// placeLast makes operands inside the result for as long as nothing more must be
// live at once, the one that comes to be last first.
func (f *Folding) placeLast(ctx context.Context, t *liveness.Timeline, uses []windowUse) (made int) {
	if len(uses) < 2 {
		return 0
	}
	uses = slices.Clone(uses)
	sort.SliceStable(uses, func(i, j int) bool { return birth(t, uses[i].operand) > birth(t, uses[j].operand) })
	for _, u := range uses {
		before, mark := f.load.need(), f.mark()
		if ctx.Err() != nil || !f.place(u) {
			continue
		}
		if f.load.need().peak > before.peak {
			f.rewind(mark)
			break
		}
		made++
	}
	return made
}

// birth is the first point at which a block lives.
func birth(t *liveness.Timeline, v int) int {
	if len(t.Live[v]) == 0 {
		return 0
	}
	return t.Live[v][0].Lo
}

// mostParts is up to how many operands a concatenation is looked at: every one that is
// made inside its result is compared with all before it.
const mostParts = 4096

// windowsAt lists the operands of a step that its operator copies whole into a
// window of its result, where both own their bytes.
func windowsAt(t *liveness.Layout, st liveness.Step) []windowUse {
	if st.Border || st.Node == nil {
		return nil
	}
	parts := alias.Parts(st.Node)
	if len(parts) > mostParts {
		return nil
	}
	var out []windowUse
	for _, a := range parts {
		roots := t.Roots(st.In[a.In])
		bytes, ok := st.Node.In[a.In].Type.ByteSize()
		r := st.Out[a.Out]
		if !ok || len(roots) != 1 || t.Vars[r].Kind != liveness.Block || t.Vars[roots[0]].Bytes != int64(bytes) || bytes == 0 {
			continue
		}
		out = append(out, windowUse{operand: roots[0], result: r, by: a.Offset})
	}
	return out
}

// place makes one operand inside the result: from the concatenation on both are
// the same content.
func (f *Folding) place(u windowUse) bool {
	if f.Of[u.operand] == f.Of[u.result] {
		return false
	}
	fresh, ok := f.same.window(u.operand, u.result, u.by)
	if ok && f.try(u.result, u.operand, u.by, nil) {
		if fresh {
			f.log[len(f.log)-1].window = u.operand
		}
		return true
	}
	if fresh {
		f.same.forget(u.operand)
	}
	return false
}
