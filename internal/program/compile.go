package program

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/alias"
	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/internal/slab"
	"github.com/berth-onnx/berth/internal/sysmem"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
)

// Options chooses how a graph is compiled.
type Options struct {
	Backend backend.Backend // nil: reference kernels
	Planner planner.Planner // nil: the default
	Threads int             // 0: 1
	InPlace inplace.Options
	// CopyViews gives views memory of their own, for comparisons.
	CopyViews bool
	// Bounds are the most that symbolic dimensions can be; runs refuse inputs that are longer. Inputs that grow along one
	// of them from run to run become caches that sessions keep; see Cache.
	Bounds map[string]int64
	// States are inputs that sessions keep and the results that continue them; see State.
	States []State
	// Memory is asked for what compiling and runs allocate.
	Memory ndarray.Budget
	// Hook, if set, is told of every node of a run.
	Hook *Hook
	// Outputs are the names of the results, for errors; nil: as in the graph.
	Outputs []string
	// NoCheck skips the symbolic check of the finished program.
	NoCheck bool
	// ParallelSafe plans for every schedule of the graph, also for those that run
	// independent nodes at the same time. The plan holds for the order the nodes
	// are listed in too, in more memory than that order needs.
	ParallelSafe bool

	placed bool // results are written into memory of the caller's

	// OwnGraph says that only the program uses the graph: constants that kernels have
	// packed are released in it.
	OwnGraph bool

	// Constants, if set, makes constants of programs that own their graphs one with those of
	// other programs.
	Constants *Constants

	// Saved are plans written by [Program.SavePlan]; one made for the same problem
	// is used instead of planning, after the same two verifiers.
	Saved []string

	noValidate bool // for tests of the second verifier: skips the first
}

// Compile turns a graph with inferred types into a program.
func Compile(ctx context.Context, g *ssa.Graph, o Options) (*Program, error) {
	ctx = o.Memory.In(ctx)
	c := newCompiler(ctx, g, o)
	if err := c.makeKernels(ctx, g); err != nil {
		return nil, err
	}
	p, err := c.plan(ctx, g)
	if err == nil {
		err = o.Memory.CheckContext(ctx, "the memory plan")
	}
	if err != nil {
		return nil, err
	}
	c.p = p
	if err := c.instructions(ctx, g); err != nil {
		return nil, err
	}
	if !o.NoCheck {
		check := Check
		if o.ParallelSafe {
			check = CheckParallel
		}
		if err := check(ctx, p); err != nil {
			return nil, err
		}
		p.Report.ParallelSafe = o.ParallelSafe
	}
	if p.remote != nil {
		if err := p.remote.Load(ctx, p.ArenaBytes, p.Report.ScratchBytes); err != nil {
			return nil, err
		}
	}
	told(ctx, p)
	return p, nil
}

func newCompiler(ctx context.Context, g *ssa.Graph, o Options) *compiler {
	c := &compiler{ctx: ctx, opts: o, prepared: slab.NewTable[*ssa.Node, *prepared](g.NumNodeIDs()), slot: slab.NewTable[*ssa.Value, int](g.NumValues()), over: map[*ssa.Value]int{}}
	if o.Backend == nil {
		c.opts.Backend = backend.Reference{}
	}
	c.remote, _ = c.opts.Backend.(backend.Remote)
	c.opts.Threads = max(o.Threads, 1)
	c.opts.InPlace.NoSmaller = c.opts.InPlace.NoSmaller || c.remote != nil // its threads have no order
	return c
}

// makeKernels asks the backend for the kernels of nodes, and finds the states that a run overwrites.
func (c *compiler) makeKernels(ctx context.Context, g *ssa.Graph) error {
	if err := checkEndless(g); err != nil {
		return err
	}
	if c.opts.OwnGraph && c.opts.Constants != nil {
		c.opts.Constants.share(ctx, g, c.opts.Memory)
	}
	c.kernels = newKernels(c.opts)
	if err := c.prepareAll(ctx, g); err != nil {
		return err
	}
	if c.remote != nil {
		return c.remote.Ready(ctx)
	}
	c.overwrites(g)
	return nil
}

