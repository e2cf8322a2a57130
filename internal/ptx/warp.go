package ptx

import "slices"

// A warp executes in lockstep. Its stack says which lanes go on where:
//
//	top →  { pc: B,  meet: C, lanes taken }      runs until its pc is C, then is popped
//	       { pc: A,  meet: C, lanes not taken }  then these run until C
//	       { pc: C,  meet: E, all lanes }        then all go on together
//
// A call makes a frame with a stack of its own, for the lanes that make the call.

// entry is a group of lanes that execute together until they come to meet.
type entry struct {
	pc, meet int32
	lanes    uint32
}

// frame is one activation of a function by some lanes of a warp.
type frame struct {
	fn         *function
	v          []*vec   // registers, then extras
	registers  []vec    // what v points to
	defined    []uint32 // lanes whose register has a value; all lanes for extras
	preds      []uint32
	predsKnown []uint32
	carry      uint32
	stack      []entry
	gone       uint32 // lanes that have returned
	params     []byte // parameter memory, lane by lane
	paramState []byte
	localBase  uint64
	call       *step // in the caller; nil for the kernel
	lanes      uint32
}

// warp is 32 lanes of a block.
type warp struct {
	block       *block
	index       int
	valid       uint32 // lanes that exist: the last warp of a block may have fewer
	exited      uint32
	frames      []*frame
	idle        map[*function][]*frame // frames to use again
	step        *step
	specials    []vec
	local       []byte
	localState  []byte
	localStride uint64
	lanes       vec // for intermediate results
	sector      uint64
	void        [rowBytes]byte // in the place of bytes that a lane may not access
	clock       uint32
	now         stamp               // of the warp at its clock, without a lane
	seen        [mostInBlock]uint32 // by warp plus one: up to which of its clocks
	waits       barrierWait
	groups      [32]int // asynchronous copies: how many groups each lane has closed
	flights     []flight
}

// thread is the place of a lane's thread in its block.
func (w *warp) thread(lane int) [3]int {
	n, size := w.index*32+lane, w.block.extent
	return [3]int{n % size[0], n / size[0] % size[1], n / (size[0] * size[1])}
}

func newWarp(b *block, index int) *warp {
	k := b.kernel
	w := &warp{block: b, index: index, valid: allLanes, specials: make([]vec, len(k.specials)), idle: map[*function][]*frame{}}
	w.localStride = uint64(k.info.LocalBytes)
	w.local, w.localState = make([]byte, 32*w.localStride), make([]byte, 32*w.localStride)
	return w
}

// place sets the special registers that are the same for all blocks of a launch.
func (w *warp) place(l *Launch) {
	for i, name := range w.block.kernel.specials {
		of := specialRegisters[name]
		for lane := range 32 {
			w.specials[i][lane] = of(w, l, lane) & (1<<32 - 1)
		}
	}
}

// begin makes a warp ready for a block.
func (w *warp) begin() {
	w.exited, w.seen, w.waits = 0, [mostInBlock]uint32{}, barrierWait{}
	w.tick(1)
	w.groups, w.flights = [32]int{}, w.flights[:0]
	for i, name := range w.block.kernel.specials {
		if axis := slices.Index(blockIndices, name); axis >= 0 {
			for lane := range 32 {
				w.specials[i][lane] = uint64(w.block.id[axis])
			}
		}
	}
	clear(w.localState)
	w.frames = w.frames[:0]
	w.push(w.block.kernel.entry, nil, w.valid)
}

// push starts a function for some lanes.
func (w *warp) push(fn *function, call *step, lanes uint32) {
	var f *frame
	if idle := w.idle[fn]; len(idle) > 0 {
		f = idle[len(idle)-1]
		w.idle[fn] = idle[:len(idle)-1]
	} else {
		f = w.newFrame(fn)
	}
	clear(f.defined[:fn.values])
	clear(f.predsKnown)
	clear(f.paramState)
	f.call, f.gone, f.lanes = call, 0, lanes
	f.stack = append(f.stack[:0], entry{0, int32(len(fn.steps)), lanes})
	f.localBase = 0
	if len(w.frames) > 0 {
		top := w.frames[len(w.frames)-1]
		f.localBase = top.localBase + uint64(top.fn.localBytes)
		copyParams(f, fn.params, top, call.in, lanes)
	}
	w.frames = append(w.frames, f)
}

