package liveness

import (
	"slices"

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
// Without an order the body stands there once, and a parameter points to its own
// next value, too.
//
// Sources: NNC tensor allocation (loops are unrolled for planning only); M. Lam,
// Software Pipelining, 1988 (modulo variable expansion).

// windowOf is the variable of a stacked output outside the loop that fills it; None
// if it has no planned place, since its size is known only while running.
func (b *builder) windowOf(w *loops.ScanOut) int {
	if p := b.out.PlacesOf(w.Out); p != nil {
		return p.at(b.levels[:len(b.levels)-1])
	}
	return None
}

// rotation analyses a loop as the layout needs it.
func (b *builder) rotation(n *ssa.Node) (rot *loops.Rotation, copies int, err error) {
	rot = b.out.loops[n]
	switch {
	case rot != nil:
	case b.opts.AnyOrder:
		rot, err = loops.OfAnyOrder(n)
	default:
		rot, err = loops.Of(n)
	}
	if err != nil {
		return nil, 0, err
	}
	b.out.loops[n] = rot
	if b.any != nil {
		return rot, 1, nil
	}
	return rot, rot.Copies(), nil
}

// loop lays a Loop or Scan out: prefix and ring copies of the body.
//
//	enter ──▶ copy 0 ──▶ … ──▶ copy D ──▶ … ──▶ copy D+R-1 ──┐
//	  │         │                ▲ └─────────────────────────┘ (ring)
//	  └─────────┴───── each copy ┴──▶ leave
func (b *builder) loop(f *frame, n *ssa.Node) (int, error) {
	rot, copies, err := b.rotation(n)
	if err != nil {
		return 0, err
	}
	at, stacks := b.enterLoop(f, n, rot)
	begin := at
	var frames []*frame
	fork := b.fork(Fork{Loop: b.any == nil, Again: rot.Next(copies - 1), Skip: rot.MinTrips == 0})
	for t := range copies {
		err := b.within(fork, func() error {
			bf, tail, err := b.copy(f, n, rot, stacks, frames, t, at)
			if err == nil {
				frames, at = append(frames, bf), tail
				b.out.Steps[begin].Out = append(b.out.Steps[begin].Out, bf.slots...) // initial values are copied there
			}
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	end := b.leaveLoop(f, n, rot, frames, stacks)
	b.waitFor([]int{at}, end)
	b.pin(rot, frames, Range{begin, len(b.out.Steps)})
	return end, nil
}

// pin keeps every block a variable may show alive over a run of steps: the places
// of a value that no rotation by iteration number describes.
type pin struct {
	v    int
	over Range
}

func (b *builder) pin(rot *loops.Rotation, frames []*frame, over Range) {
	for _, c := range rot.Carries {
		if rot.Sticky(c) {
			for _, bf := range frames {
				b.pins = append(b.pins, pin{bf.ref(c.Result), over})
			}
		}
	}
}

// enterLoop adds the step before the first iteration: the trip count, condition
// and initial values are read, the stacked results come to be.
func (b *builder) enterLoop(f *frame, n *ssa.Node, rot *loops.Rotation) (at int, stacks []int) {
	at = b.begin(f, n, Step{Node: n, Border: true, Scratch: None, In: f.all(n.Formals())})
	for _, so := range rot.ScanOuts {
		if so.Out != nil {
			f.refs[so.Out.ID] = b.define(f, so.Out)
			stacks = append(stacks, f.refs[so.Out.ID])
		}
	}
	b.out.Steps[at].Out = slices.Clone(stacks)
	return at, stacks
}

// copy lays out copy t of the body, which begins after a step, and returns its last
// step.
func (b *builder) copy(f *frame, n *ssa.Node, rot *loops.Rotation, stacks []int, frames []*frame, t, after int) (bf *frame, tail int, err error) {
	b.levels = append(b.levels, level{rot, t})
	defer func() { b.levels = b.levels[:len(b.levels)-1] }()
	firstVar := len(b.out.Vars)
	bf = b.newFrame(rot.Body, None)
	var reads, stays []int // what the head reads, and what is read in every iteration, however late
	for _, s := range rot.ScanIns {
		reads = append(reads, f.ref(s.Of)) // later slices are still to come
	}
	if b.any != nil {
		reads = append(f.all(n.Captured()), reads...)
		stays = reads
	}
	head := Step{Node: n, Border: true, Scratch: None, In: reads, Out: b.bindParams(f, bf, n, rot, frames)}
	bf.entry = b.step(head)
	b.waitFor([]int{after}, bf.entry)
	done, err := b.graph(bf)
	if err != nil {
		return nil, 0, err
	}
	tail = b.step(Step{Node: n, Border: true, Scratch: None, In: slices.Concat(bf.all(rot.Body.Results), stays, stacks, bf.slots)})
	b.waitFor(append(done, bf.entry), tail)
	if b.any != nil {
		b.rotate(rot, bf, firstVar)
	}
	return bf, tail, nil
}

// bindParams makes the variables of a copy's parameters and returns them: carried
// parameters are pointers to the initial value or the result of the copy before,
// slices point into their operand, captures are the outer values themselves.
func (b *builder) bindParams(f, bf *frame, n *ssa.Node, rot *loops.Rotation, frames []*frame) (made []int) {
	set := func(p *ssa.Value, id int) {
		bf.refs[p.ID] = id
		made = append(made, id)
	}
	if rot.Iter != nil {
		set(rot.Iter, b.place(rot.Iter, Var{Kind: Block, Value: rot.Iter, Bytes: int64(ndarray.Int64.Size())}))
	}
	for _, c := range rot.Carries {
		if rot.Compact {
			set(c.Param, b.copied(bf, c.Param, rot.Copied(c)))
			continue
		}
		src := f.ref(c.Init)
		if t := len(frames); t > 0 {
			src = frames[t-1].ref(c.Result)
		}
		set(c.Param, b.addVar(Var{Kind: Pointer, Value: c.Param, Phi: true}))
		b.addSources(bf.refs[c.Param.ID], src)
	}
	made = append(made, bf.slots...)
	for _, s := range rot.ScanIns {
		bytes, static := s.Param.Type.ByteSize()
		switch {
		case s.Axis == 0:
			set(s.Param, b.addVar(Var{Kind: Pointer, Value: s.Param}))
			b.addSources(bf.refs[s.Param.ID], f.ref(s.Of))
		case static:
			set(s.Param, b.place(s.Param, Var{Kind: Block, Value: s.Param, Bytes: int64(bytes)}))
		default:
			set(s.Param, b.addVar(Var{Kind: Outside, Value: s.Param}))
		}
	}
	captures := n.Captured()
	for i, p := range rot.Body.Params[len(rot.Body.Params)-len(captures):] {
		bf.refs[p.ID] = f.ref(captures[i])
	}
	return made
}

// copied makes the slots of a compact loop's parameter and returns the variable that
// is any of them. A parameter of unknown size is copied to memory outside the plan.
func (b *builder) copied(bf *frame, p *ssa.Value, planned bool) int {
	if !planned {
		return b.addVar(Var{Kind: Outside, Value: p})
	}
	bytes, _ := p.Type.ByteSize()
	inner := &b.levels[len(b.levels)-1]
	any := b.addVar(Var{Kind: Pointer, Value: p, Phi: true})
	for inner.copy = range inner.rot.Period(p) {
		slot := b.place(p, Var{Kind: Block, Value: p, Bytes: int64(bytes)})
		bf.slots = append(bf.slots, slot)
		b.addSources(any, slot)
		if b.any != nil {
			b.any.Radix[slot][len(b.levels)-1] = inner.rot.Period(p)
			b.any.heldBy[slot] = []int{len(b.out.Steps)} // the head, which comes next
			break
		}
	}
	inner.copy = 0
	return any
}

// leaveLoop adds the step at which results exist: carried ones point to where
// the last iteration, whichever it was, left them.
func (b *builder) leaveLoop(f *frame, n *ssa.Node, rot *loops.Rotation, frames []*frame, stacks []int) int {
	s := Step{Node: n, Border: true, Scratch: None, In: stacks}
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
	return b.step(s)
}

// rotate, without an order, lets parameters point to their next values, and gives
// the blocks that an iteration leaves to the next the places they need. first is the
// first variable made inside.
func (b *builder) rotate(rot *loops.Rotation, bf *frame, first int) {
	if rot.Compact {
		return
	}
	for _, c := range rot.Carries {
		b.addSources(bf.ref(c.Param), bf.ref(c.Result))
	}
	c, depth := b.any, len(b.levels)
	for _, x := range rot.Carries {
		for _, v := range b.out.rootsOf(b.ctx, bf.ref(x.Result)) {
			if v < first {
				continue
			}
			c.sticky[v] = c.sticky[v] || rot.Sticky(x)
			if !slices.Contains(c.heldBy[v], bf.entry) {
				c.heldBy[v] = append(c.heldBy[v], bf.entry)
			}
			c.Radix[v][depth-1] = rot.Period(b.out.Vars[v].Value)
		}
	}
}
