package cpu

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/chain"
	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/internal/ops/fused"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Tile programs on the CPU.
//
// A chain of elementwise operators that writes every intermediate result to memory is bound by
// memory, not by arithmetic. A tile program runs all its instructions on one block of rows ×
// columns after the other, small enough that intermediate values stay in the cache:
//
//	x ──┐                        a block of 4096 elements
//	    Mul ── Add ── Sigmoid    ┌──────────────────────────────┐
//	s ──┘      │          │      │ r0 = x·s                     │  r0: workspace
//	b ─────────┘          Mul    │ r0 = r0 + b                  │      of a worker
//	x ────────────────────┘      │ r0 = sigmoid(r0)             │
//	                             │ result = r0·x                │
//	                             └──────────────────────────────┘
//
// Each instruction is run by the kernel that its operator has for matrices of a block's shape,
// so results are those of the single nodes, bit for bit, for every element type. All blocks have
// one shape but the last of each matrix, which makes two variants of prepared kernels.

var fusedOps = []entry{
	{domain: fused.Domain, op: fused.Name, prepare: func(p *prep) (ops.Kernel, error) {
		program, err := fused.Of(p.node)
		if err != nil {
			return nil, err
		}
		return p.group(program)
	}},
}

// Choice names the instructions, and the blocks they run over.
func (g *fusedGroup) Choice() backend.Choice {
	v := g.variants[0]
	return backend.Choice{Algorithm: "group by blocks: " + g.p.Names(), Reason: fmt.Sprintf("%d blocks of %d×%d stay in the cache", g.total, v.rows, v.cols)}
}

// blockElems is tile.BlockElems; tests set it.
var blockElems = tile.BlockElems

// chainBlocks is how many times as long the blocks of a group are that is one chain. Where results are stored past the caches there are so
// many blocks for each thread, of lengths between bounds: a block waits for its stores at its end, some microseconds.
const (
	chainBlocks       = 8
	farPerThread      = 4
	leastFar, mostFar = 64, 1024
)

// fusedGroup is a prepared tile program. Operands and results are those of the node.
type fusedGroup struct {
	p        *tile.Program
	loops    *tile.Loops
	homes    *tile.Registers
	bases    []int // by operand and result with a window: its first element
	placed   []int // by result: where its strides are among those of the loops, 0 if it has no window
	dims     []int // loops around the blocks
	rows     int   // of the matrix that blocks are cut from
	cols     int
	byRow    bool // blocks are whole rows, else pieces of one
	step     int  // rows or columns of a block
	blocks   int  // of one matrix
	total    int  // of all
	per      int  // blocks of a task
	variants [2]*variant
	threads  int
	ws       int   // offset of the workspace
	perWork  int   // bytes of it for each worker
	last     []int // by value: the last instruction that reads it
	frames   machine.FreeList[frame]
}

// group prepares a tile program over the node's operands; nil if it can not be run in blocks.
func (p *prep) group(program *tile.Program) (ops.Kernel, error) {
	g, err := p.loops(program)
	if err != nil || slices.Contains(g.loops.Shape, 0) {
		return nil, nil // the reference kernel reports what is wrong
	}
	g.last = program.LastReads()
	if p.ctx.Err() != nil { // programs of many instructions take long in each step
		return nil, p.ctx.Err()
	}
	g.homes = program.Allocate(func(o, k int) bool { return fused.MayCover(p.node, o, k) })
	g.cut()
	for i := range g.variants {
		if g.variants[i], err = g.variant(p, i == 1); g.variants[i] == nil && i == 0 || err != nil {
			return nil, err
		}
	}
	g.layout(p)
	return &tiled{g, ceilDiv(g.total, g.per), 1, p.threads}, nil
}