func (w *warp) newFrame(fn *function) *frame {
	n := fn.values
	f := &frame{
		fn: fn, v: make([]*vec, n+len(fn.extras)), registers: make([]vec, n), defined: make([]uint32, n+len(fn.extras)),
		preds: make([]uint32, fn.predicates), predsKnown: make([]uint32, fn.predicates),
		params: make([]byte, 32*fn.paramBytes), paramState: make([]byte, 32*fn.paramBytes),
	}
	for i := range f.registers {
		f.v[i] = &f.registers[i]
	}
	for i, e := range fn.extras {
		f.defined[n+i] = allLanes
		f.v[n+i] = e.constant
		if e.constant == nil {
			f.v[n+i] = &w.specials[e.special]
		}
	}
	return f
}

// copyParams copies parameters between frames, with what is known of them.
func copyParams(to *frame, at []memoryRange, from *frame, source []memoryRange, lanes uint32) {
	for i, r := range at {
		for m := lanes; m != 0; m &= m - 1 {
			l := int64(firstLane(m))
			a, b := l*to.fn.paramBytes+r.at, l*from.fn.paramBytes+source[i].at
			copy(to.params[a:a+r.size], from.params[b:b+r.size])
			copy(to.paramState[a:a+r.size], from.paramState[b:b+r.size])
		}
	}
}

// pop ends a function: its results go to the caller.
func (w *warp) pop() {
	f := w.frames[len(w.frames)-1]
	w.frames = w.frames[:len(w.frames)-1]
	w.idle[f.fn] = append(w.idle[f.fn], f)
	if f.call != nil {
		copyParams(w.frames[len(w.frames)-1], f.call.out, f, f.fn.results, f.lanes)
	}
}

// base is the address of a variable in its space.
func (f *frame) base(w *warp, s symbol) uint64 {
	switch s.space {
	case Global:
		return w.block.globals[s.at]
	case Local:
		return f.localBase + uint64(s.at)
	}
	return uint64(s.at)
}

// setPred sets a predicate in the lanes of a mask.
func (f *frame) setPred(d int32, value, m uint32) { f.preds[d] = f.preds[d]&^m | value&m }

// run executes until the warp waits at a barrier, has ended, or the block is stopped.
func (w *warp) run() {
	b := w.block
	for len(w.frames) > 0 && !b.isStopped {
		f := w.frames[len(w.frames)-1]
		top := len(f.stack) - 1
		if top < 0 {
			w.pop()
			continue
		}
		e := &f.stack[top]
		m := e.lanes &^ (f.gone | w.exited)
		if m == 0 || e.pc == e.meet {
			f.stack = f.stack[:top]
			continue
		}
		if w.straight(f, e, m); w.waits.isWaiting {
			return
		}
	}
}

// straight executes steps until the stack may have changed.
func (w *warp) straight(f *frame, e *entry, m uint32) {
	b := w.block
	for e.pc != e.meet && int(e.pc) < len(f.fn.steps) {
		s := &f.fn.steps[e.pc]
		w.step = s
		if b.budget--; b.budget < 0 {
			w.report(Runaway, firstLane(m), "the block has executed %d instructions of warps", b.launch.MaxSteps)
			b.isStopped = true
			return
		}
		if b.budget&(1<<14-1) == 0 && b.ctx.Err() != nil {
			b.isStopped = true
			return
		}
		n := m
		if s.guard >= 0 {
			n = w.guarded(f, s, m)
		}
		b.executed[s.class].Warps++
		if s.kind != stepPlain { // also the lanes that do not take a branch execute it
			b.executed[s.class].Lanes += lanesOf(m)
			w.control(f, e, s, m, n)
			return
		}
		b.executed[s.class].Lanes += lanesOf(n)
		e.pc++
		if n != 0 {
			w.plain(f, s, n)
		}
	}
	if int(e.pc) >= len(f.fn.steps) {
		f.gone |= m
	}
}