// instructions writes the program whose memory has been planned: slots, instructions, and what sessions keep between runs.
func (c *compiler) instructions(ctx context.Context, g *ssa.Graph) (err error) {
	p := c.p
	p.Slots = make([]Slot, 0, g.NumValues())
	p.threads, p.memory = c.opts.Threads, c.opts.Memory
	p.hook, p.bounds, p.outputs, p.remote = c.opts.Hook, c.opts.Bounds, c.opts.Outputs, c.remote
	if p.Main, err = c.block(g, nil); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.markCaches()
	if err := cmp.Or(c.markStates(), ctx.Err()); err != nil {
		return err
	}
	c.markOverwrites()
	p.findBorrowed(ctx)
	p.Main.each(ctx, func(in *Instr) {
		o := ops.Of(in.Node)
		p.callsBack = p.callsBack || o != nil && (o.Foreign() || o.Domain == ops.Private && o.Name == "Call")
	})
	p.keeps = len(p.caches)+len(p.recurrent) > 0
	c.countReport()
	return ctx.Err()
}

// checkEndless refuses loops that surely run and never end. Those in bodies may never be
// entered: they are refused when they are.
func checkEndless(g *ssa.Graph) error {
	for _, n := range g.Nodes {
		if ops.ControlOf(n) != ops.Iterates {
			continue
		}
		s, err := ops.LoopOf(n)
		if err != nil {
			return ops.AtNode("compile", n, err)
		}
		if endless, certain := s.Endless(n); endless && certain {
			return ops.AtNode("compile", n, ops.EndlessError{})
		}
	}
	return nil
}

type compiler struct {
	ctx      context.Context
	opts     Options
	remote   backend.Remote // the backend, if it runs programs itself; else nil
	kernels  *kernels
	prepared slab.Table[*ssa.Node, *prepared]
	slot     slab.Table[*ssa.Value, int]
	offsets  []int64 // by timeline variable
	inside   []bool  // by timeline variable: lies inside a larger block, away from its start
	scratch  slab.Table[*ssa.Node, int64]
	classOf  []int              // by timeline variable: the class it is folded into; nil for plans for every order
	inClass  []int64            // by timeline variable: where in the class
	over     map[*ssa.Value]int // states that a run overwrites, by their next values
	p        *Program

	ids   slab.Of[int] // what lists of slots are cut from
	bytes slab.Of[int64]
	dims  slab.Of[int]
}

// Workspaces are the bytes of workspace that kernels of the backend need for nodes of
// the graph and of its bodies, as far as it has kernels for them. Weights that kernels pack are released at once.
func Workspaces(ctx context.Context, g *ssa.Graph, b backend.Backend, threads int, memory ndarray.Budget) (of map[*ssa.Node]int64, err error) {
	of = map[*ssa.Node]int64{}
	g.Walk(func(g *ssa.Graph) {
		for _, n := range g.Nodes {
			if err != nil || !hasKernel(n, memory) {
				continue
			}
			p, refused := prepare(ctx, b, n, max(threads, 1))
			if err = ended(ctx, refused); refused == nil && p.Scratch > 0 {
				of[n] = p.Scratch
			}
		}
	})
	return of, err
}

// ForPlan is a program without kernels, for [Check] and [CheckParallel] of a plan. Offsets are by
// the timeline's variables, workspaces included, at any alignment; the arena's size is in bytes.
func ForPlan(ctx context.Context, t *liveness.Timeline, offsets []int64, arena int64) (*Program, error) {
	o := Options{Backend: backend.Reference{}, Threads: 1}
	c := &compiler{ctx: ctx, opts: o, kernels: newKernels(o), slot: slab.NewTable[*ssa.Value, int](t.Graph.NumValues()),
		prepared: slab.NewTable[*ssa.Node, *prepared](0), scratch: slab.NewTable[*ssa.Node, int64](0), offsets: offsets, inside: make([]bool, len(offsets)), p: &Program{Graph: t.Graph, Slots: make([]Slot, 0, t.Graph.NumValues()), stickyDigit: map[int]int{}, ArenaBytes: arena, Timeline: t}}
	for _, s := range t.Steps {
		if s.Scratch != liveness.None {
			c.prepared.Put(s.Node.ID, s.Node, &prepared{Prepared: backend.Prepared{Scratch: t.Vars[s.Scratch].Bytes}})
			c.scratch.Put(s.Node.ID, s.Node, offsets[s.Scratch])
		}
	}
	err := ndarray.BudgetOf(ctx).CheckContext(ctx, "the verified plan")
	if err != nil {
		return nil, err
	}
	if c.p.Main, err = c.block(t.Graph, nil); err != nil {
		return nil, err
	}
	for i := range c.p.Slots {
		c.p.Slots[i].Align = 1
	}
	return c.p, nil
}

