package inplace

import (
	"slices"

	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ops"
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
	points          []int
}

// foldConcats tries every node with in-result operands, largest result first.
func (f *Folding) foldConcats(t *liveness.Timeline) {
	var order []*ssa.Node
	uses := map[*ssa.Node][]windowUse{}
	for s, st := range t.Steps {
		if st.Border || st.Node == nil {
			continue
		}
		found := windowsAt(t, st)
		if len(found) > 0 && uses[st.Node] == nil {
			order = append(order, st.Node)
		}
		for _, u := range found {
			uses[st.Node] = addUse(uses[st.Node], u, s)
		}
	}
	slices.SortStableFunc(order, func(a, b *ssa.Node) int {
		x, _ := a.Out[0].Type.ByteSize()
		y, _ := b.Out[0].Type.ByteSize()
		return y - x
	})
	bound := f.peak()
	for _, n := range order {
		saved := f.snapshot()
		made := 0
		for _, u := range uses[n] {
			if f.place(t, u) {
				made++
			}
		}
		if made == 0 {
			continue
		}
		if after := f.peak(); after > bound {
			f.restore(saved)
		} else {
			bound = after
			f.Concats += made
		}
	}
}

func addUse(list []windowUse, u windowUse, step int) []windowUse {
	for i := range list {
		if list[i].operand == u.operand && list[i].result == u.result && list[i].by == u.by {
			list[i].points = append(list[i].points, step)
			return list
		}
	}
	u.points = []int{step}
	return append(list, u)
}

// windowsAt lists the operands of a step that its operator copies whole into a
// window of its result, where both own their bytes.
func windowsAt(t *liveness.Timeline, st liveness.Step) []windowUse {
	var out []windowUse
	if !staticTypes(st.Node) {
		return nil
	}
	for _, a := range ops.Aliases(st.Node) {
		if !a.Concat || st.Out[a.Out] == liveness.None {
			continue
		}
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

func staticTypes(n *ssa.Node) bool {
	for _, vs := range [2][]*ssa.Value{n.In, n.Out} {
		for _, v := range vs {
			if v != nil && !v.Type.IsStatic() {
				return false
			}
		}
	}
	return true
}

// place makes one operand inside the result: from the concatenation on both are
// the same content.
func (f *Folding) place(t *liveness.Timeline, u windowUse) bool {
	if f.Of[u.operand] == f.Of[u.result] {
		return false
	}
	saved := f.same.clone()
	if !f.same.window(u.operand, u.result, u.by) || !f.try(u.result, u.operand, u.by, nil) {
		f.same = saved
		return false
	}
	return true
}

// peak is the most bytes the classes need at one point: no plan is smaller.
func (f *Folding) peak() int64 {
	type event struct {
		at    int
		bytes int64
	}
	var events []event
	for _, c := range f.Classes {
		size := roundUp(c.Bytes, 64)
		for _, r := range c.Live {
			events = append(events, event{r.Lo, size}, event{r.Hi, -size})
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		if a.at != b.at {
			return a.at - b.at
		}
		if a.bytes < b.bytes {
			return -1
		} else if a.bytes > b.bytes {
			return 1
		}
		return 0
	})
	var now, most int64
	for _, e := range events {
		now += e.bytes
		most = max(most, now)
	}
	return most
}

// snapshot copies what folding changes.
func (f *Folding) snapshot() *Folding {
	s := *f
	s.Of, s.Offset, s.same = slices.Clone(f.Of), slices.Clone(f.Offset), f.same.clone()
	s.Classes = slices.Clone(f.Classes)
	for i := range s.Classes {
		s.Classes[i].Vars = slices.Clone(s.Classes[i].Vars)
		s.Classes[i].held = slices.Clone(s.Classes[i].held)
	}
	return &s
}

func (f *Folding) restore(s *Folding) { *f = *s }
