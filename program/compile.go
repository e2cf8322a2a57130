package program

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/inplace"
	"github.com/berth-onnx/berth/liveness"
	"github.com/berth-onnx/berth/loops"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/planner"
	"github.com/berth-onnx/berth/ssa"
)

// ArenaAlign is the alignment of every block in the arena: a cache line, and
// the widest vector register.
const ArenaAlign = 64

// Options chooses how a graph is compiled.
type Options struct {
	Backend backend.Backend // nil: reference kernels
	Planner planner.Planner // nil: the default
	Threads int             // 0: 1
	InPlace inplace.Options
	// CopyViews gives views memory of their own, for comparisons.
	CopyViews bool
	// MaxMemory is how many bytes a run may use, as [ops.Room] takes it; 0 is the
	// default limit.
	MaxMemory int64
	// NoCheck skips the symbolic check of the finished program.
	NoCheck bool
	// ParallelSafe plans for every schedule of the graph, also for those that run
	// independent nodes at the same time. The plan holds for the order the nodes
	// stand in too, in more memory than that order needs.
	ParallelSafe bool

	// Saved are plans written by [Program.SavePlan]; one made for the same problem
	// is used instead of planning, after the same two judges.
	Saved []string

	noValidate bool // tests of the second judge get past the first
}

// Compile turns a graph with inferred types into a program.
func Compile(ctx context.Context, g *ssa.Graph, o Options) (*Program, error) {
	c := &compiler{opts: o, prepared: map[*ssa.Node]backend.Prepared{}, slot: map[*ssa.Value]int{}}
	if o.Backend == nil {
		c.opts.Backend = backend.Reference{}
	}
	c.opts.Threads = max(o.Threads, 1)
	if err := c.prepareAll(g); err != nil {
		return nil, err
	}
	p, err := c.plan(ctx, g)
	if err != nil {
		return nil, err
	}
	c.p = p
	p.threads, p.maxMemory = c.opts.Threads, c.opts.MaxMemory
	if p.Main, err = c.block(g, nil); err != nil {
		return nil, err
	}
	c.countReport()
	if !o.NoCheck {
		check := Check
		if o.ParallelSafe {
			check = CheckParallel
		}
		if err := check(p); err != nil {
			return nil, err
		}
		p.Report.ParallelSafe = o.ParallelSafe
	}
	return p, nil
}

type compiler struct {
	opts     Options
	prepared map[*ssa.Node]backend.Prepared
	slot     map[*ssa.Value]int
	offsets  []int64 // by timeline variable
	inside   []bool  // by timeline variable: lies inside a larger block, away from its start
	scratch  map[*ssa.Node]int64
	p        *Program
	levels   int
}

// prepareAll asks the backend for a kernel for every node with static types.
func (c *compiler) prepareAll(g *ssa.Graph) error {
	for _, n := range g.Nodes {
		for _, b := range n.Bodies {
			if err := c.prepareAll(b); err != nil {
				return err
			}
		}
		if isControl(n) || !staticNode(n) || joins(n) != nil || !fits(n, c.opts.MaxMemory) {
			continue
		}
		// A node the backend refuses may sit in a branch that never runs: the
		// reference kernel reports it if it does.
		if p, err := c.opts.Backend.Prepare(n, c.opts.Threads); err == nil {
			c.prepared[n] = p
		}
	}
	return nil
}

func isControl(n *ssa.Node) bool {
	return n.Domain == "" && !n.Opaque && (n.Op == "If" || n.Op == "Loop" || n.Op == "Scan")
}

// staticNode reports whether all operands and results are tensors of known shape.
func staticNode(n *ssa.Node) bool {
	for _, vs := range [2][]*ssa.Value{n.In, n.Out} {
		for _, v := range vs {
			if v == nil {
				continue
			}
			if _, ok := v.Type.ByteSize(); !ok {
				return false
			}
		}
	}
	return true
}