// guarded is the lanes of a mask whose guard holds.
func (w *warp) guarded(f *frame, s *step, m uint32) uint32 {
	if unknown := m &^ f.predsKnown[s.guard]; unknown != 0 {
		w.report(Uninitialized, firstLane(unknown), "the predicate %s has no value", f.fn.predNames[s.guard])
		f.predsKnown[s.guard] |= unknown
	}
	if s.guardNegated {
		return m &^ f.preds[s.guard]
	}
	return m & f.preds[s.guard]
}

// plain checks that operands have values, executes, and notes what has one now.
func (w *warp) plain(f *frame, s *step, m uint32) {
	known := uint32(allLanes)
	for _, r := range s.reads {
		known &= f.defined[r]
	}
	if m&^known != 0 && !s.isMove {
		w.undefined(f, s, m)
		known = allLanes
	}
	for _, p := range s.readPreds {
		if unknown := m &^ f.predsKnown[p]; unknown != 0 {
			w.report(Uninitialized, firstLane(unknown), "the predicate %s has no value", f.fn.predNames[p])
		}
	}
	s.exec(w, f, m)
	if s.flops > 0 {
		w.block.counts.Flops += int64(s.flops) * lanesOf(m)
	}
	for _, d := range s.writes {
		if s.isMove {
			f.defined[d] = f.defined[d]&^m | known&m
		} else {
			f.defined[d] |= m
		}
	}
	for _, d := range s.writePreds {
		f.predsKnown[d] |= m
	}
}

// undefined reports the operands of a step that have no value.
func (w *warp) undefined(f *frame, s *step, m uint32) {
	for _, r := range s.reads {
		if unknown := m &^ f.defined[r]; unknown != 0 {
			w.report(Uninitialized, firstLane(unknown), "the register %s has no value", f.fn.names[r])
			return
		}
	}
}

// control executes a step that may change the stack; n are the lanes of m whose guard holds.
func (w *warp) control(f *frame, e *entry, s *step, m, n uint32) {
	switch s.kind {
	case stepBranch:
		w.branch(f, e, s, n, m&^n)
	case stepTable:
		w.table(f, e, s, n)
	case stepCall:
		e.pc++
		if n != 0 {
			w.push(s.callee, s, n)
		}
	case stepRet:
		e.pc++
		f.gone |= n
	case stepExit:
		e.pc++
		w.exited |= n
	case stepBarrier:
		if n == 0 {
			e.pc++
			return
		}
		w.arrive(f, e, s, n)
	case stepTrap:
		e.pc++
		if n != 0 {
			w.report(Trapped, firstLane(n), "the kernel gave up")
			w.block.isStopped = true
		}
	}
}

// branch sends the lanes taken to the target, the others on.
func (w *warp) branch(f *frame, e *entry, s *step, taken, others uint32) {
	switch {
	case taken == 0:
		e.pc++
	case others == 0:
		e.pc = s.target
	default:
		w.block.counts.Divergent++
		next := e.pc + 1
		f.part(e, s.meet)
		f.group(next, s.meet, others)
		f.group(s.target, s.meet, taken)
	}
}

// part lets a group wait where its lanes meet again, unless it ends there anyway.
func (f *frame) part(e *entry, meet int32) {
	if e.pc = meet; e.meet == meet {
		f.stack = f.stack[:len(f.stack)-1]
	}
}

// group adds lanes that execute until they meet the others.
func (f *frame) group(pc, meet int32, lanes uint32) {
	if pc != meet && lanes != 0 {
		f.stack = append(f.stack, entry{pc, meet, lanes})
	}
}

// table sends each lane to the target that its index says.
func (w *warp) table(f *frame, e *entry, s *step, n uint32) {
	m := e.lanes &^ (f.gone | w.exited)
	groups := make([]uint32, len(s.targets))
	for r := n; r != 0; r &= r - 1 {
		l := firstLane(r)
		i := f.v[s.index][l]
		if i >= uint64(len(s.targets)) {
			w.report(OutOfBounds, l, "the index %d into a table of %d branch targets", i, len(s.targets))
			i = 0
		}
		groups[i] |= 1 << l
	}
	for i, g := range groups {
		if g == m {
			e.pc = s.targets[i]
			return
		}
	}
	w.block.counts.Divergent++
	next := e.pc + 1
	f.part(e, s.meet)
	f.group(next, s.meet, m&^n)
	for i, g := range groups {
		f.group(s.targets[i], s.meet, g)
	}
}
