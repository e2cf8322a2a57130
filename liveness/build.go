package liveness

import (
	"context"
	"slices"

	"github.com/berth-onnx/berth/alias"
	"github.com/berth-onnx/berth/internal/slab"
	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Laying a graph out as steps: one per node in the order the nodes stand in, with a
// border before and after the branches of an If. A frame maps the values of one
// graph, in one copy of the loops around it, to variables; captured values map to
// the variables they have outside, so that a use inside a body is a use.
//
//	a = f(x)                 step 0   f       in x    out a
//	if c { b = g(a) }        step 1   border  in c
//	                         step 2   g       in a    out b
//	                         step 3   border  in b               end of the branch
//	                         …                                   the other branch
//	                         step k   border          out d      d points to b or to the other
//
// One builder serves both kinds of layout. For a [Timeline] it makes the arms and forks
// of a control-flow graph, for a [Concurrent] it notes which step waits for which.

type frame struct {
	g    *ssa.Graph
	refs []int
	// Without an order: the step that makes a value, by value, None if it comes from
	// outside; and the step that all in the frame wait for, or None.
	def   []int
	entry int
	slots []int // of the parameters that a compact loop copies
	ids   *slab.Of[int]
}

func (b *builder) newFrame(g *ssa.Graph, entry int) *frame {
	f := &frame{g: g, refs: nones(g.NumValues()), entry: entry, ids: &b.ids}
	if b.any != nil {
		f.def = nones(g.NumValues())
	}
	return f
}

func nones(n int) []int { return slices.Repeat([]int{None}, n) }

func (f *frame) ref(v *ssa.Value) int {
	if v == nil || v.Const != nil {
		return None
	}
	return f.refs[v.ID]
}

func (f *frame) all(vs []*ssa.Value) []int {
	out := f.ids.Make(len(vs))
	for i, v := range vs {
		out[i] = f.ref(v)
	}
	return out
}

// level is one loop around the place being built.
type level struct {
	rot  *loops.Rotation
	copy int
}

type builder struct {
	ctx    context.Context
	opts   Options
	out    *Layout
	any    *Concurrent // nil where the order counts
	levels []level
	branch int // without an order: the innermost branch being built, or None

	arm  *Arm // the innermost one being built
	pins []pin

	scratch slab.Table[*ssa.Node, int]
	views   alias.Views

	ids      slab.Of[int]    // what lists of variables are cut from
	allPlace slab.Of[Places] // and the places of values
}

func newBuilder(ctx context.Context, l *Layout, o Options, any *Concurrent) *builder {
	l.places, l.loops = slab.NewTable[*ssa.Value, *Places](l.Graph.NumValues()), map[*ssa.Node]*loops.Rotation{}
	return &builder{ctx: ctx, opts: o, out: l, any: any, branch: None, scratch: slab.NewTable[*ssa.Node, int](l.Graph.NumNodeIDs())}
}

// main lays out the main graph and ends with the step that reads its results.
func (b *builder) main(g *ssa.Graph) error {
	b.arm = &Arm{}
	b.out.Vars, b.out.Steps = make([]Var, 0, g.NumValues()), make([]Step, 0, len(g.Nodes)+1)
	f := b.newFrame(g, None)
	for _, p := range g.Params {
		f.refs[p.ID] = b.addVar(Var{Kind: Outside, Value: p})
	}
	done, err := b.graph(f)
	if err != nil {
		return err
	}
	b.waitFor(done, b.step(Step{Border: true, In: f.all(g.Results), Scratch: None}))
	b.arm.Hi = len(b.out.Steps)
	return nil
}

func (b *builder) addVar(v Var) int {
	if n := len(b.out.Vars); n == cap(b.out.Vars) { // twice as many: append grows long lists by a quarter
		b.out.Vars = slices.Grow(b.out.Vars, max(n, 16))
	}
	b.out.Vars = append(b.out.Vars, v)
	if b.any != nil {
		b.any.addVar(len(b.levels), b.branch)
	}
	return len(b.out.Vars) - 1
}

func (b *builder) step(s Step) int {
	b.out.Steps = append(b.out.Steps, s)
	return len(b.out.Steps) - 1
}

// fork adds a fork to the arm being built.
func (b *builder) fork(f Fork) *Fork {
	b.arm.Forks = append(b.arm.Forks, &f)
	return &f
}

// within builds an arm of a fork by f.
func (b *builder) within(fork *Fork, f func() error) error {
	around := b.arm
	b.arm = &Arm{Lo: len(b.out.Steps)}
	err := f()
	b.arm.Hi = len(b.out.Steps)
	fork.Arms = append(fork.Arms, b.arm)
	b.arm = around
	return err
}

// waitFor notes, without an order, that a step waits for others.
func (b *builder) waitFor(steps []int, at int) {
	if b.any == nil {
		return
	}
	for _, s := range steps {
		if s != None {
			b.any.Edges = append(b.any.Edges, [2]int{s, at})
		}
	}
}

// begin adds a step that waits for the operands of a node.
func (b *builder) begin(f *frame, n *ssa.Node, st Step) int {
	at := b.step(st)
	if b.any == nil {
		return at
	}
	b.waitFor([]int{f.entry}, at)
	for i, v := range n.In {
		if v != nil && v.Const == nil && !slices.Contains(n.In[:i], v) {
			b.waitFor([]int{f.def[v.ID]}, at)
		}
	}
	return at
}

// graph lays out the nodes of a frame and returns the steps after which each is done.
func (b *builder) graph(f *frame) (done []int, err error) {
	for _, n := range f.g.Nodes {
		if err := b.ctx.Err(); err != nil {
			return nil, err
		}
		var at int
		switch {
		case ops.IsLoop(n):
			at, err = b.loop(f, n)
		case ops.IsControl(n):
			at, err = b.choose(f, n)
		default:
			at = b.plain(f, n)
		}
		if err != nil {
			return nil, err
		}
		if b.any == nil {
			continue
		}
		done = append(done, at)
		for _, v := range n.Out {
			if v != nil {
				f.def[v.ID] = at
			}
		}
	}
	return done, nil
}

// plain adds the step of an ordinary node.
func (b *builder) plain(f *frame, n *ssa.Node) int {
	s := Step{Node: n, In: f.all(n.In), Out: b.ids.Make(len(n.Out)), Scratch: None}
	for i, v := range n.Out {
		if v == nil {
			s.Out[i] = None
			continue
		}
		f.refs[v.ID] = b.define(f, v)
		s.Out[i] = f.refs[v.ID]
	}
	if b.opts.Scratch != nil {
		s.Scratch = b.workspace(n)
	}
	return b.begin(f, n, s)
}

// workspace returns the workspace block of a node, the same in every copy of a
// loop's body: None if its kernel needs none.
func (b *builder) workspace(n *ssa.Node) int {
	if id, ok := b.scratch.Get(n.ID, n); ok {
		return id
	}
	id := None
	if bytes := b.opts.Scratch(n); bytes > 0 {
		id = b.addVar(Var{Kind: Block, Bytes: bytes})
	}
	b.scratch.Put(n.ID, n, id)
	return id
}

// shown returns the value of whose bytes v is a window, where the options lay
// windows out as pointers.
func (b *builder) shown(v *ssa.Value) (of *ssa.Value, ok bool) {
	if b.opts.CopyViews {
		return nil, false
	}
	w, ok := b.views.WindowOf(v)
	return w.Of, ok && (w.Whole || b.opts.Windows)
}

// define returns the variable a node's result goes to: a pointer for a view, the
// block of this copy for a tensor of known size in the plan, Outside otherwise.
func (b *builder) define(f *frame, v *ssa.Value) int {
	if of, ok := b.shown(v); ok {
		return b.pointer(v, false, f.ref(of))
	}
	if len(b.levels) > 0 {
		l := b.levels[len(b.levels)-1]
		if w := l.rot.StackOf(v); w != nil {
			return b.pointer(v, false, b.windowOf(w))
		}
	}
	if bytes, ok := v.Type.ByteSize(); ok && (b.opts.Outside == nil || !b.opts.Outside(v)) {
		return b.place(v, Var{Kind: Block, Value: v, Bytes: int64(bytes)})
	}
	return b.addVar(Var{Kind: Outside, Value: v})
}

// pointer returns the pointer variable of v in this copy with more sources.
func (b *builder) pointer(v *ssa.Value, phi bool, sources ...int) int {
	id := b.place(v, Var{Kind: Pointer, Value: v, Phi: phi})
	b.addSources(id, sources...)
	return id
}

func (b *builder) addSources(id int, sources ...int) {
	x := &b.out.Vars[id]
	for _, s := range sources {
		if s != None && s != id && !slices.Contains(x.Sources, s) {
			x.Sources = append(x.Sources, s)
		}
	}
}

// place returns the variable of v for the present copies of the loops around it,
// making all of them on first use.
func (b *builder) place(v *ssa.Value, proto Var) int {
	p := b.out.PlacesOf(v)
	if p == nil {
		p = b.allPlace.New()
		p.Radix = b.ids.Make(len(b.levels))
		count := 1
		for i, l := range b.levels {
			r := 1
			if b.any == nil {
				r = l.rot.Period(v)
			}
			p.Radix[i] = r
			count *= r
		}
		p.Vars = b.ids.Make(count)
		for i := range p.Vars {
			proto.Place = i
			p.Vars[i] = b.addVar(proto)
		}
		b.out.places.Put(v.ID, v, p)
	}
	return p.at(b.levels)
}

// at is the variable for the present copies of the loops.
func (p *Places) at(levels []level) int {
	i := 0
	for k, l := range levels {
		i = i*p.Radix[k] + l.copy%p.Radix[k]
	}
	return p.Vars[i]
}

// choose lays an If out: the condition, one branch, the other, the join. Without an
// order the branches wait for each other: only one of them runs.
//
//	enter ──▶ then ──▶ leave
//	  └─────▶ else ─────▲
func (b *builder) choose(f *frame, n *ssa.Node) (int, error) {
	at := b.begin(f, n, Step{Node: n, Border: true, In: f.all(n.In[:1]), Scratch: None})
	fork, first, around := b.fork(Fork{}), at, b.branch
	sources := make([][]int, len(n.Out))
	for k, body := range n.Bodies {
		b.enterBranch(first, k, around)
		bf := b.newFrame(body, at)
		for i, p := range body.Params {
			bf.refs[p.ID] = f.ref(n.In[len(n.In)-len(body.Params)+i])
		}
		err := b.within(fork, func() error {
			done, err := b.graph(bf)
			end := b.step(Step{Node: n, Border: true, In: bf.all(body.Results), Scratch: None})
			b.waitFor(append(done, at), end)
			at = end
			return err
		})
		if err != nil {
			return 0, err
		}
		for i := range min(len(n.Out), len(body.Results)) {
			sources[i] = append(sources[i], bf.ref(body.Results[i]))
		}
	}
	b.branch = around
	leave := Step{Node: n, Border: true, Scratch: None}
	for i, v := range n.Out {
		leave.Out = append(leave.Out, b.result(f, v, sources[i]))
	}
	end := b.step(leave)
	b.waitFor([]int{at}, end)
	return end, nil
}

// enterBranch notes, without an order, that what follows is made in a branch only.
func (b *builder) enterBranch(enter, body, around int) {
	if b.any != nil {
		b.any.branches = append(b.any.branches, inBranch{enter, body, around})
		b.branch = len(b.any.branches) - 1
	}
}

// result makes the pointer variable of a control-flow node's result.
func (b *builder) result(f *frame, v *ssa.Value, sources []int) int {
	if v == nil {
		return None
	}
	f.refs[v.ID] = b.pointer(v, true, sources...)
	return f.refs[v.ID]
}