// block makes the instructions of a graph. levels are the loop levels around it.
func (c *compiler) block(g *ssa.Graph, levels []int) (*Block, error) {
	b := &Block{Graph: g, Instrs: make([]Instr, len(g.Nodes))}
	b.Params = c.ids.Make(len(g.Params))
	for i, p := range g.Params {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		b.Params[i] = c.param(p, g, levels)
	}
	for i, n := range g.Nodes {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		in := &b.Instrs[i]
		*in = Instr{Node: n, call: -1, In: c.slotsOf(n.In, levels), Out: c.slotsOf(n.Out, levels)}
		if err := c.instr(in, levels); err != nil {
			return nil, err
		}
	}
	b.Results = c.slotsOf(g.Results, levels)
	c.setFree(b)
	return b, c.ctx.Err()
}

func (c *compiler) instr(in *Instr, levels []int) error {
	n := in.Node
	dynamic := func(s int) bool { return s >= 0 && c.p.Slots[s].Kind != SlotConst && !c.p.Slots[s].Static }
	in.Dynamic = slices.ContainsFunc(in.In, dynamic) || slices.ContainsFunc(in.Out, dynamic)
	switch {
	case ops.IsLoop(n):
		return c.iterate(in, levels)
	case ops.IsControl(n):
		return c.branch(in, levels)
	}
	if c.view(in) {
		return nil
	}
	in.call, in.Threads = c.p.calls, c.p.threads
	c.p.calls++
	if in.Join = joins(n); in.Join != nil && !in.Dynamic {
		in.Kernel = &joinKernel{in.Join}
		return nil
	}
	in.Join = nil
	if p, _ := c.prepared.Get(n.ID, n); p != nil {
		in.Kernel, in.Work, in.Threads = p.Kernel, p.Scratch, p.threadsOf(in.Threads)
		if p.Scratch > 0 {
			in.Scratch, _ = c.scratch.Get(n.ID, n)
		}
		for _, i := range p.Absorbed {
			in.In[i] = -1
		}
	}
	switch {
	case in.Kernel != nil:
	case len(n.Bodies) > 0 && !n.Opaque:
		in.Kernel = ops.KernelFunc(unloweredBody)
	case in.Dynamic:
		c.dynamic(in)
	default:
		c.p.Report.ReferenceKernel++
		in.Kernel = ops.KernelFunc(ops.Eval)
	}
	return nil
}

// dynamic gives an instruction of unknown shapes its kernel, which reads large constants
// itself where it has not packed them.
func (c *compiler) dynamic(in *Instr) {
	in.Kernel = newDynamicKernel(c.ctx, in.Node, c.kernels)
	if _, ok := in.Kernel.(*dynamicKernel); !ok || len(ops.Aliases(in.Node)) > 0 {
		return
	}
	for i, v := range in.Node.In {
		if v != nil && v.Const != nil && v.Const.Len()*v.Const.DType().Size() > largeConstant {
			in.In[i] = -1
		}
	}
}

// largeConstant is the size in bytes from which on constants of instructions of unknown
// shapes are not unpacked beforehand.
const largeConstant = 64 << 10

// unloweredBody is the kernel of operators with a body that rewriting could not turn
// into control flow: the body was not planned, so it can not run.
func unloweredBody(c *ops.Call) error {
	return fmt.Errorf("the operator has a body whose types are not known: bind input shapes, or declare the types of its operands: %w", ops.ErrUnsupported)
}

