package rewrite

import (
	"slices"

	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// sliceRange is a cut along some axes: four lists of one length.
type sliceRange struct{ starts, ends, axes, steps []int64 }

// sliceRangeOf reads the constant operands of a Slice; axes count from the front.
func sliceRangeOf(n *ssa.Node) (r sliceRange, ok bool) {
	var known [4]bool
	r.starts, known[0] = ints(n, 1)
	r.ends, known[1] = ints(n, 2)
	r.axes, known[2] = sliceAxes(n, len(r.starts))
	r.steps, known[3] = slices.Repeat([]int64{1}, len(r.starts)), true
	if n.Input(4) != nil {
		r.steps, known[3] = ints(n, 4)
	}
	return r, !slices.Contains(known[:], false) && len(r.ends) == len(r.starts) && len(r.steps) == len(r.starts)
}

// sliceAxes returns the axis of every entry of a Slice's lists, counted from the front.
func sliceAxes(n *ssa.Node, entries int) ([]int64, bool) {
	axes, ok := ints(n, 3)
	if n.Input(3) != nil && (!ok || len(axes) != entries) {
		return nil, false
	}
	out := make([]int64, entries)
	for i := range out {
		a := int64(i)
		if ok {
			a = axes[i]
		}
		axis, err := ops.NormAxis(a, max(n.In[0].Type.Rank(), 0))
		if err != nil {
			return nil, false
		}
		out[i] = int64(axis)
	}
	return out, true
}

// hasPositiveSteps reports that all steps of a Slice are positive.
func hasPositiveSteps(n *ssa.Node) bool {
	steps, ok := ints(n, 4)
	return n.Input(4) == nil || ok && !slices.ContainsFunc(steps, func(s int64) bool { return s <= 0 })
}

// mergeSlice cuts along all axes at once what is cut along one after the other. A
// first cut with several readers goes if it can go into all of them:
//
//	      ┌─▶ [:, ::2] ─▶          ┌─▶ [::2, ::2]  ─▶
//	[::2] ┤                   x ─▶ ┤
//	      └─▶ [:, 1::2] ─▶         └─▶ [::2, 1::2] ─▶
func mergeSlice(c *Context, n *ssa.Node) bool {
	first := def(n.In[0], "Slice")
	if first == nil || c.graph.IsResult(first.Out[0]) {
		return false
	}
	a, ok := sliceRangeOf(first)
	if !ok {
		return false
	}
	var b sliceRange
	for _, u := range first.Out[0].Uses() {
		if !is(u.Node, "Slice") || u.Index != 0 {
			return false
		}
		r, ok := sliceRangeOf(u.Node)
		if !ok || slices.ContainsFunc(r.axes, func(x int64) bool { return slices.Contains(a.axes, x) }) {
			return false
		}
		if u.Node == n {
			b = r
		}
	}
	in := []*ssa.Value{first.In[0]}
	for _, l := range [][2][]int64{{a.starts, b.starts}, {a.ends, b.ends}, {a.axes, b.axes}, {a.steps, b.steps}} {
		in = append(in, c.constant(n.Out[0].Name+"_slice", ssa.Int64s(slices.Concat(l[0], l[1])...)))
	}
	return c.become(n, "Slice", in)
}
