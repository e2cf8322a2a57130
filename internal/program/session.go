package program

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Session is one arena and everything that points into it. It serves one run at
// a time; results stay valid until the next run.
type Session struct {
	p         *Program
	arena     []byte
	work      []byte // workspace of kernels whose shapes are known only while running
	recycled  recycler
	from      *Arena          // the arena shared with other sessions, nil if it is the session's own
	heads     []ndarray.Array // by slot: the header of a static slot
	vals      []ndarray.Value // by slot: the header, or what a dynamic slot holds now
	outs      []ndarray.Value // what Run returns
	calls     []ops.Call      // by instruction with a kernel
	last      []lastKernel    // by the same; empty if all shapes are known before the run
	iter      []int           // by loop level: iteration number modulo the ring
	pick      []int           // by slot: the offset picked for a sticky slot, -1: by iteration
	loops     []loopState
	ctx       context.Context
	done      <-chan struct{}
	steps     uint8  // of runs, modulo 256: see stepsPerErr
	at        *Instr // the instruction being run, for panics
	committed bool   // the run has begun to overwrite states
	watched   bool   // a hook or observer is called for the nodes of the run
	moved     int64  // see Moved
	kept      []kept // by cache of the program
	states    []stateMemory
	own       owned
	spans     []span // of the buffers that RunInto was given
	order     []int  // of those, by address
	device    backend.Memory
	wanted    []int // slots of results that are read on the host
	// Poison fills the arena with a pattern before each run, so that a read of
	// bytes that nothing wrote changes the results.
	Poison bool
	// Observe, if set, is called with the results of every instruction after it ran.
	Observe func(in *Instr, out []ndarray.Value)
}

// poison fills the arena before a poisoned run.
const poison = 0xA5

// Touched is how many bytes of the arena, from its start, the last poisoned run
// wrote to: the peak as measured, not as planned. (The last bytes do not count if
// the run wrote just the pattern there.)
func (s *Session) Touched() int64 {
	n := len(s.arena)
	for n > 0 && s.arena[n-1] == poison {
		n--
	}
	return int64(n)
}

// loopState is a loop's memory between iterations.
type loopState struct {
	next   []carried
	flat   []int // by carried value: its size if it moves as bytes alone, or -1
	stacks []stack
	tables []offsetTable
	rest   []int    // rotating slots without a table
	grown  []buffer // by carry: of values the body appends to
	left   int64    // iterations that may still come, the present one included
}

// NewSession allocates an arena and wires all headers and calls.
func (p *Program) NewSession() (*Session, error) { return p.OpenSession(backend.Brief()) }

// OpenSession is NewSession within a context, which ends it.
func (p *Program) OpenSession(ctx context.Context) (*Session, error) {
	arena, err := newArena(ctx, p.ArenaBytes, p.memory)
	if err != nil {
		return nil, err
	}
	return p.newSession(ctx, arena, nil)
}

// newSession makes a session on the memory of an arena, which is the session's own where from is nil.
func (p *Program) newSession(ctx context.Context, arena []byte, from *Arena) (*Session, error) {
	s := &Session{p: p, arena: arena, from: from, heads: make([]ndarray.Array, len(p.Slots)),
		vals: make([]ndarray.Value, len(p.Slots)), calls: make([]ops.Call, p.calls), iter: make([]int, p.Levels),
		loops: make([]loopState, p.states), outs: make([]ndarray.Value, len(p.Main.Results)), kept: make([]kept, len(p.caches))}
	s.pick = slices.Repeat([]int{-1}, len(p.Slots))
	if err := s.head(ctx); err != nil {
		return nil, err
	}
	s.own = newOwned(p)
	if err := s.wire(ctx); err != nil {
		return nil, err
	}
	s.rebase()
	if p.remote != nil {
		var err error
		var shared any
		if from != nil {
			shared = from.key
		}
		if s.device, err = p.remote.Open(ctx, arena, shared, p.memory); err != nil {
			return nil, err
		}
	}
	s.ctx = ctx
	defer func() { s.ctx = nil }()
	if err := s.openStates(); err != nil {
		return nil, err
	}
	return s, nil
}

// head makes the headers of constants that are read and of values whose shape is known.
func (s *Session) head(ctx context.Context) error {
	p := s.p
	read := p.readConstants(ctx)
	for i := range p.Slots {
		if i%lookEvery == lookEvery-1 && ctx.Err() != nil {
			return ctx.Err()
		}
		sl := &p.Slots[i]
		if sl.Kind == SlotConst {
			if !read[i] {
				continue
			}
			a, err := sl.Const.ArrayContext(ctx, p.memory)
			if err != nil {
				return fmt.Errorf("constant %q: %w", sl.Value.Name, err)
			}
			s.heads[i] = *a
			s.vals[i] = &s.heads[i]
			continue
		}
		if !sl.Static {
			continue
		}
		s.heads[i] = ndarray.Array{DType: sl.DType, Shape: sl.Shape}
		s.vals[i] = &s.heads[i]
	}
	return nil
}

