package expr

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/ops/window"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Expressions in models. What comes before a model, and what comes behind it, is written as expressions
// over its ends, and becomes nodes of its graph: standard operators, fused and planned with the others, and saved
// with the file.
//
//	pixels ─▶ (pixels − mean) / deviation ─▶ model ─▶ boxes, scores ─▶ boxes of the best score
//	uint8     [Input, Feed]                                            [Output, Result]

// Ports are the ends of a model that [Extend] changes. They are of use until the function that was given them returns.
type Ports struct {
	g     *ssa.Graph
	l     *lowering
	named map[*ssa.Value]bool // values whose names are the file's or the caller's
	names map[string]bool
	err   error
}

// Extend returns a model with expressions before and behind it, as edit says by [Input], [Feed], [Output], [Result]
// and [Ports.Drop]. Dimensions of the ends that expressions read must be numbers: options fix them, as
// berth.WithShape and berth.WithDim. Tensors in the expressions become weights, with the elements that they have now.
// Functions of Go are in no file, and are refused. The receiver is unchanged; weights are shared.
func Extend(ctx context.Context, m *berth.Model, edit func(p *Ports), opts ...berth.Option) (_ *berth.Model, err error) {
	defer rescue.Into(&err)
	if edit == nil {
		return nil, errNilValue
	}
	return m.Extend(ctx, func(ctx context.Context, g *ssa.Graph) error {
		p := &Ports{g: g, l: newLowering(ctx, standardViews), named: map[*ssa.Value]bool{}, names: map[string]bool{}}
		p.l.g, p.l.portable = g, true
		for _, v := range g.Values() {
			p.named[v], p.names[v.Name] = true, true
		}
		defer func() { p.g = nil }()
		rescue.Call("the function given to Extend", func() { edit(p) })
		if len(g.Results) == 0 {
			p.fail(&TypeError{"Extend", "the model has no output left", nil})
		}
		if p.err == nil {
			p.sweep()
			p.rename()
		}
		return p.err
	}, opts...)
}

// open reports that the model is being extended.
func (p *Ports) open() bool { return p != nil && p.g != nil }

// fail notes the first error.
func (p *Ports) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// sweep removes nodes that no output needs.
func (p *Ports) sweep() {
	live := map[*ssa.Node]bool{}
	next := slices.Clone(p.g.Results)
	for len(next) > 0 {
		v := next[len(next)-1]
		next = next[:len(next)-1]
		if v != nil && v.Def != nil && !live[v.Def] {
			live[v.Def] = true
			next = append(next, v.Def.In...)
		}
	}
	p.g.RemoveNodes(func(n *ssa.Node) bool { return !live[n] })
}

// rename gives values of the expressions names that no other value has.
func (p *Ports) rename() {
	next := 0
	for _, v := range p.g.Values() {
		if p.named[v] {
			continue
		}
		for ; p.names[fmt.Sprint("expr_", next)]; next++ {
		}
		v.Name = fmt.Sprint("expr_", next)
		next++
	}
}

// end is a node that stands for a value of the graph.
func (p *Ports) end(v *ssa.Value, dt ndarray.DType, name string) *node {
	shape, ok := v.Type.Static()
	switch {
	case v.Type.Kind != ssa.KindTensor || v.Type.DType != dt:
		return failed(&TypeError{name, fmt.Sprintf("it is %s, not a tensor of %s", v.Type, dt), nil})
	case !ok:
		return failed(&ShapeError{name, nil, fmt.Sprintf("dimensions of %s are not known: fix them with berth.WithShape or berth.WithDim", v.Type)})
	}
	n := &node{kind: end, dt: dt, shape: shape}
	p.l.params[n] = v
	return n
}

// Input is a new input of the model.
func Input[T Elem](p *Ports, name string, shape ...int) Expr[T] {
	if !p.open() {
		return Expr[T]{failed(errNilValue)}
	}
	if n, err := ndarray.NumElems(shape); err != nil || n < 0 || p.names[name] || name == "" {
		err := &ShapeError{"Input " + name, [][]int{slices.Clone(shape)}, "the shape is none, or there is a value of that name"}
		p.fail(err)
		return Expr[T]{failed(err)}
	}
	v := p.g.AddParam(name, ssa.StaticTensor(dtypeOf[T](), shape...))
	p.named[v], p.names[name] = true, true
	return Expr[T]{p.end(v, dtypeOf[T](), name)}
}

// Feed computes an input of the model, which is no input any more. The expression has its element type, and broadcasts to its
// shape.
func Feed[T Elem](p *Ports, input string, e Value[T]) {
	if !p.open() {
		return
	}
	if err := p.feed(input, dtypeOf[T](), nodeOf(e)); err != nil {
		p.fail(err)
	}
}

func (p *Ports) feed(input string, dt ndarray.DType, n *node) error {
	i := slices.IndexFunc(p.g.Params, func(v *ssa.Value) bool { return v.Name == input })
	if i < 0 {
		return &TypeError{"Feed", fmt.Sprintf("the model has no input %q", input), nil}
	}
	old := p.g.Params[i]
	want := p.end(old, dt, input)
	if want.err != nil {
		return want.err
	}
	x, err := p.lower(n, want.shape)
	if err != nil {
		return err
	}
	p.g.Params = slices.Delete(p.g.Params, i, i+1)
	p.g.ReplaceUses(old, x)
	return nil
}

