// Package chain computes chains: elementwise float32 instructions of a tile program that follow each other, in registers. It knows nothing of nodes and of
// how a group of them is cut into blocks.
package chain

import (
	"math"
	"slices"
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Chains: instructions of a group that follow each other, elementwise and of float32, are one step whose values stay in
// registers ([simd.ChainStep]). The steps of a chain have one accumulator:
//
//	%2 = Mul %0 ½        load %0, mul ½
//	%3 = Add %2 %1       add %1
//	%4 = Max %3 %2       max slot 0         %2 is read again: behind its mul it is stored to slot 0
//
// Results are those of the operations' own kernels bit for bit, but for which of two NaN operands a NaN is made of. A slot is memory for the vectors of one round, which stay in the first cache. Values that other steps
// read, and results, are stored where the group has them. What a line has beyond whole rounds is computed in slots.

// Block is the part of a group that a chain is made for, a matrix. Its sources are the arrays that kernels read and write, by number.
type Block struct {
	Program    *tile.Program
	Rows, Cols int
	Last       []int                  // by value: the last instruction that reads it, -1 for none
	Sources    []int                  // by value: its source
	Spread     func(s int) vec.Spread // how a source covers the matrix
	Number     func(i int)            // makes the source of the number that instruction i is
	Result     func(i int) int        // makes the source that instruction i writes
	IsInPlace  func(s int) bool       // the source is memory of the group's result
	Bytes      int                    // of a result
}

// Chain is a prepared chain. Its lines are the rows of a block, or the block as one.
type Chain struct {
	t          *simd.Table
	list       []step
	fills      []place // numbers that steps read as vectors
	ends       []place // operands and results, where the end of a line is computed
	rows, cols int     // of lines
	round      int     // elements that all steps compute before the next ones
	slots      int
	Args       []int // sources that are read and written, which the kernel is called with; the first is one of them
	runs       machine.FreeList[run]
}

// step is a step of a chain and what it reads or writes.
type step struct {
	op     simd.ChainOp
	of     place
	moves  bool
	far    bool      // the result is larger than caches: stored past them
	bounds []float32 // of ChainClip
}

// place is an argument of the kernel, -1 for none, a slot, or a slot for an argument.
type place struct {
	arg, slot int
	isWritten bool
}

// FarBytes is how large a result is that is stored past the caches, and whose operands are asked for ahead; tests set it.
var FarBytes = 8 << 20

// forms are the operations that an instruction may be.
type forms struct {
	alone                simd.ChainOp // on the accumulator
	op, of               simd.ChainOp // on the accumulator and memory, and with operands exchanged
	number, ofNumber     simd.ChainOp // on the accumulator and a number, likewise
	isExtreme, isChained bool         // numbers are neither NaN nor zero; the instruction can be one of a chain
}

// formsOf are the forms of an operator of float32.
func formsOf(op tile.Op) (f forms) {
	f.isChained = true
	switch op {
	case "Add":
		f.op, f.of, f.number, f.ofNumber = simd.ChainAdd, simd.ChainAdd, simd.ChainAddNumber, simd.ChainAddNumber
	case "Sub":
		f.op, f.of, f.number, f.ofNumber = simd.ChainSub, simd.ChainSubOf, simd.ChainSubNumber, simd.ChainSubOfNumber
	case "Mul":
		f.op, f.of, f.number, f.ofNumber = simd.ChainMul, simd.ChainMul, simd.ChainMulNumber, simd.ChainMulNumber
	case "Div":
		f.op, f.of = simd.ChainDiv, simd.ChainDivOf
	case "Max":
		f.op, f.of, f.number, f.ofNumber, f.isExtreme = simd.ChainMax, simd.ChainMaxOf, simd.ChainMaxNumber, simd.ChainMaxNumber, true
	case "Min":
		f.op, f.of, f.number, f.ofNumber, f.isExtreme = simd.ChainMin, simd.ChainMinOf, simd.ChainMinNumber, simd.ChainMinNumber, true
	case "Clip":
		f.alone = simd.ChainClip
	default:
		k := slices.Index(functions, op)
		f.alone, f.isChained = simd.ChainNeg+simd.ChainOp(k), k >= 0
	}
	return f
}

// functions are functions in the order of their steps; Square has no operator.
var functions = []tile.Op{"Neg", "Abs", "Sqrt", "Reciprocal", "", "Round", "Floor", "Ceil", "Relu"}

// isChained reports that instruction i may be one of a chain.
func isChained(p *tile.Program, i int) bool {
	x := &p.Instrs[i]
	f := formsOf(x.Op)
	if !f.isChained || x.DType != ndarray.Float32 || x.Row {
		return false
	}
	for k, a := range x.Args {
		if a != tile.None && (p.DType(a) != ndarray.Float32 || x.Op == "Clip" && k > 0 && !p.IsConstant(a)) {
			return false
		}
	}
	return true
}

// mostInstrs is how many instructions of a program one chain goes over: callers ask at each instruction of a group where a chain
// begins, and one that does not pay is refused only when its end is known.
const mostInstrs = 256

// end is the end of the longest chain that begins with instruction i, and the instructions in it.
func end(p *tile.Program, i int) (end, n int) {
	end = i
	for past := min(i+mostInstrs, len(p.Instrs)); i < past; i++ {
		if p.Instrs[i].Op == tile.Constant {
			continue
		}
		if !isChained(p, i) {
			break
		}
		end, n = i+1, n+1
	}
	return end, n
}

// IsOne reports that a program is a chain over memory that it reads and writes where it lies, so that long blocks cost nothing. cols is the
// length of the innermost loop.
func IsOne(p *tile.Program, loops *tile.Loops, cols int) bool {
	if end, _ := end(p, 0); end < len(p.Instrs) || simd.Active().ChainElems(cols, false) == 0 {
		return false
	}
	last := len(loops.Dims) - 1
	for _, s := range loops.Strides {
		if last >= 0 && s[last] != 0 && s[last] != 1 {
			return false
		}
	}
	return last <= 0 || cols >= longLine
}

// Unit is a number of elements that consists of whole rounds, whichever they are.
const Unit = 768

// longLine is a line that a chain serves whatever its operands cover.
const longLine = 1024

// maker makes a chain of instructions first up to end.
type maker struct {
	*Block
	c          *Chain
	first, end int
	acc        tile.Ref // value in the accumulator, or None
	slotOf     map[tile.Ref]int
	free       []int
}

// Make makes the longest chain that begins with instruction i, and says how many instructions it computes: 0 where none pays.
func Make(b *Block, i int) (c *Chain, n int) {
	t, isFar := simd.Active(), b.Bytes >= FarBytes
	if round := t.ChainElems(b.Rows*b.Cols, isFar); round == 0 || b.Rows*b.Cols < round { // before the walk to the end, which callers repeat at each instruction
		return nil, 0
	}
	end, count := end(b.Program, i)
	if count < 2 {
		return nil, 0
	}
	c = &Chain{t: t, rows: 1, cols: b.Rows * b.Cols}
	if b.hasLines(i, end) {
		c.rows, c.cols = b.Rows, b.Cols
	}
	if c.round = t.ChainElems(c.cols, isFar); c.cols < c.round || c.rows > 1 && c.cols < 2*c.round && c.cols%c.round != 0 {
		return nil, 0
	}
	m := &maker{Block: b, c: c, first: i, end: end, acc: tile.None, slotOf: map[tile.Ref]int{}}
	for k := i; k < end; k++ {
		m.instr(k)
	}
	c.list = m.ahead()
	return c, end - i
}

// hasLines reports that operands of instructions cover rows and columns in different ways.
func (b *Block) hasLines(first, end int) bool {
	for i := first; i < end; i++ {
		for _, a := range b.Program.Instrs[i].Args {
			if at := int(a) - len(b.Program.Operands); a == tile.None || at >= first {
				continue
			}
			if s := b.Spread(b.Sources[a]); s == vec.Row || s == vec.Col {
				return b.Rows > 1
			}
		}
	}
	return false
}

// instr adds the steps of an instruction.
func (m *maker) instr(i int) {
	x, value := &m.Program.Instrs[i], tile.Ref(len(m.Program.Operands)+i)
	if x.Op == tile.Constant {
		m.Number(i)
		return
	}
	f := formsOf(x.Op)
	switch {
	case x.Op == "Clip":
		m.hold(x.Args[0])
		m.add(step{op: f.alone, of: place{arg: -1}, bounds: m.bounds(x)})
	case f.alone != 0:
		m.hold(x.Args[0])
		m.add(step{op: f.alone, of: place{arg: -1}})
	case x.Args[0] == x.Args[1] && x.Op == "Mul":
		m.hold(x.Args[0])
		m.add(step{op: simd.ChainSquare, of: place{arg: -1}})
	default:
		m.pair(&f, x.Args[0], x.Args[1])
	}
	m.acc = value
	for k, a := range x.Args {
		if slot, ok := m.slotOf[a]; ok && m.isOwn(a) && m.Last[a] <= i && !slices.Contains(x.Args[:k], a) {
			m.free = append(m.free, slot)
		}
	}
	m.keep(value, i)
}

// ahead are the steps, and before the last one those that ask for operands of the next round, where results are larger than caches.
// Processors have begun few instructions of it by then: waiting for memory would follow the arithmetic in place of going on beside it.
func (m *maker) ahead() []step {
	if m.Bytes < FarBytes {
		return m.c.list
	}
	last := m.c.list[len(m.c.list)-1]
	m.c.list = m.c.list[:len(m.c.list)-1]
	for _, e := range m.c.ends {
		if !e.isWritten {
			m.add(step{op: simd.ChainAhead, of: e, moves: true})
		}
	}
	m.add(last)
	return m.c.list
}

// bounds are those of a Clip.
func (m *maker) bounds(x *tile.Instr) []float32 {
	b := []float32{-math.MaxFloat32, math.MaxFloat32}
	for k, a := range x.Args[1:] {
		if a != tile.None {
			b[k] = ndarray.Slice[float32](m.Program.Instr(a).Value)[0]
		}
	}
	return b
}

// pair adds an operation on two values.
func (m *maker) pair(f *forms, a, b tile.Ref) {
	op, number := f.op, f.number
	if m.acc == b && a != b || m.isNumber(a) && !m.isNumber(b) {
		a, b, op, number = b, a, f.of, f.ofNumber
	}
	m.hold(a)
	if !m.isNumber(b) || number == 0 || f.isExtreme && !m.isPlain(b) {
		m.memory(op, b)
		return
	}
	m.add(step{op: number, of: place{arg: m.arg(m.Sources[b])}})
}

// isPlain reports that a value is known, and neither NaN nor zero.
func (m *maker) isPlain(a tile.Ref) bool {
	if !m.Program.IsConstant(a) {
		return false
	}
	x := ndarray.Slice[float32](m.Program.Instr(a).Value)[0]
	return x == x && x != 0
}

// isNumber reports that a value is one number for a line.
func (m *maker) isNumber(a tile.Ref) bool {
	if m.isOwn(a) {
		return false
	}
	s := m.Spread(m.Sources[a])
	return s == vec.One || s == vec.Col
}

// isOwn reports that the chain computes a value.
func (m *maker) isOwn(a tile.Ref) bool {
	return int(a)-len(m.Program.Operands) >= m.first && !m.Program.IsConstant(a)
}

// hold brings a value into the accumulator.
func (m *maker) hold(a tile.Ref) {
	if m.acc != a {
		m.memory(simd.ChainLoad, a)
	}
}

// memory adds an operation on memory that holds a value.
func (m *maker) memory(op simd.ChainOp, a tile.Ref) {
	slot, ok := m.slotOf[a]
	switch {
	case ok:
		m.add(step{op: op, of: place{arg: -1, slot: slot}})
	case m.isNumber(a):
		slot = m.newSlot() // written once a line: no value's of a round
		m.slotOf[a] = slot
		m.c.fills = append(m.c.fills, place{arg: m.arg(m.Sources[a]), slot: slot})
		m.add(step{op: op, of: place{arg: -1, slot: slot}})
	default:
		m.stream(op, m.Sources[a])
	}
}

// arg is the argument that a source is.
func (m *maker) arg(source int) int {
	k := slices.Index(m.c.Args, source)
	if k < 0 {
		k = len(m.c.Args)
		m.c.Args = append(m.c.Args, source)
	}
	return k
}

// stream adds an operation on an operand, a result, or what other steps share.
func (m *maker) stream(op simd.ChainOp, source int) {
	arg := m.arg(source)
	at := slices.IndexFunc(m.c.ends, func(e place) bool { return e.arg == arg })
	if at < 0 {
		at = len(m.c.ends)
		m.c.ends = append(m.c.ends, place{arg: arg, slot: m.newSlot()})
	}
	end := &m.c.ends[at]
	end.isWritten = end.isWritten || op == simd.ChainStore
	m.add(step{op: op, of: *end, moves: true})
}

// keep stores a value that is read after the next instruction.
func (m *maker) keep(value tile.Ref, i int) {
	isResult := slices.ContainsFunc(m.Program.Results, func(r tile.Result) bool { return r.Value == value })
	if isResult || m.Last[value] >= m.end {
		source := m.Result(i)
		m.stream(simd.ChainStore, source)
		m.c.list[len(m.c.list)-1].far = isResult && m.IsInPlace(source) && m.Last[value] < 0 && m.Bytes >= FarBytes
		return
	}
	if m.Last[value] < 0 {
		return
	}
	next := i + 1
	for m.Program.Instrs[next].Op == tile.Constant {
		next++
	}
	x := &m.Program.Instrs[next]
	if m.Last[value] > next || len(x.Args) == 2 && x.Args[0] == x.Args[1] && x.Op != "Mul" {
		slot := m.slot()
		m.slotOf[value] = slot
		m.add(step{op: simd.ChainStore, of: place{arg: -1, slot: slot}})
	}
}

// slot is one that holds nothing.
func (m *maker) slot() int {
	if n := len(m.free); n > 0 {
		slot := m.free[n-1]
		m.free = m.free[:n-1]
		return slot
	}
	return m.newSlot()
}

func (m *maker) newSlot() int {
	m.c.slots++
	return m.c.slots - 1
}

func (m *maker) add(s step) { m.c.list = append(m.c.list, s) }

// slotBytes is what a slot takes.
func (c *Chain) slotBytes() int { return 4 * c.round }

// run is a chain in one call: steps that point at memory, and slots. There are as many as workers; the arena has no part of
// them, so that an expression in place takes no memory of a plan.
type run struct {
	*Chain
	call  *ops.Call
	steps []simd.ChainStep
	slots []byte
}

// Run computes a block.
func (c *Chain) Run(call *ops.Call) error {
	k := c.runs.Get()
	if k.Chain == nil {
		k.Chain, k.steps, k.slots = c, make([]simd.ChainStep, len(c.list)), ndarray.AlignedBytes(c.slots*c.slotBytes())
	}
	k.call = call
	rest := c.cols % c.round
	for r := range c.rows {
		k.fill(r)
		if whole := c.cols - rest; whole > 0 {
			k.point(r)
			c.t.Chain(c.round, k.steps, whole)
		}
		if rest > 0 {
			k.end(r, rest)
		}
	}
	k.call = nil
	c.runs.Put(k)
	return nil
}

// slot is the memory of a slot.
func (k *run) slot(i int) []byte { return k.slots[i*k.slotBytes():][:k.slotBytes()] }

// data is the memory of an argument.
func (k *run) data(arg int) []byte { return k.call.In[arg].(*ndarray.Array).Data }

// line is row r of an argument: all of it where it is the same in every row.
func (k *run) line(arg, r int) []byte {
	if n := 4 * k.cols; len(k.data(arg)) > n {
		return k.data(arg)[r*n:][:n]
	}
	return k.data(arg)
}

// number is that of an argument in row r.
func (k *run) number(arg, r int) []byte {
	a := k.data(arg)
	return a[min(4*r, len(a)-4):][:4]
}

// fill writes out numbers.
func (k *run) fill(r int) {
	for _, f := range k.fills {
		dst := k.slot(f.slot)
		for n := copy(dst, k.number(f.arg, r)); n < len(dst); n *= 2 {
			copy(dst[n:], dst[:n])
		}
	}
}

// point points steps at line r.
func (k *run) point(r int) {
	for i := range k.list {
		s, x := &k.list[i], &k.steps[i]
		x.Op, x.Moves, x.Base = s.op, simd.Stays, 0
		switch {
		case s.bounds != nil:
			x.Base = addressOf(machine.Ptr(s.bounds, 0))
		case s.moves:
			x.Base, x.Moves = addressOf(machine.Ptr(k.line(s.of.arg, r), 0)), simd.Moves
			if s.op == simd.ChainAhead {
				x.Base += uintptr(k.slotBytes())
			}
		case s.of.arg >= 0:
			x.Base = addressOf(machine.Ptr(k.number(s.of.arg, r), 0))
		case k.Chain.slots > 0:
			x.Base = addressOf(machine.Ptr(k.slot(s.of.slot), 0))
		}
	}
	for i := range k.list {
		if k.list[i].far && k.steps[i].Base%machine.LineBytes == 0 && !isOver(k.steps, i) {
			k.steps[i].Op = simd.ChainStream
		}
	}
}

// addressOf is the address that a step has: what is there is kept by the call, or by the chain.
func addressOf(p unsafe.Pointer) uintptr { return uintptr(p) }

// isOver reports that step i writes memory that another step reads or writes.
func isOver(steps []simd.ChainStep, i int) bool {
	for k := range steps {
		if k != i && steps[k].Base == steps[i].Base {
			return true
		}
	}
	return false
}

// end computes the last elements of line r, fewer than a round, in slots.
func (k *run) end(r, rest int) {
	k.point(r)
	for i := range k.list {
		if s := &k.list[i]; s.moves {
			k.steps[i].Op, k.steps[i].Base = s.op, addressOf(machine.Ptr(k.slot(s.of.slot), 0))
		}
	}
	for _, e := range k.ends {
		copy(k.slot(e.slot)[:4*rest], k.line(e.arg, r)[4*(k.cols-rest):])
	}
	k.t.Chain(k.round, k.steps, k.round)
	for _, e := range k.ends {
		if e.isWritten {
			copy(k.line(e.arg, r)[4*(k.cols-rest):], k.slot(e.slot)[:4*rest])
		}
	}
}