// rebase points everything that lies in the arena at it.
func (s *Session) rebase() {
	for i := range s.p.Slots {
		if sl := &s.p.Slots[i]; sl.Kind == SlotArena && sl.Static {
			s.heads[i].Data = s.window(sl.Offsets[0], sl.Bytes)
		}
	}
	s.p.Main.visit(func(in *Instr) bool {
		if in.call >= 0 && in.Work > 0 {
			s.calls[in.call].Scratch = s.window(in.Scratch, int(in.Work))
		}
		return true
	})
}

// SharesWork reports whether some kernel may use more than one thread.
func (p *Program) SharesWork() bool { return p.sharesWork }

// Constants are those that runs read unpacked, some of them once the context has ended; kernels hold others packed.
func (p *Program) Constants(ctx context.Context) map[*ssa.Constant]bool {
	read := map[*ssa.Constant]bool{}
	for i, is := range p.readConstants(ctx) {
		if c := p.Slots[i].Const; is && c != nil {
			read[c] = true
		}
	}
	return read
}

// readConstants marks the constants some instruction or result reads, or some of them once the context has ended.
func (p *Program) readConstants(ctx context.Context) []bool {
	read := make([]bool, len(p.Slots))
	mark := func(slots []int) {
		for _, s := range slots {
			if s >= 0 {
				read[s] = true
			}
		}
	}
	mark(p.Main.Results)
	p.Main.each(ctx, func(in *Instr) {
		mark(in.In)
		for _, b := range in.Bodies {
			mark(b.Results)
		}
	})
	return read
}

func (s *Session) window(off int64, n int) []byte {
	if n == 0 {
		return nil
	}
	return s.arena[off : off+int64(n) : off+int64(n)]
}

// wire prepares the Call of every kernel instruction and the state of every loop, until the context ends.
func (s *Session) wire(ctx context.Context) error {
	s.p.Main.each(ctx, func(in *Instr) {
		if in.Loop != nil {
			s.loops[in.Loop.state] = s.p.newLoopState(in.Loop)
		}
		if in.call < 0 {
			return
		}
		if in.Dynamic && s.last == nil {
			s.last = make([]lastKernel, s.p.calls)
		}
		c := &s.calls[in.call]
		c.Node, c.Threads, c.Memory = in.Node, in.Threads, s.p.memory
		c.In = make([]ndarray.Value, len(in.In))
		c.Out = make([]ndarray.Value, len(in.Out))
		s.fill(c, in)
	})
	return ctx.Err()
}

// fill sets a call's operands and planned results from the slots.
func (s *Session) fill(c *ops.Call, in *Instr) {
	for i, sl := range in.In {
		c.In[i] = nil
		if sl >= 0 {
			c.In[i] = s.vals[sl]
		}
	}
	for i, sl := range in.Out {
		c.Out[i] = nil
		if sl >= 0 && s.p.Slots[sl].Static {
			c.Out[i] = s.vals[sl]
		}
	}
}

// Run executes the program on one value per parameter. The results are the
// session's own memory until the next run, and may be inputs of that; see own.go. Inputs
// among [Program.Caches] and [Program.States] may be nil: the session has them, and keeps
// the results that continue them, which are nil then.
func (s *Session) Run(ctx context.Context, inputs []ndarray.Value) ([]ndarray.Value, error) {
	return s.runAnd(ctx, inputs, false, nil)
}

// RunFresh is Run with results in memory of their own, which the caller keeps.
func (s *Session) RunFresh(ctx context.Context, inputs []ndarray.Value) ([]ndarray.Value, error) {
	return s.runAnd(ctx, inputs, true, nil)
}

// runAnd is Run, with fresh results or not, and copies the results into buffers if there are any.
func (s *Session) runAnd(ctx context.Context, inputs []ndarray.Value, fresh bool, buffers []*ndarray.Array) (out []ndarray.Value, err error) {
	if s.from != nil {
		if err := s.from.enter(ctx, s); err != nil {
			return nil, err
		}
		defer s.from.leave()
	}
	defer s.rescue(&err)
	if buffers != nil {
		if err := cmp.Or(s.checkBuffers(buffers), s.checkTargets(ctx)); err != nil {
			return nil, err
		}
	}
	if err = s.execute(ctx, inputs); err == nil {
		out, err = s.finish(fresh, buffers)
	}
	if err != nil && s.device != nil {
		s.device.Leave()
	}
	return out, err
}

// execute binds the inputs and computes everything.
func (s *Session) execute(ctx context.Context, inputs []ndarray.Value) error {
	s.ctx, s.done = ctx, ctx.Done()
	if sysmem.Begin(s.p.memory) {
		defer sysmem.End(s.p.memory)
	}
	if err := s.bind(inputs); err != nil {
		return err
	}
	s.moved = 0
	if s.p.keeps {
		if err := s.bindKept(inputs); err != nil {
			return err
		}
	}
	s.open(false)
	s.watched = s.p.hook != nil || s.Observe != nil || s.device != nil
	s.recycled.begin()
	for i := range s.calls {
		s.calls[i].Ctx = ctx
	}
	if s.Poison {
		for i := range s.arena {
			s.arena[i] = poison
		}
	}
	if s.device != nil {
		if err := s.device.Begin(ctx, s.arena, s.vals, s.p.Main.Params); err != nil {
			return err
		}
	}
	if err := s.run(s.p.Main); err != nil {
		return err
	}
	return s.ctx.Err() // not the caller's once states are being overwritten
}

