package cpu

import (
	"fmt"

	"github.com/berth-onnx/berth/backend/cpu/kern"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Fused elementwise groups.
//
// A chain of elementwise operators that writes every intermediate result to memory
// is bound by memory, not by arithmetic. An expression computes the whole chain on
// one block of elements after the other, small enough that the intermediates never
// leave the cache. The idea is that of Alea TK: what a chain reads in between are
// values without a place (there RValues, here steps); only its end is assigned to
// a place (the LValue, here the result), and that assignment is the only kernel.
//
//	x ──┐                        a block of 1024 elements
//	    Mul ── Add ── Sigmoid    ┌──────────────────────────────┐
//	s ──┘      │          │      │ r0 = x·s                     │  r0: scratch,
//	b ─────────┘          Mul    │ r0 = r0 + b                  │      per worker
//	x ────────────────────┘      │ r0 = sigmoid(r0)             │
//	                             │ result = r0·x                │
//	                             └──────────────────────────────┘
//
// Preparing gives every step a register, freed after its last reader, and turns
// the steps into a tape of row operations; broadcast operands are read by those as
// they are. Source of the idea: Alea TK design, sections "Value - Expression -
// Tensor" and "Assignment".

// Expr is a group of elementwise steps over float32 with broadcasting.
type Expr struct {
	Shape  []int         // of the result
	Result ndarray.DType // Float32, or Bool where the last step gives truth values
	Leaves []Leaf        // the operands, in the order of Call.In; at most 12
	Steps  []Step        // in order of execution; the last one is the result
}

// Leaf is an operand of an expression; its shape broadcasts to the result's.
type Leaf struct {
	Shape []int
	DType ndarray.DType // Float32, or Bool, which is read as 0 and 1
}

// StepKind says what a step does.
type StepKind uint8

// The kinds of steps. Comparisons give 0 and 1.
const (
	StepUnary  StepKind = iota // Unary(A)
	StepBinary                 // A Binary B
	StepSelect                 // A ≠ 0 ? B : C
	StepEqual                  // A = B
	StepLess                   // A < B
	StepAtMost                 // A ≤ B
)

// Step is one operation of an expression.
type Step struct {
	Kind    StepKind
	Unary   kern.UnaryOp
	Binary  kern.BinaryOp
	P0, P1  float32 // parameters of Unary
	A, B, C Source
}

// Source is what a step reads: a leaf, an earlier step, or a number.
type Source struct {
	kind  sourceKind
	index int
	value float32
}

type sourceKind uint8

const (
	fromNone sourceKind = iota
	fromLeaf
	fromStep
	fromNumber
)

// LeafRef is the source that reads leaf i.
func LeafRef(i int) Source { return Source{kind: fromLeaf, index: i} }

// StepRef is the source that reads the result of step i.
func StepRef(i int) Source { return Source{kind: fromStep, index: i} }

// Number is the source that reads v everywhere.
func Number(v float32) Source { return Source{kind: fromNumber, value: v} }

// exprBlock is how many elements the tape runs over at a time; a few registers of
// them fit the L1 cache.
const exprBlock = 1024

// sources returns what a step reads.
func (s *Step) sources() []Source {
	switch s.Kind {
	case StepUnary:
		return []Source{s.A}
	case StepSelect:
		return []Source{s.A, s.B, s.C}
	}
	return []Source{s.A, s.B}
}

// Tape is a prepared expression: a kernel whose operands are the leaves and whose
// result 0 is the expression's. It is safe for concurrent use.
type Tape struct {
	n       *nest
	leaves  []tapeLeaf
	steps   []tapeStep
	numbers []float32
	regs    int // registers of a worker, for steps and for spread-out leaves
	threads int
	toBool  bool
}

type tapeLeaf struct {
	spread kern.Spread
	isBool bool
	reg    int // register the leaf is spread out to, -1 if it is read in place
}

type tapeStep struct {
	Step
	in  [3]tapeSource
	dst int // register, -1 for the result
}

// tapeSource is a source after register allocation.
type tapeSource struct {
	kind  sourceKind
	index int // leaf, register or number
}

// NewTape prepares an expression for a number of threads. It fails on sources that
// do not exist, on types it does not take and on too many leaves.
func NewTape(e Expr, threads int) (*Tape, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	shapes := make([][]int, len(e.Leaves))
	for i, l := range e.Leaves {
		shapes[i] = l.Shape
	}
	n, ok := newNest(e.Shape, shapes...)
	if !ok {
		return nil, fmt.Errorf("expression: %d leaves of shape %v have too many loops", len(e.Leaves), e.Shape)
	}
	t := &Tape{n: n, threads: max(threads, 1), toBool: e.Result == ndarray.Bool}
	t.place(e)
	return t, nil
}

func (e *Expr) check() error {
	if len(e.Steps) == 0 || len(e.Leaves) == 0 || len(e.Leaves) > maxOperands {
		return fmt.Errorf("expression: %d steps over %d leaves; it takes 1 to %d leaves", len(e.Steps), len(e.Leaves), maxOperands)
	}
	if e.Result != ndarray.Float32 && e.Result != ndarray.Bool {
		return fmt.Errorf("expression: result of type %s", e.Result)
	}
	for i, l := range e.Leaves {
		if l.DType != ndarray.Float32 && l.DType != ndarray.Bool {
			return fmt.Errorf("expression: leaf %d of type %s", i, l.DType)
		}
		shape, err := ops.BroadcastShapes(l.Shape, e.Shape)
		if err != nil || sizeOf(shape) != sizeOf(e.Shape) || len(shape) != len(e.Shape) {
			return fmt.Errorf("expression: leaf %d of shape %v does not broadcast to %v", i, l.Shape, e.Shape)
		}
	}
	for i := range e.Steps {
		s := &e.Steps[i]
		if s.Kind > StepAtMost {
			return fmt.Errorf("expression: step %d is of no known kind", i)
		}
		for _, x := range s.sources() {
			if x.kind == fromNone || x.kind == fromLeaf && (x.index < 0 || x.index >= len(e.Leaves)) ||
				x.kind == fromStep && (x.index < 0 || x.index >= i) {
				return fmt.Errorf("expression: step %d reads what is not there", i)
			}
		}
	}
	return nil
}

// place gives every step a register and decides which leaves are spread out: those
// that are no plain float32 rows, and those that a step other than a binary one
// reads while they are broadcast.
func (t *Tape) place(e Expr) {
	t.leaves = make([]tapeLeaf, len(e.Leaves))
	for i, l := range e.Leaves {
		t.leaves[i] = tapeLeaf{spread: t.n.spread(i), isBool: l.DType == ndarray.Bool, reg: -1}
	}
	lastUse := make([]int, len(e.Steps))
	for i := range e.Steps {
		s := &e.Steps[i]
		for _, x := range s.sources() {
			switch x.kind {
			case fromStep:
				lastUse[x.index] = i
			case fromLeaf:
				l := &t.leaves[x.index]
				if l.reg < 0 && (l.isBool || l.spread == uneven || s.Kind != StepBinary && l.spread != kern.Full) {
					l.reg = t.regs
					t.regs++
				}
			}
		}
	}
	var free []int
	reg := make([]int, len(e.Steps))
	for i := range e.Steps {
		s := tapeStep{Step: e.Steps[i], dst: -1}
		for k, x := range s.sources() {
			s.in[k] = t.source(x, reg)
		}
		// A register may be read and written by one step: rows go in place.
		for _, x := range s.sources() {
			if x.kind == fromStep && lastUse[x.index] == i {
				lastUse[x.index] = -1
				free = append(free, reg[x.index])
			}
		}
		if i < len(e.Steps)-1 || t.toBool {
			if last := len(free) - 1; last >= 0 {
				s.dst, free = free[last], free[:last]
			} else {
				s.dst = t.regs
				t.regs++
			}
		}
		reg[i] = s.dst
		t.steps = append(t.steps, s)
	}
}

func (t *Tape) source(x Source, reg []int) tapeSource {
	switch x.kind {
	case fromStep:
		return tapeSource{fromStep, reg[x.index]}
	case fromNumber:
		t.numbers = append(t.numbers, x.value)
		return tapeSource{fromNumber, len(t.numbers) - 1}
	}
	if r := t.leaves[x.index].reg; r >= 0 {
		return tapeSource{fromStep, r}
	}
	return tapeSource{x.kind, x.index}
}

// Scratch returns the bytes of workspace a run needs.
func (t *Tape) Scratch() int { return t.threads * t.regs * exprBlock * 4 }

// Run computes the expression over Call.In into Call.Out[0], which may be the
// memory of any leaf of the result's shape and type.
func (t *Tape) Run(c *ops.Call) error {
	runTilesOn(c, t.n.tiles, t.threads, t)
	return nil
}

func (t *Tape) tile(c *ops.Call, i, worker int) {
	b := block{t: t, c: c}
	if t.regs > 0 {
		b.regs = scratchOf[float32](c, worker*t.regs*exprBlock*4, t.regs*exprBlock)
	}
	for w := t.n.walk(i); w.next(); {
		// Whole rows as far as they fit, else pieces of a row.
		step := min(exprBlock, w.cols)
		most := max(1, exprBlock/w.cols)
		for r := 0; r < w.rows; r += most {
			for col := 0; col < w.cols; col += step {
				b.rows, b.cols = min(most, w.rows-r), min(step, w.cols-col)
				b.out = w.out + r*w.cols + col
				for k := range t.leaves {
					b.at[k] = w.at[k] + r*t.n.row[k] + col*t.n.step[k]
				}
				b.run()
			}
		}
	}
}

// block is the state of the tape on rows × cols elements.
type block struct {
	t          *Tape
	c          *ops.Call
	regs       []float32
	rows, cols int
	out        int
	at         [maxOperands]int
}

func (b *block) reg(i int) []float32 { return b.regs[i*exprBlock : i*exprBlock+b.rows*b.cols] }

func (b *block) run() {
	t := b.t
	for k := range t.leaves {
		if t.leaves[k].reg >= 0 {
			b.spreadOut(k)
		}
	}
	for i := range t.steps {
		b.step(&t.steps[i])
	}
	if t.toBool {
		dst := elems[bool](b.c.Out[0])[b.out : b.out+b.rows*b.cols]
		for i, v := range b.reg(t.steps[len(t.steps)-1].dst) {
			dst[i] = v != 0
		}
	}
}

// spreadOut writes a leaf to its register, element for element.
func (b *block) spreadOut(k int) {
	l, n := &b.t.leaves[k], b.t.n
	dst := b.reg(l.reg)
	row, step := n.row[k], n.step[k]
	if l.isBool {
		src := arrayOf(b.c.In[k]).Data[b.at[k]:]
		for r := range b.rows {
			for i := range b.cols {
				dst[r*b.cols+i] = float32(src[r*row+i*step])
			}
		}
		return
	}
	src := f32(b.c.In[k])[b.at[k]:]
	for r := range b.rows {
		d := dst[r*b.cols : (r+1)*b.cols]
		switch step {
		case 0:
			fill(d, src[r*row])
		case 1:
			copy(d, src[r*row:])
		default:
			for i := range d {
				d[i] = src[r*row+i*step]
			}
		}
	}
}

// operand returns the elements of a source and how they cover the block.
func (b *block) operand(s tapeSource) ([]float32, kern.Spread) {
	switch s.kind {
	case fromStep:
		return b.reg(s.index), kern.Full
	case fromNumber:
		return b.t.numbers[s.index : s.index+1], kern.One
	}
	return f32(b.c.In[s.index])[b.at[s.index]:], b.t.leaves[s.index].spread
}

func (b *block) step(s *tapeStep) {
	n := b.rows * b.cols
	var dst []float32
	if s.dst < 0 {
		dst = f32(b.c.Out[0])[b.out : b.out+n]
	} else {
		dst = b.reg(s.dst)
	}
	x, kx := b.operand(s.in[0])
	if s.Kind == StepUnary {
		if kx == kern.One {
			fill(dst, x[0])
			x = dst
		}
		kern.Unary(s.Unary, dst, x[:n], s.P0, s.P1)
		return
	}
	y, ky := b.operand(s.in[1])
	switch s.Kind {
	case StepBinary:
		kern.BinaryRows(s.Binary, dst, x, kx, y, ky, b.rows, b.cols)
	case StepSelect:
		z, kz := b.operand(s.in[2])
		selectRow(dst, x, stepOf(kx), y, stepOf(ky), z, stepOf(kz))
	default:
		truthRow(s.Kind, dst, x, stepOf(kx), y, stepOf(ky))
	}
}

// stepOf is how an operand that is full or single moves.
func stepOf(k kern.Spread) int {
	if k == kern.One {
		return 0
	}
	return 1
}

func selectRow(d, cond []float32, sc int, x []float32, sx int, y []float32, sy int) {
	for k := range d {
		if cond[k*sc] != 0 {
			d[k] = x[k*sx]
		} else {
			d[k] = y[k*sy]
		}
	}
}

func truthRow(kind StepKind, d, a []float32, sa int, b []float32, sb int) {
	for k := range d {
		x, y := a[k*sa], b[k*sb]
		d[k] = 0
		if kind == StepEqual && x == y || kind == StepLess && x < y || kind == StepAtMost && x <= y {
			d[k] = 1
		}
	}
}
