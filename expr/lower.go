package expr

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/ops/window"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// From expressions to a graph. Views go down to what they can be read from:
//
//	(exp(a) + b)[1:3]            a, b memory
//	exp(a[1:3]) + b[1:3]         windows of parameters: groups read them where they lie
//	reduce(a)[1:3]               the reduction is computed, and a window of it read
//
// Values are kept by node and view, so that what an expression holds twice is computed once.

// lowering makes one graph.
type lowering struct {
	ctx    context.Context // of copies of memory, with their budget
	g      *ssa.Graph
	params map[*node]*ssa.Value // of memory
	made   map[shown]*ssa.Value
	views  viewer

	portable bool                 // the graph is one of a file: standard operators, constants for memory
	written  map[*node]*ssa.Value // memory that an assignment has written: what it holds since
}

// viewer writes a view of a value that is there as nodes.
type viewer func(g *ssa.Graph, of *ssa.Value, v *view, strides []int, first int) (*ssa.Value, error)

// shown is a node through a view.
type shown struct {
	n    *node
	view string
}

func newLowering(ctx context.Context, views viewer) *lowering {
	return &lowering{ctx: ctx, g: ssa.NewGraph("expr"), params: map[*node]*ssa.Value{}, made: map[shown]*ssa.Value{}, views: views, written: map[*node]*ssa.Value{}}
}

// write says what memory holds from now on: nothing that was made before counts any more.
func (l *lowering) write(n *node, x *ssa.Value) {
	l.written[n] = x
	clear(l.made)
}

// windows is the viewer of programs: groups copy windows, or read them where they lie.
func windows(g *ssa.Graph, of *ssa.Value, v *view, strides []int, first int) (*ssa.Value, error) {
	out := window.View(g, of, v.window(strides, first))
	return out, ops.Infer(out.Def)
}

// value is a node through a view, nil for all of it; dimensions along which the view repeats it may
// be 1.
func (l *lowering) value(n *node, v *view) (*ssa.Value, error) {
	if v != nil && v.isIdentity(n.shape) {
		v = nil
	}
	key := shown{n, v.key()}
	if x := l.made[key]; x != nil {
		return x, nil
	}
	x, err := l.newValue(n, v)
	if err == nil {
		l.made[key] = x
	}
	return x, err
}

// literal is a number of the program, no weight.
func (l *lowering) literal(a *ndarray.Array) *ssa.Value {
	c := ssa.NewConstant(a)
	c.SetLiteral()
	return l.g.AddConst(fmt.Sprint("c", l.g.NumValues()), c)
}

func (l *lowering) newValue(n *node, v *view) (*ssa.Value, error) {
	switch {
	case n.kind == looked:
		return l.value(n.in[0], v.after(n.view))
	case n.kind == number && len(n.shape) == 0:
		return l.literal(n.value), nil
	case n.kind == number:
		return l.through(l.literal(n.value), n.shape, v)
	case n.kind == end && l.params[n] == nil:
		return nil, errOtherModel
	case n.kind == end:
		return l.through(l.params[n], n.shape, v)
	case n.kind == leaf && l.portable:
		a, err := l.contents(n)
		if err != nil {
			return nil, err
		}
		return l.through(l.g.AddConst("", ssa.NewConstant(a)), n.shape, v)
	case n.kind == leaf:
		return l.memory(n, v)
	case n.op.each:
		return l.operator(n, func(x *node) (*ssa.Value, error) { return l.value(x, v.ofOperand(x.shape, n.shape)) })
	}
	if in := inStages(n); in != nil && in.err == nil && !l.portable {
		x, err := l.value(in, nil)
		if err != nil {
			return nil, err
		}
		return l.through(x, n.shape, v)
	}
	x, err := l.operator(n, l.exact)
	if err != nil {
		return nil, err
	}
	return l.through(x, n.shape, v)
}

// through is a value of a shape through a view.
func (l *lowering) through(x *ssa.Value, shape []int, v *view) (*ssa.Value, error) {
	if v == nil {
		return x, nil
	}
	return l.views(l.g, x, v, ops.Strides(shape), 0)
}

// memory is a tensor through a view.
func (l *lowering) memory(n *node, v *view) (*ssa.Value, error) {
	if x := l.written[n]; x != nil {
		return l.through(x, n.shape, v)
	}
	x := l.params[n]
	if v == nil && n.place.window == nil {
		return x, nil
	}
	if v == nil {
		v = identity(n.shape)
	}
	strides, first := n.place.strides(n.shape)
	return l.views(l.g, x, v, strides, first)
}