// loops plans the loops of a program over the node's operands.
func (p *prep) loops(program *tile.Program) (g *fusedGroup, err error) {
	g = &fusedGroup{p: program, threads: p.threads}
	if x := fused.PlacesOf(p.node); x != nil {
		g.loops, g.bases, g.placed, err = x.Loops(p.node, program)
		return g, err
	}
	all := make([]int, len(p.in)+len(p.out))
	g.bases, g.placed = all[:len(p.in)], all[len(p.in):]
	shapes := make([][]int, len(p.in))
	for i := range p.in {
		shapes[i] = p.in[i].shape
	}
	g.loops, err = program.Bind(shapes)
	return g, err
}

// cut divides the loops into blocks: whole rows of the last two loops, or pieces of the last.
func (g *fusedGroup) cut() {
	dims := g.loops.Dims
	g.rows, g.cols, g.byRow = 1, 1, true
	last := len(dims) - 1
	if last >= 0 {
		g.cols = dims[last]
		last--
	}
	elems, unit := blockElems, 16
	if chains.longer != nil {
		if n := chains.longer(g); n > 1 {
			elems, unit = elems*n, chain.Unit
		}
	}
	if g.byRow = g.p.Inner > 0 || g.cols < elems; !g.byRow {
		g.step = roundUp(ceilDiv(g.cols, ceilDiv(g.cols, elems)), unit)
		g.blocks = ceilDiv(g.cols, g.step)
	} else {
		if last >= 0 {
			g.rows = dims[last]
			last--
		}
		most := max(1, elems/g.cols)
		g.step = ceilDiv(g.rows, ceilDiv(g.rows, most))
		g.blocks = ceilDiv(g.rows, g.step)
	}
	g.dims = dims[:last+1]
	g.total = g.blocks * sizeOf(g.dims)
	if g.per = max(1, TileElems/g.step); g.byRow {
		g.per = max(1, TileElems/(g.step*g.cols))
	}
}

// shape is that of the blocks of a variant: the first ones or the last one of a matrix; ok is
// false if the last one is like the others.
func (g *fusedGroup) shape(isLast bool) (rows, cols int, ok bool) {
	all := g.cols
	if g.byRow {
		all = g.rows
	}
	n := min(g.step, all)
	if isLast {
		n = all - (g.blocks-1)*g.step
	}
	if g.byRow {
		return n, g.cols, !isLast || n != g.step
	}
	return 1, n, !isLast || n != g.step
}

// layout gives registers and the kernels' own workspace their bytes.
func (g *fusedGroup) layout(p *prep) {
	at, inner := 0, 0
	for _, v := range g.variants {
		if v == nil {
			continue
		}
		end := v.layout()
		at, inner = max(at, end), max(inner, v.scratch)
	}
	for _, v := range g.variants {
		if v != nil {
			v.scratchAt = at
		}
	}
	g.perWork = roundUp(at+inner, lineBytes)
	g.ws = p.workspace(min(g.threads, ceilDiv(g.total, g.per)) * g.perWork)
}

// variant is the program prepared for blocks of one shape.
type variant struct {
	g          *fusedGroup
	rows, cols int
	sources    []source
	values     []int // source of each value of the program
	steps      []groupStep
	instrs     []*tile.Instr // of the steps, while they are prepared
	moving     []int         // sources that are parts of operands and results
	copies     []int         // sources that are copied from operands before the steps
	staged     []int         // by result: the source that is copied into its window after the steps, or -1
	scratch    int           // bytes of workspace of the kernels
	scratchAt  int
}

// source is an array that kernels read or write: a part of an operand or a result, a register,
// or a number.
type source struct {
	kind   sourceKind
	index  int // operand, result, or register
	of     int // operand that a copy is made of
	dt     ndarray.DType
	shape  []int
	elems  int
	at     int // offset of a register, copy or staged result in the workspace
	number *ndarray.Array
	moved  *mover // of a copy or a staged result
	spread vec.Spread
	isFull bool
}

type sourceKind uint8

const (
	inOperand sourceKind = iota
	inResult
	inRegister
	inCopy
	inStage
	inNumber
)

