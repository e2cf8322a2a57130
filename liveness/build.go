package liveness

import (
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

type frame struct {
	g    *ssa.Graph
	refs []int
}

func newFrame(g *ssa.Graph) *frame {
	f := &frame{g, make([]int, g.NumValues())}
	for i := range f.refs {
		f.refs[i] = None
	}
	return f
}

func (f *frame) ref(v *ssa.Value) int {
	if v == nil || v.Const != nil {
		return None
	}
	return f.refs[v.ID]
}

func (f *frame) all(vs []*ssa.Value) []int {
	out := make([]int, len(vs))
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
	opts   Options
	tl     *Timeline
	levels []level
	cur    int // index of the open block

	scratch map[*ssa.Node]int
	pins    []pin
}

func (b *builder) addVar(v Var) int {
	b.tl.Vars = append(b.tl.Vars, v)
	return len(b.tl.Vars) - 1
}

func (b *builder) step(s Step) {
	if s.Scratch == 0 {
		s.Scratch = None
	}
	b.tl.Steps = append(b.tl.Steps, s)
}

func (b *builder) startBlock() int {
	b.tl.Blocks = append(b.tl.Blocks, FlowBlock{Lo: len(b.tl.Steps)})
	b.cur = len(b.tl.Blocks) - 1
	return b.cur
}

func (b *builder) endBlock() int {
	b.tl.Blocks[b.cur].Hi = len(b.tl.Steps)
	return b.cur
}

func (b *builder) edge(from, to int) {
	b.tl.Blocks[from].Succ = append(b.tl.Blocks[from].Succ, to)
}

func (b *builder) graph(f *frame) error {
	for _, n := range f.g.Nodes {
		var err error
		switch {
		case ops.IsLoop(n):
			err = b.loop(f, n)
		case ops.IsControl(n):
			err = b.branch(f, n)
		default:
			b.plain(f, n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// plain adds the step of an ordinary node.
func (b *builder) plain(f *frame, n *ssa.Node) {
	s := Step{Node: n, In: f.all(n.In), Scratch: None}
	for _, v := range n.Out {
		if v == nil {
			s.Out = append(s.Out, None)
			continue
		}
		f.refs[v.ID] = b.define(f, v)
		s.Out = append(s.Out, f.refs[v.ID])
	}
	if b.opts.Scratch != nil {
		s.Scratch = b.workspace(n)
	}
	b.step(s)
}

// workspace returns the workspace block of a node, the same in every copy of a
// loop's body: None if its kernel needs none.
func (b *builder) workspace(n *ssa.Node) int {
	if id, ok := b.scratch[n]; ok {
		return id
	}
	id := None
	if bytes := b.opts.Scratch(n); bytes > 0 {
		id = b.addVar(Var{Kind: Block, Bytes: bytes})
	}
	b.scratch[n] = id
	return id
}

// define returns the variable a node's result goes to: a pointer for a view, the
// block of this copy for a tensor of known size, Outside otherwise.
func (b *builder) define(f *frame, v *ssa.Value) int {
	if of, ok := b.opts.shown(v); ok {
		return b.pointer(v, false, f.ref(of))
	}
	if len(b.levels) > 0 {
		l := b.levels[len(b.levels)-1]
		if w := l.rot.StackOf(v); w != nil {
			return b.pointer(v, false, b.windowOf(w))
		}
	}
	if bytes, ok := v.Type.ByteSize(); ok {
		return b.place(v, Var{Kind: Block, Value: v, Bytes: int64(bytes)})
	}
	return b.addVar(Var{Kind: Outside, Value: v})
}

// pointer returns the pointer variable of v in this copy with more sources.
func (b *builder) pointer(v *ssa.Value, phi bool, sources ...int) int {
	id := b.place(v, Var{Kind: Pointer, Value: v, Phi: phi})
	for _, s := range sources {
		if s != None && s != id {
			b.tl.Vars[id].Sources = appendNew(b.tl.Vars[id].Sources, s)
		}
	}
	return id
}

func appendNew(list []int, x int) []int {
	for _, y := range list {
		if x == y {
			return list
		}
	}
	return append(list, x)
}

// place returns the variable of v for the present copies of the loops around it,
// making all of them on first use.
func (b *builder) place(v *ssa.Value, proto Var) int {
	p := b.tl.places[v]
	if p == nil {
		p = &Places{}
		count := 1
		for _, l := range b.levels {
			r := l.rot.Period(v)
			p.Radix = append(p.Radix, r)
			count *= r
		}
		for i := range count {
			proto.Place = i
			p.Vars = append(p.Vars, b.addVar(proto))
		}
		b.tl.places[v] = p
	}
	i := 0
	for k, l := range b.levels {
		i = i*p.Radix[k] + l.copy%p.Radix[k]
	}
	return p.Vars[i]
}

// branch lays an If out: the condition, one branch, the other, the join.
//
//	enter ──▶ then ──▶ leave
//	  └─────▶ else ─────▲
func (b *builder) branch(f *frame, n *ssa.Node) error {
	b.step(Step{Node: n, Border: true, In: f.all(n.In[:1])})
	enter := b.endBlock()
	var ends []int
	sources := make([][]int, len(n.Out))
	for _, body := range n.Bodies {
		first := b.startBlock()
		b.edge(enter, first)
		bf := newFrame(body)
		for i, p := range body.Params {
			bf.refs[p.ID] = f.ref(n.In[len(n.In)-len(body.Params)+i])
		}
		if err := b.graph(bf); err != nil {
			return err
		}
		b.step(Step{Border: true, In: bf.all(body.Results)})
		ends = append(ends, b.endBlock())
		for i, r := range body.Results {
			sources[i] = append(sources[i], bf.ref(r))
		}
	}
	join := b.startBlock()
	for _, e := range ends {
		b.edge(e, join)
	}
	leave := Step{Node: n, Border: true, Scratch: None}
	for i, v := range n.Out {
		leave.Out = append(leave.Out, b.result(f, v, sources[i]))
	}
	b.step(leave)
	return nil
}

// result makes the pointer variable of a control-flow node's result.
func (b *builder) result(f *frame, v *ssa.Value, sources []int) int {
	if v == nil {
		return None
	}
	f.refs[v.ID] = b.pointer(v, true, sources...)
	return f.refs[v.ID]
}
