package liveness

import (
	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
)

// Laying out a loop: its body stands there prefix + ring times (package loops says
// how often), and what one copy leaves is what the next one's parameters point to.
//
//	enter   copy 0       copy 1       copy 2       leave        prefix 1, ring 2
//	x       p ▶ x        p ▶ q@0      p ▶ q@1      o ▶ x q@0 q@1
//	        q@0          q@1          q@0 again
//
// No value is moved anywhere in this picture: parameters and results are pointers.
//
// Sources: NNC tensor allocation (loops are unrolled for planning only); M. Lam,
// Software Pipelining, 1988 (modulo variable expansion).

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
		tail.In = append(tail.In, stacks...)
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