// groupStep is one instruction.
type groupStep struct {
	args   []int // sources, -1 for absent ones
	out    int
	kernel ops.Kernel
	node   *ssa.Node
	axes   *ndarray.Array // the last operand of a reduction
	rows   *ranges        // set for kernels of ranges of elements: called directly
	binary *binaryF32     // set for operations on two float32 operands, likewise
	ka, kb vec.Spread     // how these cover the result
	rn, cn int            // rows and columns of the result
}

// variant prepares the kernels; nil if there are no such blocks, or one has no kernel.
func (g *fusedGroup) variant(p *prep, isLast bool) (*variant, error) {
	v := &variant{g: g}
	var ok bool
	if v.rows, v.cols, ok = g.shape(isLast); !ok {
		return nil, nil
	}
	v.values, v.staged = make([]int, g.p.NumValues()), slices.Repeat([]int{-1}, len(g.placed))
	v.sources, v.steps, v.instrs = make([]source, 0, len(v.values)), make([]groupStep, 0, len(g.p.Instrs)), make([]*tile.Instr, 0, len(g.p.Instrs))
	for o := range g.p.Operands {
		v.values[o] = len(v.sources)
		v.sources = append(v.sources, v.operand(o))
	}
	for i := 0; i < len(g.p.Instrs); {
		if err := p.ctx.Err(); err != nil {
			return nil, err
		}
		n := 0
		if chains.at != nil {
			n = chains.at(v, i)
		}
		if n == 0 {
			n = 1
			if err := v.instr(p, i); err != nil {
				return nil, err
			}
		}
		i += n
	}
	v.instrs = nil
	for i := range v.sources {
		s := &v.sources[i]
		if s.kind == inOperand || s.kind == inResult {
			v.moving = append(v.moving, i)
		} else if err := v.prepareMove(s); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// prepareMove prepares the copy between a source and the operand or result that it is a copy of.
func (v *variant) prepareMove(s *source) (err error) {
	of, rows := s.of, v.rows
	switch s.kind {
	case inCopy:
	case inStage:
		of = v.g.placed[s.index]
	default:
		return nil
	}
	if s.spread == vec.Row || s.spread == vec.One {
		rows = 1
	}
	row, step := v.strides(of)
	lists := [...]int{rows, s.cols(v), row, step, s.cols(v), 1}
	shape, there, here := lists[:2], lists[2:4], lists[4:]
	if s.kind == inCopy {
		there, here = here, there
	}
	s.moved, err = newMover(s.dt.Size(), shape, there, here, 0, 0)
	return err
}

// operand is how an operand covers a block: in place where it is a matrix, a row, a column or one
// element of contiguous memory, else as a copy of that form.
func (v *variant) operand(o int) source {
	row, step := v.strides(o)
	s := source{kind: inOperand, index: o, of: o, dt: v.g.p.Operands[o]}
	switch {
	case row == 0 && step == 0:
		s.spread = vec.One
	case row == 0 && v.rows > 1:
		s.spread = vec.Row
	case step == 0 && v.cols > 1:
		s.spread = vec.Col
	}
	s.setShape(v)
	if inPlace := (step == 0 || step == 1) && (row == 0 || row == s.cols(v)); !inPlace {
		s.kind = inCopy
		v.copies = append(v.copies, len(v.sources))
	}
	return s
}

// strides are the distances of an operand's elements between rows and within a row, 0 where
// there is only one.
func (v *variant) strides(o int) (row, step int) {
	all := v.g.loops.Strides[o]
	last := len(all) - 1
	if last >= 0 && v.cols > 1 {
		step = all[last]
	}
	if last > 0 && v.rows > 1 {
		row = all[last-1]
	}
	return row, step
}

// cols is the elements of a row of a source.
func (s *source) cols(v *variant) int {
	if s.spread == vec.Col || s.spread == vec.One {
		return 1
	}
	return v.cols
}

// isStaged reports that blocks of a result are no contiguous memory: they are written to workspace, and copied.
func (v *variant) isStaged(result int) bool {
	if v.g.placed[result] == 0 {
		return false
	}
	row, step := v.strides(v.g.placed[result])
	return !(step == 1 || v.cols == 1) || v.rows > 1 && row != v.cols
}

// setShape sets the shape of a source that covers a block in its way.
func (s *source) setShape(v *variant) {
	switch s.spread {
	case vec.Full:
		s.shape, s.isFull = []int{v.rows, v.cols}, true
	case vec.Row:
		s.shape = []int{1, v.cols}
	case vec.Col:
		s.shape = []int{v.rows, 1}
	default:
		s.shape = nil
	}
	s.elems = sizeOf(s.shape)
}

// instr prepares an instruction.
func (v *variant) instr(p *prep, i int) error {
	x := &v.g.p.Instrs[i]
	if x.Op == tile.Constant {
		v.number(i)
		return nil
	}
	s := groupStep{out: v.result(i), args: make([]int, 0, len(x.Args))}
	for k, a := range x.Args {
		if a == tile.None {
			s.args = append(s.args, -1)
			continue
		}
		s.args = append(s.args, v.argument(x, k, v.values[a]))
	}
	if same := v.like(x, &s); same != nil {
		args, out := s.args, s.out
		s = *same
		s.args, s.out = args, out
	} else if err := v.prepare(p, x, &s); err != nil {
		return err
	}
	v.steps, v.instrs = append(v.steps, s), append(v.instrs, x)
	return nil
}

// number makes a source of the number that instruction i is.
func (v *variant) number(i int) {
	x := &v.g.p.Instrs[i]
	v.values[len(v.g.p.Operands)+i] = len(v.sources)
	v.sources = append(v.sources, source{kind: inNumber, dt: x.DType, number: x.Value, spread: vec.One, elems: 1})
}

// result makes the source that instruction i writes.
func (v *variant) result(i int) int {
	x, at := &v.g.p.Instrs[i], len(v.g.p.Operands)+i
	v.values[at] = len(v.sources)
	out := source{kind: inRegister, index: v.g.homes.Of[i], dt: x.DType}
	if out.index < 0 {
		out.kind, out.index = inResult, ^out.index
		if v.isStaged(out.index) {
			out.kind, v.staged[out.index] = inStage, v.values[at]
		}
	}
	if x.Row {
		out.spread = vec.Col
	}
	out.setShape(v)
	v.sources = append(v.sources, out)
	return v.values[at]
}

// like is an earlier step whose kernel does the same for operands and results of the same types, nil if there is none.
func (v *variant) like(x *tile.Instr, s *groupStep) *groupStep {
	for i, y := range v.instrs {
		t := &v.steps[i]
		if x.Op == y.Op && x.DType == y.DType && x.Row == y.Row && x.Func == y.Func && slices.Equal(x.Params, y.Params) &&
			v.sources[s.out].isLike(&v.sources[t.out]) && slices.EqualFunc(s.args, t.args, v.areLike) {
			return t
		}
	}
	return nil
}

// areLike reports that kernels can not tell two sources apart, -1 for absent ones.
func (v *variant) areLike(a, b int) bool {
	return a == b || a >= 0 && b >= 0 && v.sources[a].isLike(&v.sources[b])
}

// isLike reports that kernels for two sources of a variant are the same.
func (s *source) isLike(t *source) bool {
	return s.dt == t.dt && s.spread == t.spread && slices.Equal(s.shape, t.shape) && s.number == t.number
}

// argument is the source that an instruction reads argument k from: functions of one operand
// and those of rows read elements one by one, so that smaller operands are written out first.
func (v *variant) argument(x *tile.Instr, k, at int) int {
	needsAll := k == 0 && x.Op.ReadsAlone() && (!x.Row || x.Op.Reduces())
	if s := v.sources[at]; !needsAll || s.isFull || s.kind != inOperand && s.kind != inCopy {
		return at
	}
	for _, c := range v.copies {
		if v.sources[c].of == v.sources[at].of && v.sources[c].isFull {
			return c
		}
	}
	c := source{kind: inCopy, of: v.sources[at].of, dt: v.sources[at].dt}
	c.setShape(v)
	v.sources = append(v.sources, c)
	v.copies = append(v.copies, len(v.sources)-1)
	return len(v.sources) - 1
}

// prepare finds the kernel of an instruction for a block's shape.
func (v *variant) prepare(p *prep, x *tile.Instr, s *groupStep) error {
	in := make([]*ssa.Value, len(s.args))
	for k, a := range s.args {
		if a >= 0 {
			in[k] = v.sources[a].value()
		}
	}
	s.node = fused.Node(x, in, v.sources[s.out].value())
	s.kernel = ops.KernelFunc(ops.Eval)
	if x.Op.Reduces() {
		axes, err := s.node.In[len(in)].Const.Array()
		if err != nil {
			return err
		}
		s.axes = axes
	}
	q, ok := newPrep(s.node, 1)
	if !ok {
		return nil
	}
	q.ctx, q.weights, q.options = p.ctx, p.weights, p.options
	k, err := prepareInstr(q)
	if k == nil || err != nil {
		return err
	}
	s.kernel, v.scratch = k, max(v.scratch, int(q.scratch))
	switch k := k.(type) {
	case *ranges:
		if k.per >= k.n {
			s.rows, s.node = k, nil // kernels for many shapes may be kept: without what only preparing needs
		}
	case *tiled:
		if s.binary, _ = k.tiler.(*binaryF32); s.binary != nil {
			s.spreads(v)
			s.node = nil
		}
	}
	return nil
}

// spreads reads how the operands of a float32 operation cover the result; row values are vectors.
func (s *groupStep) spreads(v *variant) {
	s.rn, s.cn = v.rows, v.cols
	s.ka, s.kb = v.sources[s.args[0]].spread, v.sources[s.args[1]].spread
	if v.sources[s.out].spread == vec.Col {
		s.cn, s.ka, s.kb = 1, asColumn(s.ka), asColumn(s.kb)
	}
}

// asColumn is the spread of an operand over a column.
func asColumn(k vec.Spread) vec.Spread {
	if k == vec.One {
		return vec.One
	}
	return vec.Full
}

// prepareInstr prepares the kernel of an instruction's node; nil if there is none. It is set
// later, because the table of operators, which it reads, has operators that are programs.
var prepareInstr func(q *prep) (ops.Kernel, error)

func init() {
	prepareInstr = func(q *prep) (ops.Kernel, error) {
		e := table[ops.Key{Domain: q.node.Domain, Name: q.node.Op}]
		if e.prepare == nil {
			return nil, nil
		}
		return prepareEntry(q, e)
	}
}

// value is a source as the operand or result of a node.
func (s *source) value() *ssa.Value {
	v := &ssa.Value{Type: ssa.StaticTensor(s.dt, s.shape...)}
	if s.number != nil {
		v.Const = ssa.NewConstant(s.number)
	}
	return v
}

// layout gives registers and copies their offsets and returns the bytes.
func (v *variant) layout() (end int) {
	reserve := func(bytes int) (at int) {
		at = end
		end += roundUp(bytes, lineBytes)
		return at
	}
	homes := make([]int, len(v.g.homes.Width)) // one behind their offsets; 0 for those that are not used
	stages := make([]int, len(v.staged))
	for k, i := range v.staged {
		if i >= 0 {
			stages[k] = reserve(v.rows * v.cols * v.sources[i].dt.Size())
		}
	}
	for i := range v.sources {
		switch s := &v.sources[i]; s.kind {
		case inRegister:
			if homes[s.index] == 0 {
				homes[s.index] = 1 + reserve(s.elems*s.dt.Size())
			}
			s.at = homes[s.index] - 1
		case inStage:
			s.at = stages[s.index]
		case inCopy:
			s.at = reserve(s.elems * s.dt.Size())
		}
	}
	return end
}