// plan lays the graph out, folds and places its blocks.
func (c *compiler) plan(ctx context.Context, g *ssa.Graph) (*Program, error) {
	start := time.Now()
	o := liveness.Options{Scratch: func(n *ssa.Node) int64 { return c.prepared[n].Scratch }, CopyViews: c.opts.CopyViews}
	lay := c.layInOrder
	if c.opts.ParallelSafe {
		lay = c.layParallel
	}
	l, err := lay(g, o)
	if err != nil {
		return nil, err
	}
	sol, err := c.solve(ctx, l.problem)
	if err != nil {
		return nil, err
	}
	if err := c.settle(l, sol); err != nil {
		return nil, err
	}
	p := &Program{Graph: g, stickyDigit: map[int]int{}, ArenaBytes: sol.ArenaBytes, Timeline: l.timeline, Problem: l.problem, Solution: sol}
	r := &p.Report
	r.Planner, r.ArenaBytes, r.LowerBound, r.Proven = sol.Planner, sol.ArenaBytes, sol.LowerBound, sol.Proven()
	r.Folds, r.Merges, r.Blocks, r.PlanNanos = l.folds, l.merges, len(l.problem.Buffers), time.Since(start).Nanoseconds()
	for _, b := range l.problem.Buffers {
		r.NaiveBytes += b.Size
	}
	return p, nil
}

// JudgeParallel is [CheckParallel] for a plan that was not compiled, without
// workspaces. Offsets are by the timeline's variables, at any alignment; the arena's
// size is in bytes.
func JudgeParallel(t *liveness.Timeline, offsets []int64, arena int64) error {
	c := &compiler{opts: Options{Backend: backend.Reference{}, Threads: 1}, prepared: map[*ssa.Node]backend.Prepared{}, slot: map[*ssa.Value]int{},
		offsets: offsets, inside: make([]bool, len(offsets)), p: &Program{Graph: t.Graph, stickyDigit: map[int]int{}, ArenaBytes: arena, Timeline: t}}
	var err error
	if c.p.Main, err = c.block(t.Graph, nil); err != nil {
		return err
	}
	for i := range c.p.Slots {
		c.p.Slots[i].Align = 1
	}
	return CheckParallel(c.p)
}

// layout is a graph laid out in time, the placing of its blocks as a problem, and
// how a solution of that becomes offsets of the timeline's variables.
type layout struct {
	timeline      *liveness.Timeline
	problem       *planner.Problem
	offsetsOf     func(*planner.Solution) (offsets []int64, inside []bool, err error)
	folds, merges int
}

func (c *compiler) layInOrder(g *ssa.Graph, o liveness.Options) (*layout, error) {
	t, f, err := inplace.Lay(g, o, c.opts.InPlace)
	if err != nil {
		return nil, err
	}
	prob, ids := f.Problem(t, g.Name, ArenaAlign)
	offsets := func(s *planner.Solution) ([]int64, []bool, error) {
		at, inside := f.OffsetsIn(t, ids, s)
		return at, inside, nil
	}
	return &layout{t, prob, offsets, f.Folds, f.Merges}, nil
}

func (c *compiler) layParallel(g *ssa.Graph, o liveness.Options) (*layout, error) {
	f, err := inplace.LayParallel(g, o, c.opts.InPlace)
	if err != nil {
		return nil, err
	}
	prob, err := f.Problem(g.Name, ArenaAlign)
	if err != nil {
		return nil, err
	}
	o.AnyOrder, o.Windows = true, f.Windows
	t, err := liveness.Build(g, o)
	if err != nil {
		return nil, err
	}
	offsets := func(s *planner.Solution) ([]int64, []bool, error) { return f.OffsetsIn(t, s) }
	return &layout{t, prob, offsets, f.Folds, f.Merges}, nil
}