// view makes the instruction one that only sets pointers, if all its results
// are windows of one operand.
func (c *compiler) view(in *Instr) bool {
	if !slices.ContainsFunc(in.Out, func(s int) bool { return s >= 0 && c.p.Slots[s].Kind == SlotPointer }) {
		return false
	}
	var offsets []int64
	var moving *ops.Moving
	operand := -1
	var views alias.Views
	for i, v := range in.Node.Out {
		offsets = append(offsets, 0)
		if v == nil {
			continue
		}
		w, ok := views.WindowOf(v)
		if !ok || c.p.Slots[in.Out[i]].Kind != SlotPointer || operand >= 0 && operand != w.Operand {
			return false
		}
		operand, offsets[i], moving = w.Operand, w.Offset, w.Moving
	}
	if operand < 0 {
		return false
	}
	of := in.In[operand : operand+1 : operand+1]
	if moving != nil {
		of = append(of, in.In[moving.Operand])
	}
	in.Kind, in.Windows, in.Moving, in.In = View, offsets, moving, of
	return true
}

// countReport fills in the figures of the finished program, or some of them once the context has ended.
func (c *compiler) countReport() {
	for i := range c.p.Slots {
		if i%lookEvery == lookEvery-1 && c.ctx.Err() != nil {
			return
		}
		if c.p.Slots[i].Kind == SlotDynamic {
			c.p.Report.Dynamic++
		}
	}
	c.readConstants()
	c.p.Main.each(c.ctx, func(in *Instr) { c.p.sharesWork = c.p.sharesWork || in.call >= 0 && in.Threads > 1 })
	c.countKernels()
	c.p.Report.CopiesPerTrip = c.p.Timeline.CopiesPerTrip()
}

// readConstants gives the slots that runs read their constants, small ones in ordinary memory, and notes those in mapped files.
func (c *compiler) readConstants() {
	var slots []*Slot
	var constants []*ssa.Constant
	for i, is := range c.p.readConstants(c.ctx) {
		if i%lookEvery == lookEvery-1 && c.ctx.Err() != nil {
			return
		}
		s := &c.p.Slots[i]
		if s.Kind != SlotConst {
			continue
		}
		s.Const = s.Value.Const
		if is {
			slots, constants = append(slots, s), append(constants, s.Const)
		}
	}
	if c.opts.Constants != nil {
		c.opts.Constants.inMemory(c.ctx, constants)
	}
	for i, s := range slots {
		if s.Const = constants[i]; s.Const != nil && sysmem.IsMapped(s.Const.Packed()) {
			c.p.mapped = append(c.p.mapped, s.Const.Packed())
		}
	}
}

// countKernels counts the kernels of nodes with known shapes and what they hold.
func (c *compiler) countKernels() {
	r := &c.p.Report
	kinds, packs := map[*prepared]bool{}, map[any]bool{}
	c.p.kernels, c.p.packs = c.kernels, packs
	r.Packed = map[string]int64{}
	c.prepared.All(func(p *prepared) {
		if c.ctx.Err() != nil {
			return
		}
		r.ScratchBytes = max(r.ScratchBytes, p.Scratch)
		if p.Kernel == nil {
			return
		}
		r.KernelNodes++
		if kinds[p] {
			return
		}
		kinds[p] = true
		r.Kernels++
		r.PackedBytes += p.Held
		for _, k := range p.Packs {
			if !packs[k.ID] {
				packs[k.ID] = true
				r.Packed[k.Layout] += k.Bytes
				r.PackedBytes += k.Bytes
			}
		}
	})
	c.kernels.forget()
}

// each calls f for every instruction, bodies included, until the context ends.
func (b *Block) each(ctx context.Context, f func(*Instr)) {
	met := 0
	b.visit(func(in *Instr) bool {
		if met++; met%lookEvery == 0 && ctx.Err() != nil {
			return false
		}
		f(in)
		return true
	})
}

// visit calls f for every instruction, bodies included, until it returns false.
func (b *Block) visit(f func(*Instr) bool) bool {
	for i := range b.Instrs {
		if !f(&b.Instrs[i]) {
			return false
		}
		for _, body := range b.Instrs[i].Bodies {
			if !body.visit(f) {
				return false
			}
		}
	}
	return true
}
