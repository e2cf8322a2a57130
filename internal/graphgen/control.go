package graphgen

import (
	"slices"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// captureList is the captures that the bodies of one node share: capturing adds
// a parameter to each of them.
type captureList struct {
	outer  *builder
	bodies []*builder
	vals   []*ssa.Value   // of the enclosing graph
	params [][]*ssa.Value // by capture, then by body
}

// inside returns builders for the bodies of a node.
func (b *builder) inside(names ...string) (*captureList, []*builder) {
	l := &captureList{outer: b}
	for i, name := range names {
		in := &builder{g: ssa.NewGraph(name), rng: b.rng, cfg: b.cfg, depth: b.depth + 1, names: b.names, float: b.float, inexact: b.inexact}
		in.capture = func() *ssa.Value { return l.bring(i) }
		l.bodies = append(l.bodies, in)
	}
	return l, l.bodies
}

// bring captures a value of the enclosing graph, or one captured before.
func (l *captureList) bring(body int) *ssa.Value {
	v := l.outer.pick(isTensor)
	if v == nil {
		return nil
	}
	k := slices.Index(l.vals, v)
	if k < 0 {
		k = len(l.vals)
		l.vals = append(l.vals, v)
		var ps []*ssa.Value
		for _, b := range l.bodies {
			p := b.g.AddParam(b.fresh(), v.Type)
			p.Content = v.Content
			if l.outer.inexact[v] {
				b.inexact[p] = true
			}
			ps = append(ps, p)
		}
		l.params = append(l.params, ps)
	}
	return l.params[k][body]
}

// node makes the control-flow node.
func (l *captureList) node(op string, formals []*ssa.Value, outs int, attrs []string, more ...ssa.Attr) []*ssa.Value {
	n := l.outer.g.NewNode(op, append(slices.Clone(formals), l.vals...), outs, more...)
	n.Captures = len(l.vals)
	for i, a := range attrs {
		n.AddBody(a, l.bodies[i].g)
	}
	out := l.outer.finish(n)
	for _, v := range out {
		l.outer.inexact[v] = true
	}
	return out
}

// same draws a value of the type of v: from the pool, v itself, or computed from v
// by operators that keep the type.
func (b *builder) same(v *ssa.Value) *ssa.Value {
	for range 1 + b.rng.IntN(3) {
		w := b.pick(func(w *ssa.Value) bool { return w.Type.Equal(v.Type) })
		switch {
		case b.chance(20) && w != nil:
			v = w
		case b.chance(40) && w != nil && v.Type.DType != ndarray.Bool:
			v = b.one([]string{"Add", "Sub", "Max"}[b.rng.IntN(3)], []*ssa.Value{v, w})
		case v.Type.DType.IsFloat() && b.chance(30):
			v = b.one("Tanh", []*ssa.Value{v})
		default:
			v = b.apply(v)
		}
	}
	return v
}

// filler adds nodes of all kinds to a body, some of them dead.
func (b *builder) filler() {
	if len(b.pool) > 0 || b.capture() != nil {
		b.grow(1 + b.rng.IntN(4))
	}
}

// branch draws an If: by a flag of the graph, or by a constant one.
func branch(b *builder) {
	cond := b.pick(func(v *ssa.Value) bool { return isTensor(v) && v.Type.DType == ndarray.Bool && v.Type.Rank() == 0 })
	if cond == nil || b.chance(20) {
		cond = b.constant(ssa.ScalarConst(b.chance(50)))
	}
	if b.depth >= b.cfg.Depth {
		return
	}
	l, bodies := b.inside("then", "else")
	for range 1 + b.rng.IntN(2) {
		v := b.pick(isTensor)
		if v == nil {
			return
		}
		var ps []*ssa.Value
		for i := range bodies {
			ps = append(ps, l.capturedAs(v, i))
		}
		for i, in := range bodies {
			in.filler()
			in.g.Results = append(in.g.Results, in.same(ps[i]))
		}
	}
	l.node("If", []*ssa.Value{cond}, len(bodies[0].g.Results), []string{"then_branch", "else_branch"})
}

// capturedAs captures a given value.
func (l *captureList) capturedAs(v *ssa.Value, body int) *ssa.Value {
	old := l.outer
	one := &builder{rng: old.rng, pool: []*ssa.Value{v}, inexact: old.inexact}
	l.outer = one
	p := l.bring(body)
	l.outer = old
	return p
}

// loop draws a Loop with carried values, stacked results, and a condition that is
// constant, passed on, or computed from the iteration number.
func loop(b *builder) {
	if b.depth >= b.cfg.Depth {
		return
	}
	trips := b.constant(ssa.ScalarConst(int64(b.rng.IntN(4))))
	if v := b.pick(func(v *ssa.Value) bool {
		return isTensor(v) && v.Type.DType == ndarray.Int64 && v.Type.Rank() == 0 && v.IsParam() && b.capture == nil
	}); v != nil && b.chance(50) {
		trips = v
	}
	var cond *ssa.Value
	if b.chance(40) {
		cond = b.constant(ssa.ScalarConst(true))
	}
	formals := []*ssa.Value{trips, cond}
	l, bodies := b.inside("loop")
	in := bodies[0]
	iter := in.g.AddParam(in.fresh(), ssa.StaticTensor(ndarray.Int64))
	flag := in.g.AddParam(in.fresh(), ssa.StaticTensor(ndarray.Bool))
	carried := in.carry(b, &formals, 1+b.rng.IntN(3))
	if carried == nil {
		return
	}
	in.pool = append(in.pool, iter)
	in.pool = append(in.pool, carried...)
	in.filler()
	next := flag
	if b.chance(40) {
		next = in.one("Less", []*ssa.Value{iter, in.constant(ssa.ScalarConst(int64(b.rng.IntN(3))))})
	} else if b.chance(30) {
		next = in.constant(ssa.ScalarConst(true))
	}
	in.g.Results = append([]*ssa.Value{next}, in.nextStates(carried)...)
	outs := len(carried)
	for range b.rng.IntN(3) {
		// static: an empty stack has no slice to take the shape from
		if v := in.pick(func(v *ssa.Value) bool { return isFloat(v) && v.Type.IsStatic() }); v != nil {
			in.g.Results = append(in.g.Results, v)
			outs++
		}
	}
	l.node("Loop", formals, outs, []string{"body"})
}

// carry draws initial values of the enclosing graph and makes the parameters for
// them.
func (b *builder) carry(outer *builder, formals *[]*ssa.Value, n int) []*ssa.Value {
	var params []*ssa.Value
	for range n {
		v := outer.pick(isTensor)
		if v == nil {
			return nil
		}
		*formals = append(*formals, v)
		p := b.g.AddParam(b.fresh(), v.Type)
		b.inexact[p] = true
		params = append(params, p)
	}
	return params
}

// nextStates draws the next state of every carried value: computed, unchanged, or
// another carried value of the type.
func (b *builder) nextStates(carried []*ssa.Value) []*ssa.Value {
	var out []*ssa.Value
	for _, p := range carried {
		switch {
		case b.chance(15):
			out = append(out, p)
		case b.chance(25):
			other := carried[b.rng.IntN(len(carried))]
			if !other.Type.Equal(p.Type) {
				other = p
			}
			out = append(out, other)
		default:
			out = append(out, b.same(p))
		}
	}
	return out
}

// scan draws a Scan over slices of one or two values along an axis of the same
// length.
func scan(b *builder) {
	if b.depth >= b.cfg.Depth {
		return
	}
	x := b.pick(func(v *ssa.Value) bool { return isNumber(v) && v.Type.Rank() >= 1 && noZero(v) })
	if x == nil {
		return
	}
	l, bodies := b.inside("scan")
	in := bodies[0]
	var formals []*ssa.Value
	count := b.rng.IntN(3)
	states := in.carry(b, &formals, count)
	if len(states) != count {
		return
	}
	axis := b.rng.IntN(x.Type.Rank())
	scanned := []*ssa.Value{x}
	if b.chance(40) {
		scanned = append(scanned, x)
	}
	var slicesIn []*ssa.Value
	axes := make([]int64, len(scanned))
	for i, v := range scanned {
		formals = append(formals, v)
		p := in.g.AddParam(in.fresh(), ssa.TensorOf(v.Type.DType, slices.Delete(slices.Clone(v.Type.Shape), axis, axis+1)...))
		in.inexact[p] = true
		slicesIn = append(slicesIn, p)
		axes[i] = int64(axis)
	}
	in.pool = append(slices.Clone(states), slicesIn...)
	in.filler()
	in.g.Results = in.nextStates(states)
	for range 1 + b.rng.IntN(2) {
		v := in.pick(isTensor)
		in.g.Results = append(in.g.Results, in.same(v))
	}
	attrs := []ssa.Attr{ssa.IntAttr("num_scan_inputs", int64(len(scanned))), ssa.IntsAttr("scan_input_axes", axes...)}
	if b.chance(30) {
		dirs := make([]int64, len(scanned))
		dirs[0] = 1
		attrs = append(attrs, ssa.IntsAttr("scan_input_directions", dirs...))
	}
	l.node("Scan", formals, len(in.g.Results), []string{"body"}, attrs...)
}