// solve plans, or takes a saved plan of the same problem; the plan is judged.
func (c *compiler) solve(ctx context.Context, prob *planner.Problem) (*planner.Solution, error) {
	pl := c.opts.Planner
	if pl == nil {
		names := planner.Names()
		var err error
		if pl, err = planner.Get(names[len(names)-1]); err != nil {
			return nil, err
		}
	}
	sol := savedPlan(c.opts.Saved, prob)
	if sol == nil || planner.Validate(prob, sol) != nil {
		var err error
		if sol, err = pl.Plan(ctx, prob); err != nil {
			return nil, fmt.Errorf("planner %s: %w", pl.Name(), err)
		}
	}
	if err := planner.Validate(prob, sol); err != nil && !c.opts.noValidate {
		return nil, fmt.Errorf("planner %s made an invalid plan: %w", pl.Name(), err)
	}
	return sol, nil
}

// settle gives the timeline's variables and the nodes' workspaces their offsets.
func (c *compiler) settle(l *layout, sol *planner.Solution) (err error) {
	if c.offsets, c.inside, err = l.offsetsOf(sol); err != nil {
		return err
	}
	c.scratch = map[*ssa.Node]int64{}
	for _, s := range l.timeline.Steps {
		if s.Scratch != liveness.None {
			c.scratch[s.Node] = c.offsets[s.Scratch]
		}
	}
	return nil
}

// block makes the instructions of a graph. levels are the loop levels around it.
func (c *compiler) block(g *ssa.Graph, levels []int) (*Block, error) {
	b := &Block{Graph: g}
	for _, p := range g.Params {
		b.Params = append(b.Params, c.param(p, levels))
	}
	for _, n := range g.Nodes {
		in := Instr{Node: n, call: -1}
		for _, v := range n.In {
			in.In = append(in.In, c.slotOf(v, levels))
		}
		for _, v := range n.Out {
			in.Out = append(in.Out, c.slotOf(v, levels))
		}
		if err := c.instr(&in, levels); err != nil {
			return nil, err
		}
		b.Instrs = append(b.Instrs, in)
	}
	for _, r := range g.Results {
		b.Results = append(b.Results, c.slotOf(r, levels))
	}
	c.setFree(b)
	return b, nil
}

// param makes the slot of a graph parameter unless it has one (captures share
// their outer value's slot).
func (c *compiler) param(v *ssa.Value, levels []int) int {
	if s, ok := c.slot[v]; ok {
		return s
	}
	if len(levels) == 0 && c.p.Graph.Params != nil && v.IsParam() && c.isMainParam(v) {
		return c.addSlot(v, SlotInput, levels)
	}
	return c.slotOf(v, levels)
}

func (c *compiler) isMainParam(v *ssa.Value) bool {
	for _, p := range c.p.Graph.Params {
		if p == v {
			return true
		}
	}
	return false
}

// slotOf returns the slot of a value, making it on first use.
func (c *compiler) slotOf(v *ssa.Value, levels []int) int {
	if v == nil {
		return -1
	}
	if s, ok := c.slot[v]; ok {
		return s
	}
	kind := SlotDynamic
	_, static := v.Type.ByteSize()
	switch pl := c.p.Timeline.PlacesOf(v); {
	case v.Const != nil:
		kind = SlotConst
	case !static:
	case pl != nil && c.p.Timeline.Vars[pl.Vars[0]].Kind == liveness.Block:
		kind = SlotArena
	default:
		kind = SlotPointer
	}
	return c.addSlot(v, kind, levels)
}

func (c *compiler) addSlot(v *ssa.Value, kind SlotKind, levels []int) int {
	s := Slot{Value: v, Kind: kind, Const: v.Const}
	if n, ok := v.Type.ByteSize(); ok {
		s.Static, s.DType, s.Bytes = true, v.Type.DType, n
		s.Shape, _ = v.Type.Static()
	}
	if kind == SlotArena {
		pl := c.p.Timeline.PlacesOf(v)
		s.Align = ArenaAlign
		for _, id := range pl.Vars {
			s.Offsets = append(s.Offsets, c.offsets[id])
			if c.inside[id] {
				s.Align = max(v.Type.DType.Size(), 1)
			}
		}
		s.Levels, s.Radix = levels[:len(pl.Radix)], pl.Radix
		collapse(&s)
	}
	c.p.Slots = append(c.p.Slots, s)
	c.slot[v] = len(c.p.Slots) - 1
	return c.slot[v]
}

