package liveness

import (
	"slices"

	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Laying a graph out without an order: a step per node, an edge from what makes an
// operand to what reads it, and borders around bodies (see Concurrent). What a body
// captures is an edge to the border, so that a branch or loop starts when all of it
// is there.
//
//	a ─▶ f ─┐                         the loop waits for a and b, whoever reads them inside;
//	        ├─▶ enter ─▶ … ─▶ leave   nothing of the body is before enter or after leave
//	b ──────┘

// spreader lays a graph out for [BuildConcurrent].
type spreader struct {
	opts   Options
	c      *Concurrent
	stacks map[*ssa.Value]int // variable of a stacked output
}

// scope is one graph being laid out.
type scope struct {
	frame
	def    []int // the step that makes a value, by value; None if it comes from outside
	entry  int   // the step that all in it wait for, or None
	branch int
	depth  int             // loops around it
	rot    *loops.Rotation // the loop whose body it is, or nil
}

func newScope(g *ssa.Graph, entry, branch, depth int) *scope {
	s := &scope{frame: *newFrame(g), def: make([]int, g.NumValues()), entry: entry, branch: branch, depth: depth}
	for i := range s.def {
		s.def[i] = None
	}
	return s
}

func (b *spreader) addVar(v Var, s *scope) int {
	c := b.c
	c.Vars = append(c.Vars, v)
	c.branch = append(c.branch, s.branch)
	c.Radix = append(c.Radix, slices.Repeat([]int{1}, s.depth))
	c.heldBy = append(c.heldBy, nil)
	c.sticky = append(c.sticky, false)
	return len(c.Vars) - 1
}

func (b *spreader) step(s Step) int {
	b.c.Steps = append(b.c.Steps, s)
	return len(b.c.Steps) - 1
}

func (b *spreader) edge(from, to int) {
	if from != None {
		b.c.Edges = append(b.c.Edges, [2]int{from, to})
	}
}

// begin adds a step that waits for the operands of a node.
func (b *spreader) begin(s *scope, n *ssa.Node, st Step) int {
	at := b.step(st)
	b.edge(s.entry, at)
	for i, v := range n.In {
		if v != nil && v.Const == nil && !slices.Contains(n.In[:i], v) {
			b.edge(s.def[v.ID], at)
		}
	}
	return at
}

// graph lays out the nodes of a scope and returns the steps after which each is
// done.
func (b *spreader) graph(s *scope) (done []int, err error) {
	for _, n := range s.g.Nodes {
		var at int
		switch {
		case ops.IsLoop(n):
			at, err = b.loop(s, n)
		case ops.IsControl(n):
			at, err = b.choose(s, n)
		default:
			at = b.plain(s, n)
		}
		if err != nil {
			return nil, err
		}
		done = append(done, at)
		for _, v := range n.Out {
			if v != nil {
				s.def[v.ID] = at
			}
		}
	}
	return done, nil
}

func (b *spreader) plain(s *scope, n *ssa.Node) int {
	st := Step{Node: n, In: s.all(n.In), Scratch: None}
	for _, v := range n.Out {
		if v == nil {
			st.Out = append(st.Out, None)
			continue
		}
		s.refs[v.ID] = b.define(s, v)
		st.Out = append(st.Out, s.refs[v.ID])
	}
	if b.opts.Scratch != nil {
		if bytes := b.opts.Scratch(n); bytes > 0 {
			st.Scratch = b.addVar(Var{Kind: Block, Bytes: bytes}, s)
		}
	}
	return b.begin(s, n, st)
}

// define makes the variable of a node's result.
func (b *spreader) define(s *scope, v *ssa.Value) int {
	if of, ok := b.opts.shown(v); ok {
		return b.addVar(Var{Kind: Pointer, Value: v, Sources: some(s.ref(of))}, s)
	}
	if s.rot != nil {
		if w := s.rot.StackOf(v); w != nil {
			return b.addVar(Var{Kind: Pointer, Value: v, Sources: some(b.stacks[w.Out])}, s)
		}
	}
	if bytes, ok := v.Type.ByteSize(); ok {
		return b.addVar(Var{Kind: Block, Value: v, Bytes: int64(bytes)}, s)
	}
	return b.addVar(Var{Kind: Outside, Value: v}, s)
}

// choose lays out an If, one branch after the other.
func (b *spreader) choose(s *scope, n *ssa.Node) (int, error) {
	enter := b.begin(s, n, Step{Node: n, Border: true, In: s.all(n.In[:1]), Scratch: None})
	sources := make([][]int, len(n.Out))
	at := enter
	for k, body := range n.Bodies {
		b.c.branches = append(b.c.branches, inBranch{enter, k, s.branch})
		in := newScope(body, at, len(b.c.branches)-1, s.depth)
		for i, p := range body.Params {
			in.refs[p.ID] = s.ref(n.In[len(n.In)-len(body.Params)+i])
		}
		done, err := b.graph(in)
		if err != nil {
			return 0, err
		}
		end := b.step(Step{Node: n, Border: true, In: in.all(body.Results), Scratch: None})
		for _, d := range append(done, at) {
			b.edge(d, end)
		}
		for i := range min(len(n.Out), len(body.Results)) {
			if r := in.ref(body.Results[i]); r != None {
				sources[i] = appendNew(sources[i], r)
			}
		}
		at = end
	}
	leave := Step{Node: n, Border: true, Scratch: None}
	for i, v := range n.Out {
		leave.Out = append(leave.Out, b.merged(s, v, sources[i]))
	}
	end := b.step(leave)
	b.edge(at, end)
	return end, nil
}

// merged makes the variable of a result of control flow.
func (b *spreader) merged(s *scope, v *ssa.Value, sources []int) int {
	if v == nil {
		return None
	}
	s.refs[v.ID] = b.addVar(Var{Kind: Pointer, Value: v, Sources: sources, Phi: true}, s)
	return s.refs[v.ID]
}

// loop lays out a Loop or Scan.
func (b *spreader) loop(s *scope, n *ssa.Node) (int, error) {
	rot, err := b.opts.rotation(n)
	if err != nil {
		return 0, err
	}
	enter := b.begin(s, n, Step{Node: n, Border: true, In: s.all(n.Formals()), Scratch: None})
	stacks := b.openStacks(s, enter, rot)
	first := len(b.c.Vars)
	in := newScope(rot.Body, None, s.branch, s.depth+1)
	in.rot = rot
	stays := s.all(n.Captured()) // read in every iteration
	for _, x := range rot.ScanIns {
		stays = append(stays, s.ref(x.Of))
	}
	out := b.bind(s, in, n, rot)
	in.entry = b.step(Step{Node: n, Border: true, In: stays, Out: out, Scratch: None})
	b.edge(enter, in.entry)
	done, err := b.graph(in)
	if err != nil {
		return 0, err
	}
	tail := b.step(Step{Node: n, Border: true, In: slices.Concat(in.all(rot.Body.Results), stays, stacks), Scratch: None})
	for _, d := range append(done, in.entry) {
		b.edge(d, tail)
	}
	for _, c := range rot.Carries {
		if r := in.ref(c.Result); r != None {
			p := &b.c.Vars[in.ref(c.Param)]
			p.Sources = appendNew(p.Sources, r)
		}
	}
	b.rotate(rot, in, first)
	return b.close(s, n, rot, in, stacks, tail), nil
}

// openStacks makes the stacked outputs, which are written from the first iteration
// on.
func (b *spreader) openStacks(s *scope, enter int, rot *loops.Rotation) []int {
	var stacks []int
	for _, so := range rot.ScanOuts {
		if so.Out == nil {
			continue
		}
		id := b.define(s, so.Out)
		b.stacks[so.Out], s.refs[so.Out.ID] = id, id
		stacks = append(stacks, id)
	}
	b.c.Steps[enter].Out = stacks
	return stacks
}

// bind makes the variables of a body's parameters and returns them.
func (b *spreader) bind(s, in *scope, n *ssa.Node, rot *loops.Rotation) []int {
	var out []int
	set := func(p *ssa.Value, v Var) {
		v.Value = p
		in.refs[p.ID] = b.addVar(v, in)
		out = append(out, in.refs[p.ID])
	}
	if rot.Iter != nil {
		set(rot.Iter, Var{Kind: Block, Bytes: int64(ndarray.Int64.Size())})
	}
	for _, c := range rot.Carries {
		set(c.Param, Var{Kind: Pointer, Phi: true, Sources: some(s.ref(c.Init))})
	}
	for _, x := range rot.ScanIns {
		bytes, static := x.Param.Type.ByteSize()
		switch {
		case x.Axis == 0:
			set(x.Param, Var{Kind: Pointer, Sources: some(s.ref(x.Of))})
		case static:
			set(x.Param, Var{Kind: Block, Bytes: int64(bytes)})
		default:
			set(x.Param, Var{Kind: Outside})
		}
	}
	captures := n.Captured()
	for i, p := range rot.Body.Params[len(rot.Body.Params)-len(captures):] {
		in.refs[p.ID] = s.ref(captures[i])
	}
	return out
}

// rotate gives the blocks that an iteration leaves to the next the places they
// need. first is the first variable made inside.
func (b *spreader) rotate(rot *loops.Rotation, in *scope, first int) {
	c := b.c
	for _, x := range rot.Carries {
		r := in.ref(x.Result)
		if r == None {
			continue
		}
		for _, v := range c.Layout.Roots(r) {
			if v < first {
				continue
			}
			c.sticky[v] = c.sticky[v] || rot.Sticky(x)
			c.heldBy[v] = appendNew(c.heldBy[v], in.entry)
			c.Radix[v][in.depth-1] = rot.Period(c.Vars[v].Value)
		}
	}
}

// close adds the step at which a loop's results exist.
func (b *spreader) close(s *scope, n *ssa.Node, rot *loops.Rotation, in *scope, stacks []int, tail int) int {
	st := Step{Node: n, Border: true, In: stacks, Scratch: None}
	for _, c := range rot.Carries {
		var sources []int
		if rot.MinTrips == 0 {
			sources = some(s.ref(c.Init))
		}
		if r := in.ref(c.Result); r != None {
			sources = appendNew(sources, r)
		}
		if c.Out != nil {
			st.Out = append(st.Out, b.merged(s, c.Out, sources))
		}
	}
	leave := b.step(st)
	b.edge(tail, leave)
	return leave
}
