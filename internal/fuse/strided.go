package fuse

import (
	"slices"

	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/ops/kit"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// lies is where the elements of a tensor are found in another one, times a number:
//
//	y[i, j, …] = scale · src[at + i·strides[0] + j·strides[1] + …]
//
// Every tensor of known size lies in itself. Behind nodes that only move elements it lies in their operands, too:
// transpositions permute strides, slices move the first element, what is repeated has a stride of 0.
type lies struct {
	src           *ssa.Value
	at            int64
	dims, strides []int64
	scale         float64
}

// maxViews bounds how far back a tensor is followed.
const maxViews = 12

// viewsOf lists where a tensor lies, from the farthest to itself; nothing if its size is not known.
func viewsOf(v *ssa.Value) []*lies { return viewsUpTo(v, maxViews) }

func viewsUpTo(v *ssa.Value, most int) (out []*lies) {
	shape, ok := v.Type.Static()
	if !ok || slices.Contains(shape, 0) || v.Type.IsBlocked() {
		return nil
	}
	if i, moves := moved(v); moves && most > 0 {
		for _, l := range viewsUpTo(v.Def.In[i], most-1) {
			if l = l.behind(v, shape); l != nil {
				out = append(out, l)
			}
		}
	}
	l := &lies{src: v, dims: int64sOf(shape), scale: 1}
	l.strides = int64sOf(ops.Strides(shape))
	return append(out, l)
}

func int64sOf(list []int) []int64 {
	out := make([]int64, len(list))
	for i, k := range list {
		out[i] = int64(k)
	}
	return out
}

// moved reports a value whose elements are those of an operand, times a number.
func moved(v *ssa.Value) (operand int, ok bool) {
	n := v.Def
	if n == nil || n.Opaque || n.Domain != "" {
		return 0, false
	}
	switch n.Op {
	case "Transpose", "Split", "Slice", "Gather":
		return 0, true
	case "Expand":
		return 0, ops.TargetKnown(n)
	case "Mul":
		if _, ok := numberIn(n.In[0]); ok {
			return 1, true
		}
		_, ok := numberIn(n.In[1])
		return 0, ok
	case "Div":
		_, ok := numberIn(n.In[1])
		return 0, ok
	}
	return 0, keepsElements(n)
}

// behind is where the result v of a node lies, of some shape, if its operand lies at l; nil if it lies nowhere.
func (l *lies) behind(v *ssa.Value, shape []int) *lies {
	n := v.Def
	out := *l
	out.dims, out.strides = slices.Clone(l.dims), slices.Clone(l.strides)
	switch n.Op {
	case "Transpose":
		perm, err := kit.TransposePerm(n, len(l.dims))
		if err != nil {
			return nil
		}
		for i, p := range perm {
			out.dims[i], out.strides[i] = l.dims[p], l.strides[p]
		}
		return &out
	case "Mul", "Div":
		i, _ := moved(v)
		k, _ := numberIn(n.In[1-i])
		if n.Op == "Div" {
			k = 1 / k
		}
		out.scale *= k
		return out.reshaped(shape)
	case "Split":
		axis, err := ops.NormAxis(ops.Int(n, "axis"), len(shape))
		for i := 0; err == nil && n.Out[i] != v; i++ {
			if n.Out[i] == nil { // a part that the model does not name
				return nil
			}
			before, ok := n.Out[i].Type.Static()
			if !ok {
				return nil
			}
			out.at += int64(before[axis]) * l.strides[axis]
		}
		out.dims = int64sOf(shape)
		return &out
	case "Slice":
		return l.sliced(n, shape)
	case "Gather":
		return l.gathered(n)
	case "Expand":
		return l.expanded(shape)
	}
	return l.reshaped(shape)
}

// sliced is a part, forwards.
func (l *lies) sliced(n *ssa.Node, shape []int) *lies {
	starts, ok := ops.ConstInts(n, 1)
	axes, okAxes := ops.ConstInts(n, 3)
	steps, okSteps := ops.ConstInts(n, 4)
	if !ok || n.Input(3) != nil && !okAxes || n.Input(4) != nil && !okSteps {
		return nil
	}
	out := *l
	out.dims, out.strides = int64sOf(shape), slices.Clone(l.strides)
	for i, start := range starts {
		axis, step := i, int64(1)
		if okAxes && n.Input(3) != nil {
			k, err := ops.NormAxis(axes[i], len(shape))
			if err != nil {
				return nil
			}
			axis = k
		}
		if n.Input(4) != nil {
			step = steps[i]
		}
		if step < 1 {
			return nil
		}
		if start < 0 {
			start += l.dims[axis]
		}
		start = min(max(start, 0), l.dims[axis]-1)
		out.at += start * l.strides[axis]
		out.strides[axis] *= step
	}
	return &out
}

// gathered is one element along an axis.
func (l *lies) gathered(n *ssa.Node) *lies {
	index, ok := ops.ConstInts(n, 1)
	axis, err := ops.NormAxis(ops.Int(n, "axis"), len(l.dims))
	if !ok || err != nil || len(index) != 1 || n.In[1].Type.Rank() != 0 {
		return nil
	}
	k, err := ops.WrapIndex(index[0], int(l.dims[axis]))
	if err != nil {
		return nil
	}
	out := *l
	out.at += int64(k) * l.strides[axis]
	out.dims, out.strides = without(l.dims, axis), without(l.strides, axis)
	return &out
}

// without is a list without an element.
func without(list []int64, i int) []int64 { return append(slices.Clone(list[:i]), list[i+1:]...) }

// expanded repeats elements.
func (l *lies) expanded(shape []int) *lies {
	out := *l
	out.dims, out.strides = int64sOf(shape), make([]int64, len(shape))
	skip := len(shape) - len(l.dims)
	for i, d := range l.dims {
		if d == out.dims[skip+i] {
			out.strides[skip+i] = l.strides[i]
		}
	}
	return &out
}

// reshaped sees the elements in another shape, in their order; nil if they have no such strides.
//
// Dimensions of both shapes are taken in groups of the same number of elements. A group of the old one must be
// one run, each stride the next one times its dimension; the new dimensions divide it.
func (l *lies) reshaped(shape []int) *lies {
	out := *l
	out.dims, out.strides = int64sOf(shape), make([]int64, len(shape))
	for i, k := 0, 0; ; {
		for i < len(l.dims) && l.dims[i] == 1 {
			i++
		}
		for k < len(shape) && shape[k] == 1 {
			k++
		}
		if i == len(l.dims) || k == len(shape) {
			return &out
		}
		first, to := i, k
		have, want := int64(1), int64(1)
		for have != want || have == 1 {
			switch {
			case have <= want && i < len(l.dims):
				have *= l.dims[i]
				i++
			case have > want && k < len(shape):
				want *= out.dims[k]
				k++
			default:
				return nil
			}
		}
		stride, ok := runOf(l.dims[first:i], l.strides[first:i])
		if !ok {
			return nil
		}
		for d := k - 1; d >= to; d-- {
			out.strides[d] = stride
			stride *= out.dims[d]
		}
	}
}

// runOf is the stride of dimensions that are one run.
func runOf(dims, strides []int64) (stride int64, ok bool) {
	next := int64(-1)
	for i := len(dims) - 1; i >= 0; i-- {
		switch {
		case dims[i] == 1:
			continue
		case next < 0:
			stride = strides[i]
		case strides[i] != next:
			return 0, false
		}
		next = strides[i] * dims[i]
	}
	return stride, true
}

// denseRows reports rows, along the last dimension, that are dense and do not overlap.
func (l *lies) denseRows() bool {
	r := len(l.dims)
	return r >= 2 && (l.strides[r-1] == 1 || l.dims[r-1] == 1) && (l.dims[r-2] == 1 || l.strides[r-2] >= l.dims[r-1])
}

// denseCols is the same for columns.
func (l *lies) denseCols() bool {
	r := len(l.dims)
	return r >= 2 && (l.strides[r-2] == 1 || l.dims[r-2] == 1) && (l.dims[r-1] == 1 || l.strides[r-1] >= l.dims[r-2])
}

// form is how a node says where the factors of an operand lie.
func (l *lies) form(batch []int, row, col int) fused.Strided {
	out := fused.Strided{At: int(l.at), Row: int(l.strides[row]), Col: int(l.strides[col])}
	for _, f := range batch {
		out.Batch = append(out.Batch, int(l.strides[f]))
	}
	return out
}
