// Package window says where groups read operands and write results in memory: programs of package fused
// over parts of tensors.
package window

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Windows let a group read and write parts of tensors where they lie: a slice with steps, a
// transposed or mirrored view, a broadcast. The operand, or the result, is the memory that the
// window lies in; its own shape does not matter.
//
//	memory        0  1  2  3  4  5  6  7  8  9
//	window           a  b     c  d     e  f        Shape [3 2], Strides [3 1], First 1
//
// A result with a window is written there, and what lies between its elements is left as it is:
// the memory must be there before, as that of placed results is.

// Window is the place of a tensor in memory, in elements.
type Window struct {
	Shape, Strides []int
	First          int // the element whose indices are all 0
}

// Windows are those of the operands and results of a node; nil for tensors that fill their memory.
type Windows struct{ Operands, Results []*Window }

// Span is how many elements lie between the lowest and the highest element of the window, both
// included, and at which of them the first one is.
func (w *Window) Span() (elems, first int) {
	elems = 1
	for d, n := range w.Shape {
		if n == 0 {
			return 0, 0
		}
		elems += (n - 1) * max(w.Strides[d], -w.Strides[d])
		first += (n - 1) * max(-w.Strides[d], 0)
	}
	return elems, first
}

// String prints shape, strides and first element.
func (w *Window) String() string {
	if w == nil {
		return "_"
	}
	return fmt.Sprintf("%v %v %d", w.Shape, w.Strides, w.First)
}

// Attr is the attribute of a group that holds windows.
func Attr(w *Windows) ssa.Attr {
	var text []string
	for _, x := range slices.Concat(w.Operands, w.Results) {
		text = append(text, x.String())
	}
	a := ssa.StringAttr("windows", strings.Join(text, "; "))
	a.Other = w
	return a
}

// Of returns the windows of a group, with an entry for every operand and result.
func Of(n *ssa.Node) *Windows {
	if w, ok := fused.PlacesOf(n).(*Windows); ok && len(w.Operands) == len(n.In) && len(w.Results) == len(n.Out) {
		return w
	}
	return &Windows{make([]*Window, len(n.In)), make([]*Window, len(n.Out))}
}

// Gather writes the elements of a window out, within the budget that a context carries, until that ends.
func (w *Window) Gather(ctx context.Context, a *ndarray.Array) (*ndarray.Array, error) {
	out, err := ndarray.NewContext(ctx, ndarray.BudgetOf(ctx), a.DType, w.Shape...)
	if err != nil {
		return nil, err
	}
	size := a.DType.Size()
	return out, w.each(ctx, func(i, at, n int) { copy(out.Data[i*size:(i+n)*size], a.Data[at*size:]) })
}

// Scatter writes elements into a window, until a context ends.
func (w *Window) Scatter(ctx context.Context, dst, src *ndarray.Array) error {
	size := src.DType.Size()
	return w.each(ctx, func(i, at, n int) { copy(dst.Data[at*size:(at+n)*size], src.Data[i*size:]) })
}

// lookStep is how many elements are moved between two looks at the context.
const lookStep = 1 << 18

// each calls f for every element in row-major order, for several that lie one behind the other at once: with the number of the first,
// its place and how many they are.
func (w *Window) each(ctx context.Context, f func(i, at, n int)) error {
	outer, run := len(w.Shape), 1
	for outer > 0 && w.Strides[outer-1] == run {
		outer--
		run *= w.Shape[outer]
	}
	idx, left := make([]int, outer), 0
	for i, total := 0, ndarray.Product(w.Shape); i < total; {
		at := w.First
		for d, k := range idx {
			at += k * w.Strides[d]
		}
		for end := i + run; i < end; {
			if left <= 0 {
				if left = lookStep; ctx != nil && ctx.Err() != nil {
					return ctx.Err()
				}
			}
			n := min(end-i, left)
			f(i, at, n)
			i, at, left = i+n, at+n, left-n
		}
		for d := outer - 1; d >= 0; d-- {
			if idx[d]++; idx[d] < w.Shape[d] {
				break
			}
			idx[d] = 0
		}
	}
	return nil
}

// same reports that two tensors lie in the same way in their memory.
func (w *Window) same(x *Window) bool {
	return slices.Equal(w.Shape, x.Shape) && slices.Equal(w.Strides, x.Strides) && w.First == x.First
}

