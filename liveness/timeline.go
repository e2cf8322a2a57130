package liveness

import (
	"fmt"

	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// VarKind says whether a variable owns bytes.
type VarKind uint8

// The kinds of variables.
const (
	Outside VarKind = iota
	Block
	Pointer
)

// None is the variable of absent operands and constants.
const None = -1

// Var is one variable of the timeline.
type Var struct {
	Kind    VarKind
	Value   *ssa.Value // what it holds; nil for a workspace
	Place   int        // which of the value's places (see Places); 0 if there is one
	Bytes   int64      // of a block
	Sources []int      // of a pointer: the variables its bytes may belong to
	Phi     bool       // of a pointer: merges control flow, so its sources hold it in turn
}

// Step is one time point: a node in one copy of its graph, or a border of a loop
// or branch (then In holds what is read there, Out what comes to be).
type Step struct {
	Node    *ssa.Node
	Border  bool
	In, Out []int // variables by operand and result position of Node; None if absent
	Scratch int   // workspace block alive at this step only, or None
}

// Layout is a program laid out as steps and variables: with times, as a
// [Timeline], or without, as a [Concurrent].
type Layout struct {
	Graph *ssa.Graph
	Steps []Step
	Vars  []Var
}

// Timeline is a program laid out in time.
type Timeline struct {
	Layout
	// Live is where each variable's bytes are needed: its own life and that of
	// every pointer to it. Filled by Build.
	Live []Set
	// Own is the life of the variable itself, pointers to it not counted.
	Own    []Set
	Blocks []FlowBlock

	places map[*ssa.Value]*Places
	loops  map[*ssa.Node]*loops.Rotation
}

// Places lists the variables of one value over the copies of the loops around
// it: Vars[t0 mod Radix[0], t1 mod Radix[1], …] in row-major order, outermost
// loop first.
type Places struct {
	Radix []int
	Vars  []int
}

// Options changes what the timeline contains.
type Options struct {
	// Scratch returns the workspace bytes of a node's kernel; nil means none.
	Scratch func(n *ssa.Node) int64
	// CopyViews lays views out as blocks of their own.
	CopyViews bool
	// Windows lets parts of a tensor (slices, splits) be pointers too, not only
	// whole views: no copy, but the whole tensor stays.
	Windows bool
	// AnyOrder gives values that loops hand on as many places as they need whatever
	// the order of the body; see [loops.OfAnyOrder].
	AnyOrder bool
}

// rotation analyses a loop as the options say.
func (o Options) rotation(n *ssa.Node) (*loops.Rotation, error) {
	if o.AnyOrder {
		return loops.OfAnyOrder(n)
	}
	return loops.Of(n)
}

// Build lays out the graph, whose types must be inferred, and solves liveness.
func Build(g *ssa.Graph, o Options) (*Timeline, error) {
	b := &builder{opts: o, scratch: map[*ssa.Node]int{}, tl: &Timeline{Layout: Layout{Graph: g}, places: map[*ssa.Value]*Places{}, loops: map[*ssa.Node]*loops.Rotation{}}}
	b.startBlock()
	f := newFrame(g)
	for _, p := range g.Params {
		f.refs[p.ID] = b.addVar(Var{Kind: Outside, Value: p})
	}
	if err := b.graph(f); err != nil {
		return nil, err
	}
	b.step(Step{Border: true, In: f.all(g.Results)})
	b.endBlock()
	b.tl.solve()
	for _, p := range b.pins {
		for _, r := range b.tl.Roots(p.v) {
			b.tl.Own[r] = b.tl.Own[r].Union(Set{p.over})
			b.tl.Live[r] = b.tl.Live[r].Union(Set{p.over})
		}
	}
	return b.tl, nil
}

// PlacesOf returns the places of a value, nil if it owns none.
func (t *Timeline) PlacesOf(v *ssa.Value) *Places { return t.places[v] }

// Rotation returns the analysis of a Loop or Scan node met while building.
func (t *Timeline) Rotation(n *ssa.Node) *loops.Rotation { return t.loops[n] }

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
		case n.Domain == "" && n.Op == "If" && !n.Opaque:
			err = b.branch(f, n)
		case n.Domain == "" && (n.Op == "Loop" || n.Op == "Scan") && !n.Opaque:
			err = b.loop(f, n)
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
	if w, ok := loops.WindowOf(v); ok && !b.opts.CopyViews && (w.Whole || b.opts.Windows) {
		return b.pointer(v, false, f.ref(w.Of))
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

func (b *builder) windowOf(w *loops.ScanOut) int {
	p := b.tl.places[w.Out]
	if p == nil {
		return None // the stack has no planned place: its size is known only while running
	}
	i := 0
	for k, l := range b.levels[:len(b.levels)-1] {
		i = i*p.Radix[k] + l.copy%p.Radix[k]
	}
	return p.Vars[i]
}

// loop lays a Loop or Scan out: prefix and ring copies of the body.
//
//	enter ──▶ copy 0 ──▶ … ──▶ copy D ──▶ … ──▶ copy D+R-1 ──┐
//	  │         │                ▲ └─────────────────────────┘ (ring)
//	  └─────────┴───── each copy ┴──▶ leave
func (b *builder) loop(f *frame, n *ssa.Node) error {
	rot, err := b.opts.rotation(n)
	if err != nil {
		return err
	}
	b.tl.loops[n] = rot
	begin := len(b.tl.Steps)
	stacks := b.enterLoop(f, n, rot)
	enter := b.endBlock()
	first, last, frames, err := b.copies(f, n, rot, stacks)
	if err != nil {
		return err
	}
	for t := range first {
		b.edge(last[t], first[rot.Next(t)])
	}
	b.edge(enter, first[0])
	leave := b.startBlock()
	for _, e := range last {
		b.edge(e, leave)
	}
	if rot.MinTrips == 0 {
		b.edge(enter, leave)
	}
	b.leaveLoop(f, n, rot, frames, stacks)
	for _, c := range rot.Carries {
		if rot.Sticky(c) {
			for _, bf := range frames {
				b.pins = append(b.pins, pin{bf.ref(c.Result), Range{begin, len(b.tl.Steps)}})
			}
		}
	}
	return nil
}

// pin keeps every block a variable may show alive over a run of steps: the places
// of a value that no rotation by iteration number describes.
type pin struct {
	v    int
	over Range
}

// enterLoop adds the step before the first iteration: the trip count, condition
// and initial values are read, the stacked results come to be.
func (b *builder) enterLoop(f *frame, n *ssa.Node, rot *loops.Rotation) []int {
	s := Step{Node: n, Border: true, Scratch: None, In: f.all(n.Formals())}
	var stacks []int
	for _, so := range rot.ScanOuts {
		id := None
		if so.Out != nil {
			id = b.define(f, so.Out)
			f.refs[so.Out.ID] = id
			s.Out = append(s.Out, id)
		}
		stacks = append(stacks, id)
	}
	b.step(s)
	return stacks
}

// copies lays out the body copies; first and last are each copy's outer blocks.
func (b *builder) copies(f *frame, n *ssa.Node, rot *loops.Rotation, stacks []int) (first, last []int, frames []*frame, err error) {
	for t := range rot.Copies() {
		b.levels = append(b.levels, level{rot, t})
		first = append(first, b.startBlock())
		bf := b.bindParams(f, n, rot, frames, t)
		frames = append(frames, bf)
		if err = b.graph(bf); err != nil {
			return
		}
		tail := Step{Node: n, Border: true, Scratch: None, In: bf.all(rot.Body.Results)}
		for _, s := range stacks {
			tail.In = append(tail.In, s)
		}
		b.step(tail)
		last = append(last, b.endBlock())
		b.levels = b.levels[:len(b.levels)-1]
	}
	return
}

// bindParams makes the frame of copy t: carried parameters are pointers to the
// initial value or the copy before's result, slices point into their operand,
// captures are the outer values themselves.
func (b *builder) bindParams(f *frame, n *ssa.Node, rot *loops.Rotation, frames []*frame, t int) *frame {
	bf := newFrame(rot.Body)
	head := Step{Node: n, Border: true, Scratch: None}
	if rot.Iter != nil {
		bf.refs[rot.Iter.ID] = b.place(rot.Iter, Var{Kind: Block, Value: rot.Iter, Bytes: int64(ndarray.Int64.Size())})
		head.Out = append(head.Out, bf.refs[rot.Iter.ID])
	}
	for _, c := range rot.Carries {
		src := f.ref(c.Init)
		if t > 0 {
			src = frames[t-1].ref(c.Result)
		}
		bf.refs[c.Param.ID] = b.addVar(Var{Kind: Pointer, Value: c.Param, Phi: true})
		if src != None {
			b.tl.Vars[bf.refs[c.Param.ID]].Sources = []int{src}
		}
		head.Out = append(head.Out, bf.refs[c.Param.ID])
	}
	for _, s := range rot.ScanIns {
		bytes, static := s.Param.Type.ByteSize()
		switch {
		case s.Axis == 0:
			bf.refs[s.Param.ID] = b.addVar(Var{Kind: Pointer, Value: s.Param, Sources: some(f.ref(s.Of))})
		case static:
			bf.refs[s.Param.ID] = b.place(s.Param, Var{Kind: Block, Value: s.Param, Bytes: int64(bytes)})
		default:
			bf.refs[s.Param.ID] = b.addVar(Var{Kind: Outside, Value: s.Param})
		}
		head.In = append(head.In, f.ref(s.Of)) // later slices are still to come
		head.Out = append(head.Out, bf.refs[s.Param.ID])
	}
	captures := n.Captured()
	for i, p := range rot.Body.Params[len(rot.Body.Params)-len(captures):] {
		bf.refs[p.ID] = f.ref(captures[i])
	}
	b.step(head)
	return bf
}

func some(id int) []int {
	if id == None {
		return nil
	}
	return []int{id}
}

// leaveLoop adds the step at which results exist: carried ones point to where
// the last iteration, whichever it was, left them.
func (b *builder) leaveLoop(f *frame, n *ssa.Node, rot *loops.Rotation, frames []*frame, stacks []int) {
	s := Step{Node: n, Border: true, Scratch: None}
	for _, c := range rot.Carries {
		var sources []int
		if rot.MinTrips == 0 {
			sources = append(sources, f.ref(c.Init))
		}
		for _, bf := range frames {
			sources = append(sources, bf.ref(c.Result))
		}
		if c.Out != nil {
			s.Out = append(s.Out, b.result(f, c.Out, sources))
		}
	}
	s.In = append(s.In, stacks...)
	b.step(s)
}

// String prints a variable for messages: the value's name and place.
func (t *Layout) String(v int) string {
	if v == None {
		return "-"
	}
	x := t.Vars[v]
	if x.Value == nil {
		return fmt.Sprintf("workspace#%d", v)
	}
	if x.Place == 0 {
		return x.Value.Name
	}
	return fmt.Sprintf("%s@%d", x.Value.Name, x.Place)
}