// collapse turns a table whose entries are all equal into a plain place.
func collapse(s *Slot) {
	for _, o := range s.Offsets {
		if o != s.Offsets[0] {
			return
		}
	}
	s.Offsets, s.Levels, s.Radix = s.Offsets[:1], nil, nil
}

func (c *compiler) instr(in *Instr, levels []int) error {
	n := in.Node
	for _, s := range append(append([]int(nil), in.In...), in.Out...) {
		in.Dynamic = in.Dynamic || s >= 0 && c.p.Slots[s].Kind != SlotConst && !c.p.Slots[s].Static
	}
	switch {
	case isControl(n) && n.Op == "If":
		return c.branch(in, levels)
	case isControl(n):
		return c.iterate(in, levels)
	}
	if c.view(in) {
		return nil
	}
	in.call = c.p.calls
	c.p.calls++
	if in.Join = joins(n); in.Join != nil && !in.Dynamic {
		in.Kernel = &joinKernel{in.Join}
		return nil
	}
	in.Join = nil
	p := c.prepared[n]
	in.Kernel, in.Work = p.Kernel, p.Scratch
	if p.Scratch > 0 {
		in.Scratch = c.scratch[n]
	}
	c.p.Report.ScratchBytes = max(c.p.Report.ScratchBytes, p.Scratch)
	c.p.Report.PackedBytes += p.Packed
	for _, i := range p.Absorbed {
		in.In[i] = -1
	}
	switch {
	case in.Kernel != nil:
	case len(n.Bodies) > 0 && !n.Opaque:
		in.Kernel = ops.KernelFunc(bodyLeft)
	case in.Dynamic:
		in.Kernel = newDynamicKernel(n, c.opts.Backend, c.opts.Threads, c.opts.MaxMemory)
	default:
		c.p.Report.ReferenceKernel++
		in.Kernel = ops.KernelFunc(ops.Eval)
	}
	return nil
}

// bodyLeft serves operators with a body that rewriting could not turn into control
// flow: there is no planned way to run the body.
func bodyLeft(c *ops.Call) error {
	return fmt.Errorf("the operator has a body whose types are not known: bind input shapes, or declare the types of its operands: %w", ops.ErrUnsupported)
}

// view makes the instruction one that only sets pointers, if all its results
// are windows of one operand.
func (c *compiler) view(in *Instr) bool {
	var offsets []int64
	operand := -1
	for i, v := range in.Node.Out {
		offsets = append(offsets, 0)
		if v == nil {
			continue
		}
		w, ok := loops.WindowOf(v)
		if !ok || c.p.Slots[in.Out[i]].Kind != SlotPointer || operand >= 0 && operand != w.Operand {
			return false
		}
		operand, offsets[i] = w.Operand, w.Offset
	}
	if operand < 0 {
		return false
	}
	in.Kind, in.Windows, in.In = View, offsets, in.In[operand:operand+1]
	return true
}

func (c *compiler) branch(in *Instr, levels []int) error {
	in.Kind = Branch
	for _, body := range in.Node.Bodies {
		off := len(in.Node.In) - len(body.Params)
		for i, p := range body.Params {
			c.slot[p] = in.In[off+i]
		}
		b, err := c.block(body, levels)
		if err != nil {
			return err
		}
		in.Bodies = append(in.Bodies, b)
	}
	return nil
}