// lower writes an expression of a shape into the graph.
func (p *Ports) lower(n *node, shape []int) (*ssa.Value, error) {
	if n.err != nil {
		return nil, n.err
	}
	if _, err := broadcast(n.shape, shape); err != nil {
		return nil, err
	}
	return p.l.shaped(n, shape)
}

// Output is an output of the model as an operand.
func Output[T Elem](p *Ports, name string) Expr[T] {
	if !p.open() {
		return Expr[T]{failed(errNilValue)}
	}
	for _, v := range p.g.Results {
		if v.Name == name {
			n := p.end(v, dtypeOf[T](), name)
			if n.err != nil {
				p.fail(n.err)
			}
			return Expr[T]{n}
		}
	}
	err := &TypeError{"Output", fmt.Sprintf("the model has no output %q", name), nil}
	p.fail(err)
	return Expr[T]{failed(err)}
}

// Result is a new output of the model.
func Result[T Elem](p *Ports, name string, e Value[T]) {
	if !p.open() {
		return
	}
	if err := p.result(name, nodeOf(e)); err != nil {
		p.fail(err)
	}
}

func (p *Ports) result(name string, n *node) error {
	x, err := p.lower(n, n.shape)
	switch {
	case err != nil:
		return err
	case p.names[name] || name == "":
		return &TypeError{"Result", fmt.Sprintf("there is a value %q already", name), nil}
	case x.Def == nil || p.named[x]: // an end of the model, or a result already
		m := p.g.NewNode("Identity", []*ssa.Value{x}, 1)
		if err := ops.Infer(m); err != nil {
			return err
		}
		x = m.Out[0]
	}
	x.Name, p.named[x], p.names[name] = name, true, true
	p.g.Results = append(p.g.Results, x)
	return nil
}

// Drop makes an output none, so that only what expressions read of it is computed.
func (p *Ports) Drop(name string) {
	if !p.open() {
		return
	}
	before := len(p.g.Results)
	p.g.Results = slices.DeleteFunc(slices.Clone(p.g.Results), func(v *ssa.Value) bool { return v.Name == name })
	if len(p.g.Results) == before {
		p.fail(&TypeError{"Drop", fmt.Sprintf("the model has no output %q", name), nil})
	}
}

// contents is an array of the elements that a tensor has.
func (l *lowering) contents(n *node) (*ndarray.Array, error) {
	w := n.place.window
	if w == nil {
		w = &window.Window{Shape: n.shape, Strides: ops.Strides(n.shape)}
	}
	return w.Gather(l.ctx, &n.place.array)
}

// standardViews writes a view with operators of ONNX: the parts are sliced, put in order, and reshaped to the dimensions
// of the view; those that repeat are 1.
func standardViews(g *ssa.Graph, x *ssa.Value, v *view, strides []int, first int) (*ssa.Value, error) {
	parts := &view{shape: make([]int, len(v.start)), start: v.start, step: make([]int, len(v.start))}
	for d := range v.start {
		parts.shape[d], parts.step[d] = 1, 1
	}
	var order []int64
	shape := make([]int64, len(v.shape))
	for j, d := range v.of {
		if shape[j] = 1; d >= 0 {
			parts.shape[d], parts.step[d], shape[j] = v.shape[j], v.step[j], int64(v.shape[j])
			order = append(order, int64(d))
		}
	}
	for d := range v.start {
		if !slices.Contains(order, int64(d)) {
			order = append(order, int64(d))
		}
	}
	s := &splicer{g: g, x: x}
	s.slice(parts)
	if !slices.IsSorted(order) {
		s.add("Transpose", []ssa.Attr{ssa.IntsAttr("perm", order...)})
	}
	s.add("Reshape", []ssa.Attr{ssa.IntAttr("allowzero", 1)}, shape)
	return s.x, s.err
}

// splicer appends nodes one behind the other.
type splicer struct {
	g   *ssa.Graph
	x   *ssa.Value
	err error
}

// add appends a node with lists of integers as further operands.
func (s *splicer) add(op string, attrs []ssa.Attr, lists ...[]int64) {
	in := []*ssa.Value{s.x}
	for _, list := range lists {
		in = append(in, s.g.AddConst(fmt.Sprint("c", s.g.NumValues()), ssa.Int64s(list...)))
	}
	n := s.g.NewNode(op, in, 1, attrs...)
	if s.err == nil {
		s.err = ops.Infer(n)
	}
	s.x = n.Out[0]
}

// slice cuts the parts out.
func (s *splicer) slice(parts *view) {
	var starts, ends, axes, steps []int64
	have, _ := s.x.Type.Static()
	for d, n := range parts.shape {
		if n == have[d] && parts.start[d] == 0 && parts.step[d] == 1 {
			continue
		}
		start, end, step := int64(parts.start[d]), int64(parts.start[d]+n*parts.step[d]), int64(parts.step[d])
		switch {
		case n == 0:
			start, end = 0, 0 // an empty range may begin ahead of the first element, which would count from the back
		case end < 0:
			end = math.MinInt64
		}
		starts, ends, axes, steps = append(starts, start), append(ends, end), append(axes, int64(d)), append(steps, step)
	}
	if len(axes) > 0 {
		s.add("Slice", nil, starts, ends, axes, steps)
	}
}