// bindKept gives the inputs that are left out what the session keeps.
func (s *Session) bindKept(inputs []ndarray.Value) error {
	if err := s.checkTorn(inputs); err != nil {
		return err
	}
	if err := s.bindCaches(inputs); err != nil {
		return err
	}
	return s.bindStates(inputs)
}

// finish ends a run that has computed everything.
func (s *Session) finish(fresh bool, buffers []*ndarray.Array) ([]ndarray.Value, error) {
	if err := s.readResults(buffers); err != nil {
		return nil, err
	}
	if s.p.keeps {
		if err := s.checkStates(); err != nil {
			return nil, err
		}
	}
	out, err := s.results(fresh)
	if err != nil {
		return nil, err
	}
	if s.p.keeps {
		if err := s.placeStates(); err != nil {
			return nil, err
		}
	}
	if buffers != nil {
		if err := s.copyTo(buffers, out); err != nil {
			return nil, err
		}
	}
	if s.device != nil {
		if err := s.device.End(); err != nil {
			return nil, err
		}
	}
	if s.p.keeps {
		s.keepCaches()
		s.keepStates()
	}
	s.open(true)
	return out, nil
}

// open says whether results of the session may be handed back to it from now on.
func (s *Session) open(valid bool) {
	s.own.valid = valid
	if s.from != nil {
		s.from.last = nil
		if valid {
			s.from.last = s
		}
	}
}

// rescue ends a run. A panic inside a kernel becomes an error that names the node.
func (s *Session) rescue(err *error) {
	if r := recover(); r != nil {
		*err = rescue.Caught(r)
		if s.at != nil && s.at.Node != nil {
			*err = ops.AtNode("run", s.at.Node, *err)
		}
	}
	if *err != nil && s.at != nil && s.at.Node != nil && readsParam(s.at.Node) {
		if o := ops.Of(s.at.Node); o == nil || !o.Foreign() { // what is the cause there, only the operator can say
			*err = OfInputs(*err)
		}
	}
	if s.committed {
		s.tear()
	}
	s.unbind()
}

// unbind drops the context of a run and what is the caller's.
func (s *Session) unbind() {
	s.ctx, s.done = nil, nil
	for i := range s.calls {
		s.calls[i].Ctx = nil
	}
	for _, slot := range s.p.borrowed {
		s.heads[slot].Data = nil
		if !s.p.Slots[slot].Static {
			s.vals[slot] = nil
		}
	}
	for i := range s.loops {
		clear(s.loops[i].next)
		clear(s.loops[i].grown)
	}
}

// findBorrowed lists the slots that point to memory of callers, or may.
func (p *Program) findBorrowed(ctx context.Context) {
	for i := range p.Slots {
		if i%lookEvery == lookEvery-1 && ctx.Err() != nil {
			return
		}
		if k := p.Slots[i].Kind; k != SlotConst && k != SlotArena {
			p.borrowed = append(p.borrowed, i)
		}
	}
}

// bind points the input slots at the caller's values.
func (s *Session) bind(inputs []ndarray.Value) error {
	if len(inputs) != len(s.p.Main.Params) {
		return s.p.wrongCount(len(inputs))
	}
	for i, slot := range s.p.Main.Params {
		sl := &s.p.Slots[slot]
		if a, plain := inputs[i].(*ndarray.Array); plain && sl.isPlain(a) {
			data, err := s.staticInput(i, sl, a)
			if err != nil {
				return err
			}
			s.heads[slot].Data = data
			continue
		}
		if err := s.bindAny(i, slot, inputs); err != nil {
			return err
		}
	}
	return nil
}

// isPlain reports that an array is of the known type and shape of the slot: that it fits need
// not be found out piece by piece.
func (sl *Slot) isPlain(a *ndarray.Array) bool {
	return sl.Static && a != nil && a.DType == sl.DType && len(a.Data) == sl.Bytes && a.DType != ndarray.String && slices.Equal(a.Shape, sl.Shape)
}

// bindAny points an input slot at a value of any kind, or at none where the session has it.
func (s *Session) bindAny(i, slot int, inputs []ndarray.Value) (err error) {
	if inputs[i] == nil && s.p.keepsState(i) {
		return nil
	}
	if err := s.checkInput(i, inputs); err != nil {
		return err
	}
	sl := &s.p.Slots[slot]
	if sl.Static {
		s.heads[slot].Data, err = s.staticInput(i, sl, inputs[i].(*ndarray.Array))
		return err
	}
	s.vals[slot], err = s.input(sl, inputs[i])
	return err
}