func (c *compiler) iterate(in *Instr, levels []int) error {
	in.Kind = Iterate
	rot := c.p.Timeline.Rotation(in.Node)
	if rot == nil {
		return ops.AtNode("compile", in.Node, fmt.Errorf("the loop was not laid out"))
	}
	l := &Loop{Rotation: rot, Level: c.p.Levels, Iter: -1, Trip: -1, state: c.p.states}
	c.p.Levels++
	c.p.states++
	in.Loop = l
	inner := append(append([]int(nil), levels...), l.Level)
	off := len(in.Node.In) - in.Node.Captures
	np := len(rot.Body.Params) - in.Node.Captures
	for i, p := range rot.Body.Params[np:] {
		c.slot[p] = in.In[off+i]
	}
	first := len(c.p.Slots)
	b, err := c.block(rot.Body, inner)
	if err != nil {
		return err
	}
	in.Bodies = []*Block{b}
	for s := first; s < len(c.p.Slots); s++ {
		for _, lv := range c.p.Slots[s].Levels {
			if lv == l.Level {
				l.Rotate = append(l.Rotate, s)
			}
		}
	}
	c.wireLoop(l, rot, in, inner)
	findGrowth(l, b)
	return nil
}

// wireLoop translates the rotation's values into slots.
func (c *compiler) wireLoop(l *Loop, rot *loops.Rotation, in *Instr, inner []int) {
	if rot.Iter != nil {
		l.Iter = c.slot[rot.Iter]
	}
	if rot.Trip != nil {
		l.Trip = c.slotOf(rot.Trip, inner[:len(inner)-1])
	}
	slot := func(v *ssa.Value) int {
		if v == nil {
			return -1
		}
		return c.slotOf(v, inner)
	}
	for _, cr := range rot.Carries {
		l.Carries = append(l.Carries, Carry{slot(cr.Param), slot(cr.Init), slot(cr.Result), slot(cr.Out)})
	}
	c.findSticky(l, rot)
	for _, s := range rot.ScanIns {
		l.ScanIns = append(l.ScanIns, slot(s.Param))
	}
	for _, s := range rot.ScanOuts {
		l.ScanOuts = append(l.ScanOuts, ScanOut{slot(s.Result), slot(s.Out), slot(s.Made)})
	}
}

// findSticky lists the rotating slots that hold values an iteration may pass on
// unchanged.
func (c *compiler) findSticky(l *Loop, rot *loops.Rotation) {
	t := c.p.Timeline
	for _, cr := range rot.Carries {
		pl := t.PlacesOf(cr.Result)
		if !rot.Sticky(cr) || pl == nil {
			continue
		}
		for _, v := range pl.Vars {
			for _, root := range t.Roots(v) {
				s, ok := c.slot[t.Vars[root].Value]
				if ok && slices.Contains(l.Rotate, s) && !slices.Contains(l.Sticky, s) {
					l.Sticky = append(l.Sticky, s)
					c.p.stickyDigit[s] = slices.Index(c.p.Slots[s].Levels, l.Level)
				}
			}
		}
	}
}

// setFree notes after which instruction each dynamic slot of a block is dead.
func (c *compiler) setFree(b *Block) {
	later := map[int]bool{}
	for _, r := range b.Results {
		later[r] = true
	}
	own := map[int]bool{}
	for i := range b.Instrs {
		for _, s := range b.Instrs[i].Out {
			own[s] = s >= 0 && c.p.Slots[s].Kind == SlotDynamic
		}
	}
	for i := len(b.Instrs) - 1; i >= 0; i-- {
		in := &b.Instrs[i]
		for _, s := range append(append([]int(nil), in.In...), in.Out...) {
			if s >= 0 && own[s] && !later[s] {
				in.Free = append(in.Free, s)
				later[s] = true
			}
		}
	}
}

// countReport fills in what only the finished program shows.
func (c *compiler) countReport() {
	for _, s := range c.p.Slots {
		if s.Kind == SlotDynamic {
			c.p.Report.Dynamic++
		}
	}
	c.p.Report.CopiesPerTrip = c.p.Timeline.CopiesPerTrip()
}

// each calls f for every instruction, bodies included.
func (b *Block) each(f func(*Instr)) {
	for i := range b.Instrs {
		f(&b.Instrs[i])
		for _, body := range b.Instrs[i].Bodies {
			body.each(f)
		}
	}
}
