package cpu

import (
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ops"
)

// Fused elementwise groups.
//
// A chain of elementwise operators that writes every intermediate result to memory
// is bound by memory, not by arithmetic. An expression computes the whole chain on
// one block of elements after the other, small enough that the intermediates never
// leave the cache. The idea is that of Alea TK: intermediate results are RValues,
// which own no memory (here steps); only the end of the chain is assigned to an LValue,
// which does (here the result), and that assignment is the only kernel.
//
//	x ──┐                        a block of 1024 elements
//	    Mul ── Add ── Sigmoid    ┌──────────────────────────────┐
//	s ──┘      │          │      │ r0 = x·s                     │  r0: workspace
//	b ─────────┘          Mul    │ r0 = r0 + b                  │      of a worker
//	x ────────────────────┘      │ r0 = sigmoid(r0)             │
//	                             │ result = r0·x                │
//	                             └──────────────────────────────┘
//
// Preparation gives every step a register, freed after its last use, and makes the
// steps a tape of row operations, which read broadcast operands in place. Source: Alea
// TK design, sections "Value - Expression - Tensor" and "Assignment".

// expr is a group of elementwise steps over float32 with broadcasting.
type expr struct {
	shape  []int      // of the result
	leaves [][]int    // shapes of the operands, in the order of Call.In; they broadcast to shape
	steps  []exprStep // in order of execution; the last one is the result
}

// exprStep is a function of one source, or an operation of two.
type exprStep struct {
	isBinary bool
	unary    simd.UnaryOp
	p0       float32 // parameter of unary
	binary   simd.BinaryOp
	a, b     source
}

// source is what a step reads: a leaf, an earlier step, or a number.
type source struct {
	kind  sourceKind
	index int // of the leaf, step or number; of a register once it is allocated
	value float32
}

type sourceKind uint8

const (
	fromLeaf sourceKind = iota
	fromStep
	fromNumber
)

// leafRef is the source that reads leaf i.
func leafRef(i int) source { return source{kind: fromLeaf, index: i} }

// stepRef is the source that reads the result of step i.
func stepRef(i int) source { return source{kind: fromStep, index: i} }

// constantRef is the source that reads v everywhere.
func constantRef(v float32) source { return source{kind: fromNumber, value: v} }

// unaryStep is op(a) with a parameter.
func unaryStep(op simd.UnaryOp, p0 float32, a source) exprStep {
	return exprStep{unary: op, p0: p0, a: a}
}

// binaryStep is a op b.
func binaryStep(op simd.BinaryOp, a, b source) exprStep {
	return exprStep{isBinary: true, binary: op, a: a, b: b}
}

// sources returns what a step reads.
func (s *exprStep) sources() []source {
	if s.isBinary {
		return []source{s.a, s.b}
	}
	return []source{s.a}
}

// exprBlock is how many elements the tape runs over at a time; a few registers of
// them fit the L1 cache.
const exprBlock = 1024

// tape is a prepared expression: a kernel whose operands are the leaves and whose
// result 0 is the expression's.
type tape struct {
	n       *nest
	leaves  []tapeLeaf
	steps   []tapeStep
	numbers []float32
	regs    int // registers of a worker, for steps and for materialized leaves
	threads int
}

type tapeLeaf struct {
	spread vec.Spread
	reg    int // register that the leaf is materialized in, -1 if it is read in place
}

// tapeStep is a step after register allocation.
type tapeStep struct {
	exprStep
	dst int // register, -1 for the result
}

// newTape prepares an expression for a number of threads; nil if its leaves are too
// many or leave too many loops.
func newTape(e expr, threads int) *tape {
	n, ok := newNest(e.shape, e.leaves...)
	if !ok {
		return nil
	}
	t := &tape{n: n, threads: max(threads, 1)}
	t.allocate(e)
	return t
}

// allocate gives every step a register and decides which leaves are materialized:
// those without a spread that row kernels know, and broadcast ones that a unary step
// reads.
func (t *tape) allocate(e expr) {
	t.leaves = make([]tapeLeaf, len(e.leaves))
	for i := range e.leaves {
		t.leaves[i] = tapeLeaf{t.n.spread(i), -1}
	}
	lastUse := make([]int, len(e.steps))
	for i := range e.steps {
		s := &e.steps[i]
		for _, x := range s.sources() {
			switch x.kind {
			case fromStep:
				lastUse[x.index] = i
			case fromLeaf:
				l := &t.leaves[x.index]
				if l.reg < 0 && (l.spread == uneven || !s.isBinary && l.spread != vec.Full) {
					l.reg = t.regs
					t.regs++
				}
			}
		}
	}
	var free []int
	reg := make([]int, len(e.steps))
	for i := range e.steps {
		s := tapeStep{e.steps[i], -1}
		s.a = t.source(s.a, reg)
		if s.isBinary {
			s.b = t.source(s.b, reg)
		}
		// A register may be read and written by one step: rows go in place.
		for _, x := range e.steps[i].sources() {
			if x.kind == fromStep && lastUse[x.index] == i {
				lastUse[x.index] = -1
				free = append(free, reg[x.index])
			}
		}
		if i < len(e.steps)-1 {
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

// source replaces steps and materialized leaves by their registers.
func (t *tape) source(x source, reg []int) source {
	switch {
	case x.kind == fromStep:
		x.index = reg[x.index]
	case x.kind == fromNumber:
		t.numbers = append(t.numbers, x.value)
		x.index = len(t.numbers) - 1
	case t.leaves[x.index].reg >= 0:
		return stepRef(t.leaves[x.index].reg)
	}
	return x
}

// scratch returns the bytes of workspace a run needs.
func (t *tape) scratch() int { return t.threads * t.regs * exprBlock * 4 }

// Run computes the expression over Call.In into Call.Out[0], which may be the
// memory of any leaf of the result's shape.
func (t *tape) Run(c *ops.Call) error {
	runTasks(c, 0, t.n.tiles, 1, t.threads, t)
	return nil
}

func (t *tape) tile(c *ops.Call, i, worker int) {
	b := block{t: t, c: c, regs: scratchOf[float32](c, worker*t.regs*exprBlock*4, t.regs*exprBlock)}
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
	t          *tape
	c          *ops.Call
	regs       []float32
	rows, cols int
	out        int
	at         [maxOperands]int
}

func (b *block) reg(i int) []float32 { return b.regs[i*exprBlock : i*exprBlock+b.rows*b.cols] }

func (b *block) run() {
	for k := range b.t.leaves {
		if b.t.leaves[k].reg >= 0 {
			b.materialize(k)
		}
	}
	for i := range b.t.steps {
		b.step(&b.t.steps[i])
	}
}

// materialize writes a leaf to its register, element for element.
func (b *block) materialize(k int) {
	dst, src := b.reg(b.t.leaves[k].reg), f32(b.c.In[k])[b.at[k]:]
	row, step := b.t.n.row[k], b.t.n.step[k]
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
func (b *block) operand(s source) ([]float32, vec.Spread) {
	switch s.kind {
	case fromStep:
		return b.reg(s.index), vec.Full
	case fromNumber:
		return b.t.numbers[s.index : s.index+1], vec.One
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
	x, kx := b.operand(s.a)
	if s.isBinary {
		y, ky := b.operand(s.b)
		vec.BinaryRows(s.binary, dst, x, kx, y, ky, b.rows, b.cols)
		return
	}
	if kx == vec.One {
		fill(dst, x[0])
		x = dst
	}
	vec.Unary(s.unary, dst, x[:n], s.p0, 0)
}
