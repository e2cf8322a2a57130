package berth

import (
	"context"
	"errors"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/internal/borrow"
	"github.com/berth-onnx/berth/internal/cpu"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/fuse"
	"github.com/berth-onnx/berth/internal/layout"
	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/internal/rewrite"
	"github.com/berth-onnx/berth/internal/schedule"
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Program is a model compiled for one binding of its input shapes. It never
// changes and is safe for concurrent use.
type Program struct {
	prog      *program.Program
	life      *lifetime // the model's
	defaults  map[string]*ssa.Constant
	outputs   []string // names of the results as callers know them
	compile   time.Duration
	idle      idleSessions
	counts    *counts
	collected atomic.Bool // by the first session: the heap held what compiling took
	room      *room       // on the device; nil for a program of the host
	reads     *sysmem.Reading
}

// Schedules lists the execution orders.
func Schedules() []string { return schedule.Names() }

// Compile prepares the model to run. Dimensions left open by the model and not
// fixed by options make values dynamic: they are placed while running.
func (m *Model) Compile(ctx context.Context, opts ...Option) (*Program, error) {
	return usingContext(ctx, m.lifetime(), func() (*Program, error) { return m.compile(ctx, newConfig(opts)) })
}

func (m *Model) compile(ctx context.Context, c config) (_ *Program, err error) {
	defer func() { err = rescue.WithCause(ctx, m.ofShapes(ctx, &c, err)) }()
	start := time.Now()
	ctx = c.memory.In(ctx)
	c.weights = m.weights()
	states, err := m.checkOptions(&c)
	if err != nil {
		return nil, err
	}
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	g, err := m.lower(ctx, &c)
	if err != nil {
		return nil, err
	}
	if g, err = fresh(ctx, g); err != nil {
		return nil, err
	}
	pl, err := c.plannerOf()
	if err != nil {
		return nil, err
	}
	be, err := c.backendOf()
	if err != nil {
		return nil, err
	}
	var outputs []string
	for _, port := range m.Outputs() {
		outputs = append(outputs, port.Name)
	}
	p, err := program.Compile(ctx, g, program.Options{Backend: be, Planner: pl, Threads: c.threads,
		InPlace: inplace.Options{NoInPlace: c.noInPlace}, CopyViews: c.copyViews, Bounds: c.bounds, States: states, ParallelSafe: c.parallelSafe, Saved: m.savedPlans(&c),
		Memory: c.memory, OwnGraph: true, Constants: m.constants, Hook: c.hook, Outputs: outputs})
	if err != nil {
		return nil, c.refusedState(err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := m.release(ctx, p); err != nil {
		return nil, err
	}
	out := &Program{prog: p, life: m.life, defaults: m.module.Defaults, outputs: outputs, idle: idleSessions{limits: c.idle}, counts: &counts{}, reads: sysmem.NewReading(p.Mapped())}
	out.compile = time.Since(start)
	m.made.add(out)
	if _, ok := be.(backend.Remote); ok {
		out.room = roomOn(place{c.backend, c.device})
		out.room.programs.add(out)
	}
	return out, nil
}

// ofShapes marks a failed inference of shapes as one of the call's inputs where the call fixes shapes, and open ones can be inferred.
func (m *Model) ofShapes(ctx context.Context, c *config, err error) error {
	if at := (*NodeError)(nil); len(c.shapes)+len(c.dims) == 0 || !errors.As(err, &at) || at.Stage != "shape inference" {
		return err
	}
	if _, invalid := ops.Bind(ctx, m.module.Graph, ops.Binding{}); invalid != nil {
		return err
	}
	return program.OfInputs(err)
}

// ready opens the device, if the backend has any, so that its absence shows before all work.
func (c *config) ready(ctx context.Context) error {
	be, err := c.backendOf()
	if d, ok := be.(backend.Remote); ok {
		return d.Ready(ctx)
	}
	return err
}

// lookEvery is how many values a loop passes between two looks at the context.
const lookEvery = 4096

// release drops copies of constants that the program does not read, and the pages of files that compiling has read, but for those that
// sessions read: what runs of the new program read comes back without its neighbours.
func (m *Model) release(ctx context.Context, p *program.Program) error {
	read := p.Constants(ctx)
	m.module.Graph.Walk(func(g *ssa.Graph) {
		for i, v := range g.Values() {
			if i%lookEvery == 0 && ctx.Err() != nil {
				return
			}
			if v != nil && v.Const != nil && !read[v.Const] {
				v.Const.Release()
			}
		}
	})
	m.life.share.files.discard()
	return ctx.Err()
}

// giveBack returns the heap that compiling took to the system, where much of it is free. It is a collection, which programs
// that never run do without, and those that are compiled while little was allocated since the last one: what they left is little.
func giveBack() {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(heap) // unlike runtime.ReadMemStats it does not stop what else runs
	inUse, free, allocated := heap[0].Value.Uint64(), heap[1].Value.Uint64(), heap[2].Value.Uint64()
	if since := int64(allocated - givenBackAt.Load()); free > heapSlack || inUse > heapSlack && since > heapSlack {
		givenBackAt.Store(allocated)
		debug.FreeOSMemory()
	}
}

// givenBackAt is how many bytes the process had allocated when giveBack last collected.
var givenBackAt atomic.Uint64

// heapSlack is how many bytes of the heap may be free, or in use and allocated since the last such collection, before the first
// session of a program begins with a collection.
const heapSlack = 16 << 20

// foldingOnly are the passes that make shapes known and change nothing else.
var foldingOnly = []string{"shape-fold", "fold", "dead"}

// lower binds, rewrites and orders a copy of the graph for execution.
func (m *Model) lower(ctx context.Context, c *config) (*ssa.Graph, error) {
	bound, err := m.bind(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := c.checkFixed(m.module.Graph.Params, bound.Graph.Params); err != nil {
		return nil, err
	}
	fast, err := c.fastBackend()
	if err != nil {
		return nil, err
	}
	passes := rewrite.Options{List: &rewrite.Runtime, Inferred: true, Brief: true, Check: c.check, Shuffle: c.check, Dump: c.dump, Off: c.rewritesOff(), MaxOpset: -1, MaxOfBytes: fast != nil}
	if fast != nil && c.optimizeFor != Memory {
		passes.Compute = computeAhead
	}
	if c.noPasses {
		passes.Only = foldingOnly
	}
	if _, err := rewrite.Run(ctx, bound, passes); err != nil {
		return nil, err
	}
	if err := rewrite.RunFurther(ctx, bound.Graph, c.leavesOut); err != nil {
		return nil, err
	}
	fuser, takes, err := c.fusing()
	if err != nil {
		return nil, err
	}
	if attender, ok := fuser.(fuse.Attender); ok && !c.leavesOut(fuse.AttentionPass) { // a launch less each pays on a device
		if _, err := fuse.Attentions(ctx, bound.Graph, attender, fuse.AttentionOptions{All: takes != nil, Memory: c.optimizeFor == Memory}); err != nil {
			return nil, err
		}
	}
	if fuser != nil && !c.leavesOut(fuse.EpiloguePass) {
		if _, err := fuse.Epilogues(ctx, bound.Graph, fuser); err != nil {
			return nil, err
		}
		if takes == nil {
			if _, err := fuse.Shuffles(ctx, bound.Graph); err != nil {
				return nil, err
			}
		}
	}
	if err := c.layOut(ctx, bound.Graph, fast); err != nil {
		return nil, err
	}
	order, err := m.order(ctx, bound.Graph, c)
	if err != nil {
		return nil, err
	}
	if fuser == nil || c.parallelSafe && takes == nil || c.leavesOut(fuse.Pass) {
		return bound.Graph, nil
	}
	o := fuse.Options{Threads: c.threads, InPlace: inplace.Options{NoInPlace: c.noInPlace, NoSmaller: takes != nil}, CopyViews: c.copyViews, Takes: takes}
	if takes == nil && order != nil && !c.noInPlace && !c.copyViews {
		o.Peak = order.Peak
	}
	g, _, err := fuse.Apply(ctx, bound.Graph, o)
	return g, err
}

// fusing says what the backend computes in one kernel: products with epilogues, and, if it is no CPU, nodes of groups. Nil for a backend
// that joins none.
func (c *config) fusing() (fuse.Fuser, func(n *ssa.Node) bool, error) {
	be, err := c.backendOf()
	if fast, ok := be.(*cpu.Backend); ok {
		return fast.Layouts(), nil, err
	}
	if device, ok := be.(interface {
		fuse.Fuser
		Groups(n *ssa.Node) bool
	}); ok {
		return device, device.Groups, err
	}
	return nil, nil, err
}

// computeAhead runs the CPU's kernel for a node whose operands are constants; its weights are packed for this call alone.
func computeAhead(c *ops.Call) error {
	p, err := cpu.New().Prepare(c.Ctx, c.Node, c.Threads)
	if err != nil {
		return err
	}
	if p.Kernel == nil {
		return ops.Eval(c)
	}
	if err := c.Memory.Ask("a workspace", p.Scratch); err != nil {
		return err
	}
	c.Scratch = ndarray.AlignedBytes(int(p.Scratch))
	return p.Kernel.Run(c)
}

// fresh is a graph that is not changed any more, or a copy of it. Nodes and values lie in larger pieces of memory,
// among those that rewriting removed; a program that is kept keeps none of them, nor the constants that they read.
func fresh(ctx context.Context, g *ssa.Graph) (*ssa.Graph, error) {
	if keeps := g.Compact(); !keeps || borrow.IsDescribing(ctx) {
		return g, ctx.Err()
	}
	g, _, err := g.CloneContext(ctx)
	return g, err
}

// order puts the nodes in order. Next values of states that runs overwrite take no memory of the arena, so they are no results then:
// what makes them is not put off for the sake of their memory.
func (m *Model) order(ctx context.Context, g *ssa.Graph, c *config) (*schedule.Result, error) {
	if c.overwrite == nil {
		return schedule.Order(ctx, g, c.schedule)
	}
	states, err := m.statesOf(c)
	if err != nil {
		return nil, err
	}
	all := g.Results
	g.Results = nil
	next := make([]bool, len(all))
	for _, st := range states {
		next[st.Result] = true
	}
	for i, v := range all {
		if !next[i] {
			g.Results = append(g.Results, v)
		}
	}
	_, err = schedule.Order(ctx, g, c.schedule)
	g.Results = all
	return nil, err // its peak is not that of the graph
}

// layOut chooses the layouts of tensors; see package layout. Memory counts more for some: the
// model's own layout has no padding, and no conversions whose two sides are there at once.
func (c *config) layOut(ctx context.Context, g *ssa.Graph, fast *cpu.Backend) error {
	if fast == nil || c.optimizeFor == Memory || c.leavesOut(layout.Pass) {
		return nil
	}
	if _, err := layout.Assign(ctx, g, fast.Layouts(), layout.Force(false)); err != nil || !c.check {
		return err
	}
	return ops.Check(g)
}

// fastBackend is the CPU backend, nil if the program runs by another.
func (c *config) fastBackend() (*cpu.Backend, error) {
	be, err := c.backendOf()
	fast, _ := be.(*cpu.Backend)
	return fast, err
}

// Plan describes the memory plan of a program.
func (p *Program) Plan() PlanInfo {
	if !p.made() {
		return PlanInfo{}
	}
	return planInfo(p.prog)
}

// made is false for a nil or zero program.
func (p *Program) made() bool { return p != nil && p.prog != nil }

// lifetime is nil for a nil or zero program.
func (p *Program) lifetime() *lifetime {
	if !p.made() {
		return nil
	}
	return p.life
}

// CompileTime is how long compiling took.
func (p *Program) CompileTime() time.Duration {
	if !p.made() {
		return 0
	}
	return p.compile
}

// RunValues executes the program on inputs by name. The results are fresh memory, owned by the
// caller. Nothing is kept from run to run: caches and states ([Program.Caches]) must be given, and the results that
// continue them are delivered like others. Cancelling ctx ends the run at the next node or loop iteration.
//
// A run that a device has no room for drops the idle sessions of other programs there, and waits, until ctx ends, while other calls of RunValues are in progress
// there, of [Model.RunValues], too. It waits for no session of [Program.NewSession] and no tensor: where these alone keep the room, the
// error comes within a second or so.
func (p *Program) RunValues(ctx context.Context, inputs map[string]ndarray.Value) (_ map[string]ndarray.Value, err error) {
	defer rescue.Into(&err)
	if !p.made() {
		return nil, errUnmade
	}
	if err := p.checkBegin(inputs); err != nil {
		return nil, err
	}
	if p.room != nil {
		return p.room.runValues(ctx, p, inputs)
	}
	s, err := p.idleSession(ctx)
	if err != nil {
		return nil, err
	}
	defer p.keepIdle(s)
	return s.runValues(ctx, inputs, s.s.RunFresh, false)
}

// idleSession returns a session that waits for a run, or a new one.
func (p *Program) idleSession(ctx context.Context) (*Session, error) {
	if s := p.takeIdle(); s != nil {
		return s, nil
	}
	return p.openSession(ctx)
}

// Session runs a program in one arena of its own. It serves one run at a time, from any
// goroutine; what comes at the same time is refused with [ErrSessionInUse]. Run
// and RunInto allocate nothing for values whose size is known; RunValues makes a map and new headers of its results.
type Session struct {
	p       *Program
	s       *program.Session
	args    []ndarray.Value
	poison  atomic.Bool
	observe atomic.Pointer[func(*program.Instr, []ndarray.Value)]
	use     *use
	into    []*ndarray.Array // what RunInto was given, in the model's order
	issued  issued
}

// ErrSessionInUse is the error of a call on a [Session] that another goroutine, or an
// observer of the same run, is using.
var ErrSessionInUse = program.ErrInUse

// ErrInput marks every error that the inputs of the call cause: names, types and shapes that do not fit the model
// ([InputError], [CacheError]), and nodes that can not compute with these shapes or elements, such as an index out of range ([NodeError]).
// A server answers it with the status 400, other errors with 500.
var ErrInput = ops.ErrInput

// NewSession allocates an arena. Where a device has no room for it, the error comes within a second or so, after what the collector finds
// unused has been given back. [Program.RunValues] also waits for other runs that may give room back. The session keeps its memory, that of a
// device, too, until it is no longer reachable: it has no Close. [Program.NewSessionContext] can be ended: a large arena takes the system a while.
func (p *Program) NewSession() (*Session, error) { return p.openSession(backend.Brief()) }

// NewSessionContext is [Program.NewSession] within a context, which ends it: also the wait, for as long as it takes, for memory of a device
// that is being given back.
func (p *Program) NewSessionContext(ctx context.Context) (_ *Session, err error) {
	defer rescue.Into(&err)
	if ctx == nil {
		return nil, errNilContext
	}
	return p.openSession(ctx)
}

// openSession is NewSession within a context.
func (p *Program) openSession(ctx context.Context) (*Session, error) {
	if ctx == nil { // which the run tells
		ctx = context.Background()
	}
	s, err := p.wrap(ctx, func() (*program.Session, error) { return p.prog.OpenSession(ctx) })
	return s, rescue.WithCause(ctx, err)
}

func (p *Program) wrap(ctx context.Context, makeSession func() (*program.Session, error)) (*Session, error) {
	return using(p.lifetime(), func() (*Session, error) {
		if err := p.collect(ctx); err != nil {
			return nil, err
		}
		s, err := makeSession()
		if err != nil {
			return nil, err
		}
		out := &Session{p: p, s: s, args: make([]ndarray.Value, len(p.prog.Main.Params)), into: make([]*ndarray.Array, len(p.outputs))}
		out.use = p.life.open(out, p.counts)
		return out, nil
	})
}

// collect begins the first session of a program with a collection, which goes on by itself when the context ends: that of a large
// heap takes seconds.
func (p *Program) collect(ctx context.Context) error {
	if err := ctx.Err(); err != nil || !p.collected.CompareAndSwap(false, true) {
		return err
	}
	_, err := rescue.Until(ctx, func() (int, error) { giveBack(); return 0, nil })
	return err
}

// made is false for a nil or zero session.
func (s *Session) made() bool { return s != nil && s.p.made() }

// begin claims the session and the model's files for a call, and counts it as so many runs.
func (s *Session) begin(runs uint64) error {
	if !s.made() {
		return errUnmade
	}
	if !s.use.claim(runs) {
		return ErrSessionInUse
	}
	if err := s.p.life.refusal(); err != nil {
		s.release()
		return err
	}
	if s.p.prog.SharesWork() {
		machine.Begin()
	}
	s.s.Poison, s.s.Observe = s.poison.Load(), nil
	if f := s.observe.Load(); f != nil {
		s.s.Observe = *f
	}
	return nil
}

// end releases what begin claimed.
func (s *Session) end() {
	if s.p.prog.SharesWork() {
		machine.End()
	}
	s.use.hold(s.s.Bytes())
	s.release()
}

// release ends the claim. Of a closed model, the last call in progress releases the files.
func (s *Session) release() {
	s.use.release()
	if s.p.life.closed() {
		_ = s.p.life.releaseUnused() // no caller is left to take the error
	}
}

// alone calls f unless another call is using the session.
func (s *Session) alone(f func() error) error {
	if err := s.begin(0); err != nil {
		return err
	}
	defer s.end()
	_, err := using(s.p.life, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// Arena is memory that sessions of several programs (other shapes, other models) share: it is as large as the largest of
// them needs, not the sum. A run locks it; other runs wait, until their context ends. The results of a run are valid until the
// next run of any session in the arena. What a hook, observer or operator of a run calls in its arena is refused with [ErrSessionInUse].
type Arena = program.Arena

// NewArena returns an empty arena for [Program.NewSessionIn].
func NewArena() *Arena { return program.NewArena() }

// NewSessionIn makes a session that shares an arena with others. Runs in one arena exclude
// each other.
func (p *Program) NewSessionIn(a *Arena) (*Session, error) {
	return p.openSessionIn(backend.Brief(), a)
}

// NewSessionInContext is [Program.NewSessionIn] within a context, which ends it, also while a run holds the arena.
func (p *Program) NewSessionInContext(ctx context.Context, a *Arena) (_ *Session, err error) {
	defer rescue.Into(&err)
	if ctx == nil {
		return nil, errNilContext
	}
	return p.openSessionIn(ctx, a)
}

func (p *Program) openSessionIn(ctx context.Context, a *Arena) (*Session, error) {
	if a == nil {
		return nil, &OptionError{Option: "NewSessionIn", Got: "nil", Want: "an arena, which NewArena makes"}
	}
	s, err := p.wrap(ctx, func() (*program.Session, error) { return p.prog.OpenSessionIn(ctx, a) })
	return s, rescue.WithCause(ctx, err)
}

// Run executes the program on inputs in the model's order, reading them in
// place. The results, in the model's order, lie in memory of the session that no two of them
// share, and are valid until the next run. They may be the inputs of that run: those are copied first. The slice and the
// arrays are the same in each run: what was kept of an earlier one shows the newest.
// An input in memory of the session that is no result of its last run is an [InputError].
// What the session keeps (see [Program.Caches]) is nil among the inputs, and nil among the results.
func (s *Session) Run(ctx context.Context, inputs []ndarray.Value) ([]ndarray.Value, error) {
	if err := s.begin(1); err != nil {
		return nil, err
	}
	defer s.end()
	if ctx == nil {
		return nil, errNilContext
	}
	out, err := s.guarded(ctx, inputs, s.s.Run)
	return out, rescue.WithCause(ctx, err)
}

// guarded runs while the files are watched.
func (s *Session) guarded(ctx context.Context, inputs []ndarray.Value, run runner) (out []ndarray.Value, err error) {
	defer s.p.life.guard(debug.SetPanicOnFault(true), &err)
	if inputs != nil {
		if err := s.notStale(inputs); err != nil {
			return nil, err
		}
	}
	return run(ctx, inputs)
}

// notStale refuses inputs that were results of earlier runs. The results of the last run end with this one.
func (s *Session) notStale(inputs []ndarray.Value) error {
	if len(s.issued.of) > 0 {
		if err := s.issued.check(s.p.prog.Graph.Params, inputs); err != nil {
			return err
		}
	}
	s.issued.run++
	return nil
}

// runner is [program.Session.Run] or [program.Session.RunFresh].
type runner = func(ctx context.Context, inputs []ndarray.Value) ([]ndarray.Value, error)

// RunValues is Run by name; inputs with defaults may be left out, and those that
// the session keeps (see [Program.Caches]). The arrays of the results are new in each run, their
// elements are those of Run: an array of an earlier run, given as an input, is an [InputError].
func (s *Session) RunValues(ctx context.Context, inputs map[string]ndarray.Value) (map[string]ndarray.Value, error) {
	if !s.made() {
		return nil, errUnmade
	}
	return s.runValues(ctx, inputs, s.s.Run, true)
}

// runValues runs by name. Results that lie in the session get new headers.
func (s *Session) runValues(ctx context.Context, inputs map[string]ndarray.Value, run runner, inSession bool) (map[string]ndarray.Value, error) {
	if err := s.begin(1); err != nil {
		return nil, err
	}
	defer s.end()
	if ctx == nil {
		return nil, errNilContext
	}
	defer clear(s.args)
	out, err := s.guarded(ctx, nil, func(ctx context.Context, _ []ndarray.Value) ([]ndarray.Value, error) {
		if err := s.p.arguments(s.args, inputs); err != nil {
			return nil, err
		}
		if err := s.notStale(s.args); err != nil {
			return nil, err
		}
		return run(ctx, s.args)
	})
	if err != nil {
		return nil, rescue.WithCause(ctx, err)
	}
	res := make(map[string]ndarray.Value, len(out))
	for i, name := range s.p.outputs {
		if !s.s.Keeps(i) {
			res[name] = out[i]
		}
	}
	if inSession {
		s.issued.renew(res)
	}
	return res, nil
}

// Arguments lists inputs in the model's order, as [Session.Run] takes them, with copies of defaults for those left out.
func (p *Program) Arguments(inputs map[string]ndarray.Value) ([]ndarray.Value, error) {
	return using(p.lifetime(), func() ([]ndarray.Value, error) {
		args := make([]ndarray.Value, len(p.prog.Main.Params))
		err := p.arguments(args, inputs)
		for i, prm := range p.prog.Graph.Params {
			if _, given := inputs[prm.Name]; !given && args[i] != nil {
				args[i] = ndarray.CloneValue(args[i])
			}
		}
		return args, err
	})
}

func (p *Program) arguments(args []ndarray.Value, inputs map[string]ndarray.Value) error {
	params := p.prog.Graph.Params
	known := 0
	for i, prm := range params {
		v, ok := inputs[prm.Name]
		if ok {
			known++
		} else if p.isState(i) {
			v = nil
		} else if d := p.defaults[prm.Name]; d != nil {
			a, err := d.Array()
			if err != nil {
				return err
			}
			v = a
		} else if prm.Type.Kind != ssa.KindOptional && !p.isCache(i) {
			return missing(prm, params, inputs)
		}
		args[i] = v
	}
	if known != len(inputs) {
		return checkNames(params, inputs)
	}
	return nil
}