// operator is a node of the graph over operands.
func (l *lowering) operator(n *node, operand func(*node) (*ssa.Value, error)) (*ssa.Value, error) {
	in := make([]*ssa.Value, len(n.in))
	for i, x := range n.in {
		if x == nil {
			continue
		}
		var err error
		if in[i], err = operand(x); err != nil {
			return nil, err
		}
	}
	m := l.g.NewNode(n.op.name, in, 1, n.op.attrs...)
	if n.op.fn != nil && l.portable {
		return nil, &TypeError{n.op.name, "a function of Go is in no file", nil}
	}
	if n.op.fn != nil {
		m.Op, m.Domain, m.Attrs = fused.CallName, fused.Domain, []ssa.Attr{fused.FuncAttr(n.op.fn)}
	}
	if o := ops.Of(m); o != nil {
		for len(m.Out) < o.MinOut {
			l.g.AddOutput(m, fmt.Sprint(m.Op, "_", m.ID, "_", len(m.Out)))
		}
	}
	if err := ops.Infer(m); err != nil {
		return nil, &TypeError{n.op.name, "", err}
	}
	if t := m.Out[0].Type; t.DType != n.dt {
		return nil, &TypeError{n.op.name, fmt.Sprintf("the result is of %s, not of %s", t.DType, n.dt), nil}
	}
	return m.Out[0], nil
}

// exact is a node with an element in memory for each of its shape, as products and the like ask for.
func (l *lowering) exact(n *node) (*ssa.Value, error) {
	var x *ssa.Value
	var err error
	var axes []int
	switch {
	case n.kind == looked && n.view.isPermutation(n.in[0].shape):
		axes = n.view.of
		x, err = l.exact(n.in[0])
	case n.kind == leaf && n.place.window != nil && l.written[n] == nil && !l.portable:
		if axes = permutation(n); axes != nil {
			x, err = l.unpermuted(n, axes)
		}
	}
	if axes == nil || err != nil {
		return l.shaped(n, n.shape)
	}
	perm := make([]int64, len(axes))
	for j, d := range axes {
		perm[j] = int64(d)
	}
	m := l.g.NewNode("Transpose", []*ssa.Value{x}, 1, ssa.IntsAttr("perm", perm...)) // products read it as it is
	return m.Out[0], ops.Infer(m)
}

// permutation is the order of dimensions in which a tensor is a transposed array, nil if it is none.
func permutation(n *node) []int {
	w, axes := n.place.window, make([]int, len(n.shape))
	sorted := make([]int, len(n.shape)) // dimensions of the tensor, outermost in memory first
	for d := range sorted {
		sorted[d] = d
	}
	slices.SortStableFunc(sorted, func(a, b int) int { return w.Strides[b] - w.Strides[a] })
	step := 1
	for k := len(sorted) - 1; k >= 0; k-- {
		d := sorted[k]
		if w.Strides[d] != step || w.First != 0 {
			return nil
		}
		axes[d] = k
		step *= n.shape[d]
	}
	return axes
}

// unpermuted is the array of which a tensor is the transposed.
func (l *lowering) unpermuted(n *node, axes []int) (*ssa.Value, error) {
	shape := make([]int64, len(axes))
	for d, k := range axes {
		shape[k] = int64(n.shape[d])
	}
	target := l.g.AddConst(fmt.Sprint("c", l.g.NumValues()), ssa.Int64s(shape...))
	m := l.g.NewNode("Reshape", []*ssa.Value{l.params[n], target}, 1)
	return m.Out[0], ops.Infer(m)
}

// shaped is a node written out to a shape that it broadcasts to.
func (l *lowering) shaped(n *node, shape []int) (*ssa.Value, error) {
	x, err := l.value(n, nil)
	if err != nil {
		return nil, err
	}
	have, _ := x.Type.Static()
	if slices.Equal(have, shape) {
		return x, nil
	}
	v, err := broadcast(have, shape)
	if err != nil {
		return nil, err
	}
	if l.portable {
		s := &splicer{g: l.g, x: x}
		target := make([]int64, len(shape))
		for d, n := range shape {
			target[d] = int64(n)
		}
		s.add("Expand", nil, target)
		return s.x, s.err
	}
	w := window.View(l.g, x, &window.Window{Shape: shape, Strides: v.window(ops.Strides(have), 0).Strides})
	return w, ops.Infer(w.Def)
}