// Loops is part of [fused.Places].
func (w *Windows) Loops(n *ssa.Node, p *tile.Program) (l *tile.Loops, bases, placed []int, err error) {
	placed = make([]int, len(w.Results))
	shapes := make([][]int, len(n.In))
	for i, v := range n.In {
		if x := w.Operands[i]; x != nil {
			shapes[i] = x.Shape
		} else if shapes[i], _ = v.Type.Static(); shapes[i] == nil {
			return nil, nil, nil, errWindow
		}
	}
	full, err := ops.BroadcastShapes(shapes...)
	if err != nil {
		return nil, nil, nil, err
	}
	strides, bases := make([][]int, len(shapes)), make([]int, len(shapes))
	for i, s := range shapes {
		strides[i] = ops.BroadcastStrides(s, full)
		if x := w.Operands[i]; x != nil {
			bases[i] = x.First
			for d := range x.Shape { // what is repeated has no stride
				if at := len(full) - len(x.Shape) + d; x.Shape[d] == full[at] {
					strides[i][at] = x.Strides[d]
				}
			}
		}
	}
	for k, x := range w.Results {
		if x == nil {
			continue
		}
		if p.IsRow(p.Results[k].Value) || !slices.Equal(x.Shape, full) {
			return nil, nil, nil, errWindow
		}
		placed[k] = len(strides)
		strides, bases = append(strides, x.Strides), append(bases, x.First)
	}
	l, err = p.BindStrided(full, strides)
	return l, bases, placed, err
}

// errWindow is the error of shapes that are not known, and of results that are not of the window's shape.
var errWindow = errors.New("operands or results are no tensors of known shape, or other ones than their windows")

// MayCover is part of [fused.Places].
func (w *Windows) MayCover(n *ssa.Node, o, k int) bool {
	a, b := w.Operands[o], w.Results[k]
	if a == nil || b == nil {
		return a == nil && b == nil && ops.SameLayout(n.In[o].Type, n.Out[k].Type)
	}
	return a.same(b) && n.In[o].Type.DType.Size() == n.Out[k].Type.DType.Size()
}

// Infer is part of [fused.Places].
func (w *Windows) Infer(n *ssa.Node) ([]ops.Inferred, error) {
	out, err := ops.Of(n).Infer(w.plain(n))
	if err != nil {
		return nil, err
	}
	for k, x := range w.Results {
		if x != nil {
			elems, first := x.Span()
			out[k].Type = ssa.StaticTensor(out[k].Type.DType, elems+x.First-first)
		}
	}
	return out, nil
}

// plain is the node over what the windows show; it is in no graph.
func (w *Windows) plain(n *ssa.Node) *ssa.Node {
	m := &ssa.Node{Op: n.Op, Domain: n.Domain, Attrs: []ssa.Attr{*n.Attr("program")}, In: slices.Clone(n.In), Out: n.Out}
	for i, x := range w.Operands {
		if x != nil {
			m.In[i] = &ssa.Value{Type: ssa.StaticTensor(n.In[i].Type.DType, x.Shape...)}
		}
	}
	return m
}

// Eval is part of [fused.Places].
func (w *Windows) Eval(c *ops.Call) (err error) {
	d := ops.Call{Ctx: c.Ctx, Node: w.plain(c.Node), Threads: c.Threads, Memory: c.Memory, In: slices.Clone(c.In), Out: slices.Clone(c.Out)}
	for i, x := range w.Operands {
		if x == nil {
			continue
		}
		if d.In[i], err = x.Gather(c.Memory.In(c.Ctx), c.Array(i)); err != nil {
			return err
		}
	}
	for k, x := range w.Results {
		if x != nil && k < len(d.Out) {
			d.Out[k] = nil
		}
	}
	if err := ops.Of(c.Node).Eval(&d); err != nil {
		return err
	}
	for k, x := range w.Results {
		if !c.Wants(k) {
			continue
		}
		if x == nil {
			if err := c.SetOutput(k, d.Out[k]); err != nil {
				return err
			}
			continue
		}
		shape, _ := c.Node.Out[k].Type.Static()
		dst, err := c.Output(k, c.Node.Out[k].Type.DType, shape...)
		if err != nil {
			return err
		}
		if err := x.Scatter(c.Ctx, dst, d.Out[k].(*ndarray.Array)); err != nil {
			return err
		}
	}
	return nil
}
