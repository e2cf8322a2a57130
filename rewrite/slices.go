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
	x := n.In[0].Type
	lists := []*[]int64{nil, &r.starts, &r.ends, &r.axes, &r.steps}
	for i := 1; i < len(lists); i++ {
		if n.Input(i) == nil {
			continue
		}
		if *lists[i], ok = ints(n, i); !ok {
			return r, false
		}
	}
	if !x.Ranked || len(r.starts) != len(r.ends) {
		return r, false
	}
	k := len(r.starts)
	if r.axes = slices.Clone(r.axes); n.Input(3) == nil {
		for i := range k {
			r.axes = append(r.axes, int64(i))
		}
	}
	if n.Input(4) == nil {
		r.steps = slices.Repeat([]int64{1}, k)
	}
	for i, a := range r.axes {
		axis, err := ops.NormAxis(a, x.Rank())
		if err != nil {
			return r, false
		}
		r.axes[i] = int64(axis)
	}
	return r, len(r.axes) == k && len(r.steps) == k
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
